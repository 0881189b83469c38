# SPDX-License-Identifier: Apache-2.0
"""Look simple commands up in the catalog and record what they do.

A program that the catalog does not know is an arbitrary program. Programs with a language of their
own (find, git, interpreters, ...) have readers in `policy.programs.readers`; all others are data
alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

from policy.facts import How
from policy.model import Tier
from policy.programs import carriers as carried
from policy.programs import output_options as outputs
from policy.programs import own_programs
from policy.programs.arguments import named_commands, secret_files, written_files
from policy.programs.catalog_schema import (
    Carrier,
    CatalogFile,
    CodeCall,
    Entry,
    Pattern,
    Programs,
    Use,
    Variable,
)
from policy.programs.entries import output, record_phrases, valued_options, verb
from policy.programs.forms import Forms
from policy.programs.visible_text import MOST_SCANNED, squeezed, visible_ends
from policy.shell import held_scripts
from policy.shell.builtins import BUILTINS, QUIET
from policy.shell.expand.words import source
from policy.shell.redirects import store
from policy.shell.state import Call
from policy.shell.walker import Shell, unbraced
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, NET, PROGRAM, globbed, known_part, pattern, shown, unknown
from policy.values.paths import absolute

_BIN = re.compile(
    r"(?:/(?:usr/(?:local/)?)?s?bin|/opt/homebrew/bin|/usr/lib/(?:git-core|jvm/[^/]+/bin))/([^/]+)"
)
_TOOLS = re.compile(r".*/(?:node_modules/\.bin|\.?venv/bin|env/bin|\.tox/[^/]+/bin)/([^/]+)")
_OWN_NAME = re.compile(r"(?![A-Z][a-z]+-[A-Z])[A-Za-z][A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*\.?")
_REACHES_OUT = frozenset(
    ("publish", "release", "deploy", "push", "upload", "login", "send", "post", "tunnel", "delete",
     "destroy", "drop", "purge", "wipe", "reset", "uninstall", "install", "sync", "transfer", "pay")
)  # fmt: skip
"""Verbs with which a program that nobody knows does more than its own work."""
_WRAPPERS = re.compile(r".*/(gradlew|mvnw)")
"""Build tools that a project carries along."""
_VERSION = re.compile(r"(?<=[a-z])-?\d+(?:\.\d+)*$")
_ASKED_ABOUT = (("--version",), ("--help",))
"""Arguments with which every program only says something about itself."""
_GNU = re.compile(
    r"g(rm|rmdir|unlink|chmod|chown|chgrp|dd|shred|ls|cat|head|tail|tee|mkdir|truncate|sort|touch|ln"
    r"|wc|cut|date|readlink|realpath|stat|split|base64|env|nice|nohup|stdbuf|kill|xargs|uniq|tr|id)"
)
"""GNU's tools where the system has others of the same name."""
_MOST_WORDS = 256
"""Words of a command that rules on programs look at."""
_MOST_GUESSED = 64
"""Words of a command whose program is not known that are tried with programs it can be."""
_SQL_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_SQL_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*+'", re.DOTALL)
_SQL_MADE = re.compile(
    r"(?i)\b(?:execute|exec|prepare|do|call|eval|format|dblink)\b|\$\$|^\s*[\\.]"
)
"""What runs a text as a statement."""
_QUOTES = re.compile(r"""\\\n|['"\\]""")
_HOW = {
    Use.READ: How.READ,
    Use.SEARCH: How.SEARCH,
    Use.LIST: How.LIST,
    Use.EXIST: How.EXIST,
    Use.RUN: How.RUN,
    Use.WRITE: How.WRITE,
    Use.META: How.META,
    Use.DELETE: How.DELETE,
    Use.TREE: How.TREE,
    Use.MOVE: How.MOVE,
}


Reader = Callable[["Catalog", Shell, Call, Programs], str]
"""Records what one call of a program does and returns what it prints."""


class Catalog:
    """Knows programs; built once from `policy/catalog/*.yaml`."""

    def __init__(self, files: Sequence[CatalogFile], readers: Mapping[str, Reader]) -> None:
        """`readers` are those that entries name as their `handler`."""
        self.readers = readers
        self.entries: dict[str, Programs] = {}
        self.exact: dict[str, Variable] = {}
        self.globbed: list[tuple[str, Variable]] = []
        self.patterns: dict[str, list[tuple[re.Pattern[str], Pattern]]] = {}
        self.calls: dict[str, list[tuple[re.Pattern[str], CodeCall]]] = {}
        self.carriers: dict[str, list[Carrier]] = {}
        self.own: own_programs.Own = {}
        self.git_keys: tuple[str, ...] = ()
        """Settings of git that a policy file asks about."""
        self.doubtful = frozenset(name for file in files for name in file.doubtful)
        self.forms = Forms(form for file in files for form in file.forms)
        for file in files:
            for carrier in file.carriers:
                for name in carrier.programs:
                    self.carriers.setdefault(name, []).append(carrier)
            for entry in file.programs:
                for name in entry.programs:
                    self.entries[name] = entry
            for variable in file.variables:
                for name in variable.names:
                    if "*" in name:
                        self.globbed.append((name, variable))
                    else:
                        self.exact[name] = variable
            for one in file.patterns:
                compiled = re.compile(one.pattern, re.IGNORECASE | re.DOTALL)
                for language in one.where:
                    self.patterns.setdefault(language, []).append((compiled, one))
            for rule in file.calls:
                matcher = re.compile(rule.call)
                for language in rule.where:
                    self.calls.setdefault(language, []).append((matcher, rule))

    def with_own(self, added: tuple[own_programs.OwnProgram, ...]) -> Catalog:
        """Return a catalog that also knows what a person says of programs of their own."""
        made = copy.copy(self)
        made.own = own_programs.indexed(self.own, added)
        return made

    def with_git_keys(self, added: tuple[str, ...]) -> Catalog:
        """Return a catalog that also asks about settings of git (`section.*.key`)."""
        made = copy.copy(self)
        made.git_keys = (*self.git_keys, *(one.lower() for one in added))
        return made

    def run(self, shell: Shell, call: Call) -> str:
        """Record what one command does and return what it prints."""
        name = call.name
        shell.facts.calls[call.words[:_MOST_WORDS]] = None
        if unknown(name) or globbed(name):
            return self._unclear(shell, call)
        if "/" in name:
            return self._by_path(shell, call)
        for folder in shell.state.search:
            if (
                content := shell.files.content.get(absolute(f"{folder}/{name}", shell.state.place))
            ) is not None:
                return self.content(shell, content, call)
        if (builtin := BUILTINS.get(name)) is not None:
            shell.facts.programs[name] = None
            return builtin(shell, call)
        if name in QUIET:
            shell.facts.programs[name] = None
            return ""
        return self.known(shell, call)

    def known(self, shell: Shell, call: Call) -> str:
        """Record what a program of this name does."""
        entry = self.lookup(call.name)
        if entry is None:
            shell.facts.programs[call.name] = None
            shell.facts.writes = True
            said = self.own.get(call.name, ())
            printed = own_programs.record_call(shell, call, said)
            if said:
                pass
            elif self._projects_own(call):
                why = "is a program of the project, or not there; the cell and gate 2 hold it"
                shell.find(Tier.CAUTION, "unknown-program", f"`{call.name}` {why}")
            else:
                why = f"`{call.name}` is not a program that the policy knows"
                shell.find(Tier.DANGER, "unknown-program", why, call.name)
            carried.guess(self, shell, call)
            outputs.record(self, shell, call, in_place=True)
            secret_files.record(shell, call, None)
            return printed
        name = self._known_as(call.name)
        if name != call.name:
            call = replace(call, words=(name, *call.args))
        shell.facts.programs[name] = None
        if call.args in _ASKED_ABOUT and entry.tier is not Tier.FORBIDDEN:
            return HOLE
        entry = self.forms.milder(call, entry)
        reader = self.readers[entry.handler] if entry.handler else Catalog.by_data
        with shell.standing_in(call):
            out = reader(self, shell, call, entry)
        if call.stdin is not None and NET in call.stdin and HOLE in out:
            out += NET  # whatever it makes of what came from the network
        secret_files.record(shell, call, entry)
        if entry.writes and entry.tier is not Tier.SAFE:
            outputs.record(self, shell, call)
            named_commands.record(self, shell, call)
        for carrier in self.carriers.get(name, ()):
            out += carried.record_command(self, shell, call, carrier)
        return out

    def _projects_own(self, call: Call) -> bool:
        """Return whether a program that nobody knows is named plainly, as people name their own.

        It counts like `python FILE`. Not what an image has or what administers a machine, and no
        name that the text hides or makes.
        """
        name = call.name
        if name in self.doubtful and call.args not in _ASKED_ABOUT:
            return False  # what it says of itself does nothing
        if not _OWN_NAME.fullmatch(name) or _REACHES_OUT.intersection(call.args[:2]):
            return False
        return call.named or (call.node is not None and name in source(call.node).split())

    def lookup(self, name: str) -> Programs | None:
        """Return the entry of a program, whatever version its name carries."""
        return self.entries.get(self._known_as(name))

    def knows(self, name: str) -> bool:
        """Return whether a program has this name."""
        return self.lookup(name) is not None

    def _known_as(self, name: str) -> str:
        """Return the name under which the catalog may hold a program."""
        plain = name.removesuffix(".exe")
        if plain in self.entries:
            return plain
        if (found := _GNU.fullmatch(plain)) is not None:
            return found[1]
        return _VERSION.sub("", plain)

    def _unclear(self, shell: Shell, call: Call) -> str:
        name = call.name
        if NET in name:
            shell.find(
                Tier.FORBIDDEN, "remote-script", "it runs a command that came from the network"
            )
            return HOLE
        if name.count("\n") == 0 and " " in known_part(name):
            self.scan(shell, " ".join(call.words))
        shell.facts.writes = True
        shell.find(Tier.DANGER, "opaque", f"the program `{shown(name)}` cannot be known")
        if call.node is not None and unknown(name):
            shell.suspect(source(call.node))
        if len(call.args) > _MOST_GUESSED:
            self.scan(shell, " ".join(call.words))
            call = replace(call, words=(name, *_telling(call.args)), plain=False)
        known = known_part(name).rsplit("/", 1)[-1]
        if globbed(known):
            wanted = pattern(known)
            found = [entry for entry in self.entries if wanted.fullmatch(entry)]
            found = sorted(found, key=lambda one: not carried.telling(self.entries[one]))[:8]
            for one in found:
                self.known(shell, Call((one, *call.args), call.stdin, call.env, plain=False))
        elif known and known in self.entries:
            self.known(shell, Call((known, *call.args), call.stdin, call.env, plain=False))
        if known == "" and call.args and self.lookup(call.args[0]) is not None:
            shell.call(Call(call.args, call.stdin, call.env))
        elif known == "":
            self.scan(shell, " ".join(known_part(argument) for argument in call.args))
        return HOLE

    def _by_path(self, shell: Shell, call: Call) -> str:
        path = shell.resolve(call.name)
        content = shell.files.content.get(path)
        if content is not None and path not in shell.files.built:
            return self.content(shell, content, call)
        match = _BIN.fullmatch(path) or _TOOLS.fullmatch(path) or _WRAPPERS.fullmatch(path)
        if path in shell.files.built:
            shell.facts.programs[call.name] = None
            shell.touch(How.RUN, call.name)
            shell.find(Tier.CAUTION, "build", f"it runs `{call.name}`, which it built")
            return NET if call.stdin is not None and NET in call.stdin else HOLE
        if match is not None:
            inner = Call((match[1], *call.args), call.stdin, call.env, plain=False)
            if match[1] in BUILTINS or match[1] in QUIET:
                return self.run(shell, inner)
            return self.known(shell, inner)
        base = path.rsplit("/", 1)[-1]
        if base.startswith(("ld-linux", "ld-musl")) or re.fullmatch(
            r"ld-[\d.]+\.so|ld\.so.*", base
        ):
            return self.known(shell, Call(("ld.so", *call.args), call.stdin, call.env, plain=False))
        said = own_programs.at_path(self.own, shell, path)
        if said and held_scripts.rewritten(shell.facts, path):
            said = ()
        before = set(shell.facts.findings)
        self.script(shell, call.name, call)
        if said:
            own_programs.believe_path(shell, before)
        return own_programs.record_call(shell, call, said)

    def script(self, shell: Shell, path: str, call: Call | None = None) -> None:
        """Record that a file is run which the text itself did not write; `call` starts it by its
        path, without a program that reads it."""
        shell.facts.writes = True
        shell.facts.programs[path] = None
        shell.touch(How.RUN, path)
        if not self.downloaded(shell, path):
            started = call or Call((path,), plain=False)
            work = partial(self._content, shell, call=started)
            held_scripts.run_script(shell, path, work, program=call is not None)

    def downloaded(self, shell: Shell, path: str) -> bool:
        """Record that a file is run which the text itself downloaded; return whether it is one."""
        full = shell.resolve(path)
        found = any(full.startswith(one + "/") for one in shell.files.foreign)
        if found:
            shell.find(Tier.FORBIDDEN, "remote-script", f"it runs the downloaded file `{path}`")
        return found

    def content(self, shell: Shell, content: str, call: Call) -> str:
        """Run a file whose content the text itself wrote."""
        shell.facts.programs[call.name] = None
        path = shell.resolve(call.name)
        if shell.runs_itself(path, content):
            return HOLE
        shell.scripts.append(path)
        try:
            return self._content(shell, content, call)
        finally:
            shell.scripts.pop()

    @staticmethod
    def _content(shell: Shell, content: str, call: Call) -> str:
        if content.startswith(PROGRAM):
            return shell.call(Call((content[1:], *call.args), call.stdin, call.env, plain=False))
        first, _, _ = content.partition("\n")
        if first.startswith("#!"):
            words = first[2:].split()
            if words:
                program = [word for word in words if "=" not in word and word != "-S"]
                return shell.call(Call((*program, "-", *call.args), content, call.env, plain=False))
        return shell.call(Call(("sh", "-s", *call.args), content, call.env, plain=False))

    # Data

    def by_data(self, shell: Shell, call: Call, entry: Entry) -> str:
        """Record what an entry says of a call."""
        valued = valued_options(entry)
        parsed = parse(
            call.args,
            valued,
            tuple(entry.alarms) + entry.in_place,
            in_order=entry.wraps is not None,
        )
        if entry.verbs:
            chosen = verb(entry, parsed.operands)
            if chosen is not None:
                name, inner = chosen
                shell.facts.programs[f"{call.name} {name}"] = None
                rest = call.args[call.args.index(parsed.operands[0]) + 1 :]
                record_phrases(shell, entry, call)
                self._options(shell, parsed, entry, call)
                said = Call((f"{call.name} {name}", *rest), call.stdin, call.env)
                return self.by_data(shell, said, self.forms.milder(said, inner))
        return self.apply(shell, call, entry, parsed)

    def apply(self, shell: Shell, call: Call, entry: Entry, parsed: Parsed) -> str:
        """Record what an entry says of a call whose arguments are already split."""
        record_phrases(shell, entry, call)
        if entry.tier is not Tier.SAFE or entry.phrases:
            shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
        shell.facts.writes |= entry.writes
        shell.facts.network |= entry.network
        self._options(shell, parsed, entry, call)
        self._operands(shell, parsed, entry, call)
        if entry.wraps is not None and len(parsed.operands) > entry.wraps:
            return shell.call(call.only(tuple(parsed.operands[entry.wraps :])))
        return output(entry, call)

    def _options(self, shell: Shell, parsed: Parsed, entry: Entry, call: Call) -> None:
        for flag, values in parsed.flags.items():
            if (alarm := entry.alarms.get(flag)) is not None:
                shell.find(alarm.tier, alarm.rule, f"`{call.name} {flag}`: {alarm.because}")
            if (use := entry.uses.get(flag)) is not None:
                for value in values:
                    self.use(shell, use, value, call)

    def _operands(self, shell: Shell, parsed: Parsed, entry: Entry, call: Call) -> None:
        uses = entry.operands
        if not uses:
            return
        operands = parsed.operands[: entry.wraps] if entry.wraps is not None else parsed.operands
        writes = bool(entry.in_place) and parsed.has(*entry.in_place)
        for at, value in enumerate(operands):
            use = uses[min(at, len(uses) - 1)]
            if entry.last is not None and at == len(operands) - 1 and at > 0:
                use = entry.last
            if at > _MOST_WORDS and use in _HOW and shell.full():
                continue
            self.use(shell, use, value, call)
            if writes and use in (Use.READ, Use.SEARCH):
                self.use(shell, Use.WRITE, value, call)

    def use(self, shell: Shell, use: Use, value: str, call: Call) -> None:
        """Record one use of a value."""
        if use is Use.TEXT or not value:
            return
        if use is Use.SHELL:
            shell.aside(lambda: shell.run_text(value))
        elif use is Use.PROGRAM:
            shell.aside(lambda: shell.call(Call(tuple(value.split()), plain=False)))
        elif use is Use.URL:
            shell.facts.network = True
        elif value not in ("-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"):
            if use is Use.WRITE and shell.feed(value, HOLE):
                return
            shell.touch(_HOW[use], value, program=call.name)
            if use is Use.WRITE:
                store(shell, value, HOLE)

    def statements(self, shell: Shell, text: str) -> None:
        """Record what statements for a database do."""
        plain = re.sub(r"\s+", " ", _SQL_COMMENT.sub(" ", shown(text[:MOST_SCANNED]))).strip()
        bare = plain if _SQL_MADE.search(plain) else _SQL_TEXT.sub("''", plain)
        for wanted, one in self.patterns.get("sql", ()):
            if wanted.search(plain if one.id == "delete-always" else bare):
                shell.find(one.tier, one.id, one.because)

    # Environment and unreadable text

    def environment(self, shell: Shell, name: str, value: str) -> None:
        """Record what setting a variable does to the programs that follow."""
        variable = self._variable(name)
        if name == "PATH":
            self._search(shell, value)
        if name == "PATH" or variable is not None:
            shell.facts.settings[name, value] = None
        if variable is None or value in variable.harmless:
            return
        shell.find(variable.tier, variable.rule, f"`{name}`: {variable.because}")
        if variable.value == "shell":
            shell.aside(lambda: shell.run_text(value))
        elif variable.value == "folders":
            for folder in value.split(":"):
                if folder and not unknown(folder):
                    shell.touch(How.RUN, folder)
        elif variable.value == "prompt":
            shell.aside(lambda: shell.words.evaluated(value))
        elif variable.value == "file":
            content = shell.held(value)
            if content is not None:
                shell.aside(lambda: shell.run_text(content))
            else:
                shell.touch(How.RUN, value)
        elif variable.value == "options":
            self.scan(shell, value.replace("\\ ", " "))
        elif variable.value == "command":
            self.scan(shell, value)

    def exported(self, shell: Shell, name: str, value: str) -> None:
        """Record what a variable does to the programs that are started with it."""
        shell.facts.settings[name, value] = None
        written_files.record(shell, name, value)
        if (found := self._variable(name)) is not None and found.tier is not Tier.SAFE:
            words = Call((name, *value.split()))
            secret_files.record(shell, words, None, operands=True)
            if found.value == "options":
                outputs.record(self, shell, words)

    def _variable(self, name: str) -> Variable | None:
        return self.exact.get(name) or next(
            (one for wanted, one in self.globbed if fnmatchcase(name, wanted)), None
        )

    def _search(self, shell: Shell, value: str) -> None:
        folders = value.split(":")
        odd = []
        for folder in folders:
            full = absolute(folder, shell.state.place) if folder else shell.state.place
            if not _TRUSTED_FOLDER.search(full) or unknown(folder):
                odd.append(full)
        shell.state.search = tuple(odd)
        if odd:
            shell.find(Tier.DANGER, "environment", "`PATH`: names of programs get another meaning")

    def scan(self, shell: Shell, text: str) -> None:
        """Record what can be seen in a text that cannot be read with certainty."""
        for piece in visible_ends(text):
            # Once more: what quotes and braces kept apart may be a run without them.
            plain = squeezed(unbraced(_QUOTES.sub("", piece)))
            for wanted, one in self.patterns.get("opaque", ()):
                if wanted.search(plain):
                    shell.find(one.tier, one.id, one.because)


def _telling(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first options and the first operands among many arguments, each once."""
    args = tuple(dict.fromkeys(args))
    options = [argument for argument in args if argument.startswith("-")][:_MOST_GUESSED]
    return (
        *options,
        *[argument for argument in args if not argument.startswith("-")][:_MOST_GUESSED],
    )


_TRUSTED_FOLDER = re.compile(
    r"^/(?:usr/(?:local/)?)?s?bin$|^/opt/[\w/.-]*bin$|/(?:node_modules/\.bin|\.?venv/bin)$"
    r"|^/(?:home/[^/]+|root)/\.(?:local|cargo|nvm|pyenv|rbenv|bun|deno)/[\w/.-]*(?:bin|shims)$|^/snap/bin$"
    r"|^/usr/local/(?:go|cuda)/bin$"
)
