# SPDX-License-Identifier: Apache-2.0
"""Commands inside the arguments of other programs: version managers, watchers, task runners, ...

Where a program's arguments hold a command is data (`carriers` of the catalog). For programs that
the policy does not know, `guess` looks for words and texts that can only be meant as a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from policy.facts import Facts, How
from policy.model import Tier
from policy.programs.catalog_schema import Carrier, Programs
from policy.programs.environment import EnvironmentReader
from policy.shell.interpreter import Shell
from policy.shell.state import Call

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BANG = re.compile(r"(?m)^[ \t]*+:*+!++[ \t]*+(\S.*)$")
_SCRIPT = re.compile(r"^(npm|pnpm|yarn|bun):")
_ENVIRONMENT = re.compile(r"^[A-Za-z][\w.+-]*:(?=[A-Za-z])")
"""`hatch run ENVIRONMENT:command`."""
_SCRIPTS = frozenset(
    ("format", "init", "login", "wipe", "import", "install", "link", "start", "serve", "test",
     "check", "clean", "build", "docs", "lint", "fmt", "stream", "display", "open", "mail", "host")
)  # fmt: skip
"""Names of programs that are more often names of a project's scripts."""
_MOST_TEXTS = 16
_MOST_WORDS = 1024
"""Words of an unknown program among which a command is looked for."""
_PLAIN = frozenset(("rm", "shell", "privilege", "wrapper", "env", "xargs", "chmod", "multicall"))
"""Readers of programs whose names mean little else than the programs."""
_SPEAKS = frozenset(
    ("-m", "--message", "--title", "--body", "--description", "--comment", "--name", "--label",
     "--subject", "--grep", "--pattern", "--search", "--query", "--notes")
)  # fmt: skip
_READERS = frozenset(
    ("echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "git", "sed", "awk", "cat",
     "jq")
)  # fmt: skip
"""Programs whose arguments are texts, not commands."""
_SURE = frozenset(
    ("mkfs", "mke2fs", "wipefs", "shred", "dd", "reboot", "poweroff", "shutdown", "nmap")
)
_PREFIX = re.compile(r"^\s*(?:[:!@]+|(?:platform )?shell\s|exec\s|command\s)\s*")


def record_command(catalog: EnvironmentReader, shell: Shell, call: Call, carrier: Carrier) -> str:
    """Record what the command in the arguments would do, and return what it would print."""
    words, texts = _taken(catalog, shell, call, carrier)
    if carrier.input:
        texts = [match[1] for one in (*texts, call.stdin or "") for match in _BANG.finditer(one)]
    scripts = (_SCRIPT.sub(r"\1 run ", text) for text in texts[:_MOST_TEXTS])
    out = "".join(shell.run_text(script, call.stdin) for script in scripts)
    if carrier.seek:
        guess(catalog, shell, call)
    if carrier.scripts != "none" and words:
        words = [_ENVIRONMENT.sub("", words[0]), *words[1:]]
    if not words or _script(catalog, carrier, words):
        return out
    if carrier.joined or (len(words) == 1 and " " in words[0].strip()):
        out += shell.run_text(" ".join(words), call.stdin)
        if len(words) == 1:
            return out
    return out + shell.call(call.only(tuple(words)))


def _script(catalog: EnvironmentReader, carrier: Carrier, words: list[str]) -> bool:
    """Return whether the words name a script of the project, whose text is not known here."""
    match carrier.scripts:
        case "all":
            return not plausible(catalog, words)
        case "some":
            return words[0] in _SCRIPTS or not ("/" in words[0] or _named(catalog, words[0]))
        case _:
            return False


def _named(catalog: EnvironmentReader, word: str) -> bool:
    return catalog.lookup(word.rsplit("/", 1)[-1]) is not None


def _taken(
    catalog: EnvironmentReader, shell: Shell, call: Call, carrier: Carrier
) -> tuple[list[str], list[str]]:
    """Return the words of the command, and the shell texts."""
    args = call.args
    texts: list[str] = []
    verb: list[str] = []
    found, skipped, at, last = not carrier.verbs, 0, 0, ""
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            if found and (not carrier.dashes or any("{}" in carry for carry in carrier.carries)):
                return list(args[at:]), texts
            continue
        if len(word) > 1 and word[0] in "-+" and not word[1].isspace():
            at, rest = _option(shell, carrier, args, at, texts)
            if rest is not None:
                return (rest, texts) if found else ([], texts)
            continue
        if not found:
            verb.append(word)
            text = " ".join(verb)
            found = text in carrier.verbs
            if not found and not any(one.startswith(text + " ") for one in carrier.verbs):
                return [], []
            continue
        if skipped < carrier.skip:
            skipped += 1
        elif carrier.assigns and _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            catalog.environment(shell, name, value)
            catalog.exported(shell, name, value)
        elif carrier.each:
            texts.append(word)
        elif carrier.seek and not _named(catalog, word):
            last = word
        elif not carrier.dashes:
            return list(args[at - 1 :]), texts
    return [last] if " " in last.strip() else [], texts


def _option(
    shell: Shell, carrier: Carrier, args: tuple[str, ...], at: int, texts: list[str]
) -> tuple[int, list[str] | None]:
    """Take the option before `at`; return where to go on, and the command if it follows."""
    word = args[at - 1]
    name, equals, value = word.partition("=")
    if word in carrier.rest:
        return at, list(args[at:])
    if equals and name in carrier.rest:
        return at, [value, *args[at:]]
    settings: list[str] = []
    for known, taken in (
        (carrier.texts, texts),
        (carrier.settings, settings),
        (carrier.reads, None),
    ):
        short = next(
            (option for option in known if len(option) == 2 and word.startswith(option)), ""
        )
        if word in known:
            given = args[at] if at < len(args) else ""
            at += 1
        elif equals and name in known:
            given = value
        elif short and not word.startswith("--"):
            given = word[2:].removeprefix("=")
        else:
            continue
        if taken is settings:
            texts.append(given.partition("=")[2].removeprefix("!"))
        elif taken is not None:
            taken.append(given)
        elif given:
            shell.touch(How.READ, given)
        return at, None
    return at + (word in carrier.values), None


# Guesses


def guess(catalog: EnvironmentReader, shell: Shell, call: Call) -> None:
    """Look at what an unknown program may start: words or texts that stand there as a command.

    Only what a trial finds forbidden counts, since the program itself is asked about already.
    """
    for candidate in islice(_candidates(catalog, call), _MOST_TEXTS):
        _try(shell, candidate, call.stdin)


def _try(shell: Shell, what: str | Call, stdin: str | None) -> None:
    """Read a text or a command apart, and keep what it does only where that matters."""
    tried = Facts()
    kept, shell.facts = shell.facts, tried
    try:
        if isinstance(what, str):
            shell.aside(lambda: shell.run_text(what, stdin))
        else:
            shell.aside(lambda: shell.call(what))
    finally:
        shell.facts = kept
    shell.facts.programs |= tried.programs
    if any(finding.tier is Tier.FORBIDDEN for finding in tried.findings) or tried.touches:
        shell.facts.findings |= tried.findings
        shell.facts.touches |= tried.touches
        shell.facts.calls |= tried.calls
        shell.facts.writes |= tried.writes


def _candidates(catalog: EnvironmentReader, call: Call) -> Iterator[str | Call]:
    before = ""
    for at, word in enumerate(call.args[:_MOST_WORDS]):
        name, equals, value = word.partition("=")
        text = value if equals and word[:1] == "-" else word
        speaks = (name if equals else before) in _SPEAKS
        before = word
        if speaks:
            continue
        if word in _READERS:
            return
        if " " in text.strip():
            plain = _PREFIX.sub("", text)
            if plain and plausible(catalog, plain.split()):
                yield plain
        elif plausible(catalog, call.args[at : at + 2]):
            yield Call((word, *call.args[at + 1 :]), call.stdin, call.env, plain=False)
            return


def plausible(catalog: EnvironmentReader, words: Sequence[str]) -> bool:
    """Return whether words are more likely a command than a mention of one."""
    if len(words) < 2:
        return False
    base = words[0].rsplit("/", 1)[-1]
    if base.split(".")[0] in _SURE:
        return True
    entry = catalog.entries.get(base)
    return entry is not None and telling(entry)


def telling(entry: Programs) -> bool:
    """Return whether the names of an entry are hardly ever anything but programs."""
    return entry.handler in _PLAIN


def literal(catalog: EnvironmentReader, shell: Shell, text: str) -> None:
    """Run a text that a literal of a program holds, if it can only be meant as a command."""
    plain = _PREFIX.sub("", text)
    words = plain.split()
    if plausible(catalog, words):
        shell.aside(lambda: shell.run_text(plain))
    elif named(catalog, words):
        _try(shell, plain, None)


def named(catalog: EnvironmentReader, words: Sequence[str]) -> bool:
    """Return whether words may be a command: a program of the catalog and something for it."""
    return len(words) > 1 and _named(catalog, words[0])
