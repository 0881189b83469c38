# SPDX-License-Identifier: Apache-2.0
"""find and fd: lists of files, and what their actions do to each."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import NAME, ONE, STAR, unknown
from policy.values.paths import below

_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_WRITES = frozenset(("-fprint", "-fprint0", "-fls", "-fprintf"))
_RESTRICTS = frozenset(
    ("-mtime", "-mmin", "-atime", "-ctime", "-size", "-empty", "-newer", "-user", "-regex",
     "-iregex", "-maxdepth", "-perm", "-links", "-inum", "-samefile")
)  # fmt: skip
_START = frozenset(("-H", "-L", "-P"))
_NAMES = ("-name", "-iname", "-path", "-ipath", "-wholename")


def _find(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = list(call.args)
    starts: list[str] = []
    while words and (words[0] in _START or words[0].startswith(("-O", "-D"))):
        words = words[2 if words[0] == "-D" else 1 :]
    while words and not words[0].startswith("-") and words[0] not in ("(", "!", ")", ","):
        starts.append(words.pop(0))
    starts = starts or ["."]
    named = [words[at + 1] for at, one in enumerate(words[:-1]) if one in _NAMES]
    everywhere = How.EXIST if _looks_for_names(named) else How.LIST
    for start in starts:
        whole = shell.resolve(start) == "/"
        shell.touch(everywhere if whole else How.LIST, start, program="find")
    if any(_KEYS.search(one) for one in named) and any(_is_elsewhere(shell, one) for one in starts):
        shell.find(Tier.DANGER, "secrets", "`find` looks for keys or credentials")
    results = _results(starts, named, words)
    at = 0
    while at < len(words):
        word = words[at]
        if word in _RUNS:
            at = _execute(shell, call, words, at, results, local=word.endswith("dir"))
        elif word == "-delete":
            shell.find(Tier.DANGER, "delete", "`find -delete` deletes what it finds")
            for result in results:
                shell.touch(How.DELETE, result, program="find")
            if not (set(words) & _RESTRICTS or [one for one in named if one.strip("*")]):
                shell.find(
                    Tier.FORBIDDEN,
                    "recursive-delete",
                    "`find -delete` without a name deletes whole trees",
                )
        elif word in _WRITES and at + 1 < len(words):
            catalog.use(shell, Use.WRITE, words[at + 1], call)
            shell.facts.writes = True
        elif word == "-files0-from" and at + 1 < len(words):
            shell.touch(How.READ, words[at + 1])
        at += 1
    return "\n".join(results) + "\n" if named else NAME + "\n"


_KEYS = re.compile(
    r"(?i)id_|rsa|dsa|ed25519|\.pem|\.key|cred|secret|token|passw|\.env|\.ssh|\.aws|netrc|shadow|key"
    r"|kube|npmrc|history|wallet|cookie|\.pfx|\.p12|htpasswd|\.gnupg|pgpass|config$"
)


def _looks_for_names(named: list[str]) -> bool:
    """Return whether `find` asks where files of ordinary names are, as `which` does."""
    known = [one for one in named if len(one.strip("*?")) > 1 and not unknown(one)]
    return bool(known) and known == named and not any(_KEYS.search(one) for one in known)


def _is_elsewhere(shell: Shell, start: str) -> bool:
    return not any(below(shell.resolve(start), place) for place in shell.state.places)


def _results(starts: list[str], named: list[str], words: list[str]) -> list[str]:
    active = [one.replace("*", STAR).replace("?", ONE) for one in named]
    globs = [one for one in active if "/" not in one]
    paths = [one.lstrip(STAR + "/") for one in active if "/" in one]
    if paths and not globs:
        return [f"{start.rstrip('/')}/{path}" for start in starts for path in paths][:8]
    if not globs:
        if "-maxdepth" in words and words[
            words.index("-maxdepth") + 1 : words.index("-maxdepth") + 2
        ] == ["0"]:
            return starts
        return [f"{one.rstrip('/')}/{NAME}" if one != "." else NAME for one in starts]
    return [f"{start.rstrip('/')}/{glob}" for start in starts for glob in globs][:8]


def _execute(
    shell: Shell, call: Call, words: list[str], at: int, results: list[str], *, local: bool
) -> int:
    end = at + 1
    while (
        end < len(words)
        and words[end] not in (";", "\\;")
        and not (words[end] == "+" and words[end - 1] == "{}")
    ):
        end += 1
    command = words[at + 1 : end]
    for result in results[:3]:
        filled = tuple(part.replace("{}", result) for part in command)
        if filled:
            shell.call(Call(filled, None, call.env, plain=False))
    return end


def _fd(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = list(call.args)
    for flag in ("-x", "--exec", "-X", "--exec-batch"):
        if flag in words:
            at = words.index(flag)
            command = tuple(word.replace("{}", NAME) for word in words[at + 1 :] if word != ";")
            if command:
                plain = command if NAME in "".join(command) else (*command, NAME)
                shell.call(Call(plain, None, call.env, plain=False))
            words = words[:at]
    parsed = parse(
        words,
        (
            "-e",
            "--extension",
            "-t",
            "--type",
            "-d",
            "--max-depth",
            "-E",
            "--exclude",
            "-S",
            "--size",
            "--changed-within",
            "-j",
            "-c",
            "--color",
            "-g",
        ),
    )
    for path in parsed.operands[1:] or ["."]:
        shell.touch(How.LIST, path, program="fd")
    return NAME + "\n"


READERS = {"find": _find, "fd": _fd}
