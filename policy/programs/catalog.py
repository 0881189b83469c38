# SPDX-License-Identifier: Apache-2.0
"""Look simple commands up in the catalog and record what they do.

A program that the catalog does not know is an arbitrary program. Programs with a language of their
own (find, git, interpreters, ...) have readers in `policy.programs.readers`; all others are data
alone (`by_data`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from policy.facts import How
from policy.model import Tier
from policy.programs import carriers, own_programs
from policy.programs import output_options as outputs
from policy.programs.arguments import named_commands, secret_files
from policy.programs.by_data import MOST_WORDS
from policy.programs.catalog_schema import CatalogFile, Programs
from policy.programs.environment import EnvironmentReader
from policy.shell import held_scripts
from policy.shell.builtins import BUILTINS, QUIET
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.shell.syntax.quoting import source
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
_ASKED_ABOUT = (("--version",), ("--help",))
"""Arguments with which every program only says something about itself."""
_MOST_GUESSED = 64
"""Words of a command whose program is not known that are tried with programs it can be."""


Reader = Callable[["Catalog", Shell, Call, Programs], str]
"""Records what one call of a program does and returns what it prints."""


class Catalog(EnvironmentReader):
    """Knows programs, and reads their calls."""

    def __init__(self, files: Sequence[CatalogFile], readers: Mapping[str, Reader]) -> None:
        """`readers` are those that entries name as their `handler`."""
        super().__init__(files)
        self.readers = readers

    def run(self, shell: Shell, call: Call) -> str:
        """Record what one command does and return what it prints."""
        name = call.name
        shell.facts.calls[call.words[:MOST_WORDS]] = None
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
            carriers.guess(self, shell, call)
            outputs.record(self, shell, call, in_place=True)
            secret_files.record(shell, call, None)
            return printed
        name = self.known_as(call.name)
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
            out += carriers.record_command(self, shell, call, carrier)
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
            found = sorted(found, key=lambda one: not carriers.telling(self.entries[one]))[:8]
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
        foreign = any(full.startswith(f"{folder}/") for folder in shell.files.foreign)
        if foreign:
            shell.find(Tier.FORBIDDEN, "remote-script", f"it runs the downloaded file `{path}`")
        return foreign

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


def _telling(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first options and the first operands among many arguments, each once."""
    args = tuple(dict.fromkeys(args))
    options = [argument for argument in args if argument.startswith("-")][:_MOST_GUESSED]
    return (
        *options,
        *[argument for argument in args if not argument.startswith("-")][:_MOST_GUESSED],
    )
