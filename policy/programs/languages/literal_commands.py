# SPDX-License-Identifier: Apache-2.0
"""Commands in the literals of a program, in whatever language: `system("...")` by any name.

Looks at each literal that can only be meant as a command, and at whether the call around it runs
one or merely shows text. It knows no grammar; `literal_code` knows the calls of some languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.programs import carriers
from policy.programs.catalog import Catalog
from policy.shell.interpreter import Shell
from policy.shell.state import Call

_LITERAL = re.compile(
    r"(?<!\\)(?:'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|`((?:[^`\\]|\\.)*+)`)|\[\[((?:[^\]\[]|\](?!\])|\[(?!\[))*+)\]\]"
    r"|(?:\b(?:q[qwx]?|qqx)\s*|%[wWqQxi]?)[({\[/|<]([^)}\]/|>]*)[)}\]/|>]",
    re.DOTALL,
)
_RUNS = re.compile(
    r"(?i)system\d?|exec|spawn|popen|run|cmd|shell|process|command|\bsh\b|call|pipe|open|unix|dos"
    r"|term|launch|query|prepare|\$$|bash|\bproc\b|esys|eval|escape"
)
_SAYS = re.compile(
    r"(?i)^(?:\w+[.:])*(?:print\w*|puts|p|pp|say|write\w*|append\w*|log|info|warn|error|debug|echo"
    r"|disp\w*|message|format|put_?str\w*|console|assert\w*|match\w*|replace|sub|gsub|test|expect"
    r"|describe|it|contains|includes?|indexof|startswith|raise|die|fail|throw|comment)$"
)
_AFTER = re.compile(r"\s*\)?\s*\.?(?:execute|lines|!|run\b|exec\b|spawn\b|system\b)")
_NAME_BEFORE = re.compile(r"([$\w.:!?-]*)\s*$")
_NAME_AFTER = re.compile(r"\s*([$\w.:/!?-]*)")
_BETWEEN = re.compile(r"[\s,\[\]{}]*(?:\w+\s*:\s*|\w*\()?[\s,\[\]{}]*$")
_SQL = re.compile(r"(?i)^\s*(?:drop|delete\s+from|truncate)\b")
_MOST_LITERALS = 64
_MOST_BEFORE = 400
"""Characters before a literal in which the call around it is looked for."""
_MOST_TEXT = 32 * 1024


def read(catalog: Catalog, shell: Shell, text: str, call: Call) -> None:
    """Run the commands that literals of a program hold."""
    text = text[:_MOST_TEXT]
    done: set[str] = set()
    for command, statement in _commands(catalog, text):
        if statement:
            catalog.statements(shell, statement)
        elif command not in done:
            done.add(command)
            carriers.literal(catalog, shell, command)


def _commands(catalog: Catalog, text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a command and a statement for a database, one of them empty."""
    matches = [one for one, _ in zip(_LITERAL.finditer(text), range(_MOST_LITERALS), strict=False)]
    bodies = [next((part for part in match.groups() if part is not None), "") for match in matches]
    for at, literal in enumerate(matches):
        if not _runs(text, matches[: at + 1], literal):
            continue
        if _SQL.search(bodies[at]):
            yield "", bodies[at]
        words = [bodies[at].strip("| \t\n")]
        for one, body in zip(matches[at + 1 :], bodies[at + 1 :], strict=True):
            before = matches[at + len(words) - 1]
            if not _BETWEEN.fullmatch(text[before.end() : one.start()]):
                break
            words.append(body)
        if carriers.named(catalog, words[0].split()):
            yield words[0], ""
        elif carriers.named(catalog, words):
            quoted = ("'" + word.replace("'", "'\\''") + "'" for word in words[1:])
            yield " ".join((words[0], *quoted)), ""


def _runs(text: str, before: list[re.Match[str]], literal: re.Match[str]) -> bool:
    """Return whether what stands around a literal runs commands."""
    if literal[3] is not None or literal[0].startswith(("qx", "%x")) or "|" in literal[0][1:-1:]:
        return True
    first = max(0, literal.start() - _MOST_BEFORE)
    bare = list(text[first : literal.start()])
    for match in before[-9:-1]:
        if match.start() >= first:
            bare[match.start() - first : match.end() - first] = " " * (match.end() - match.start())
    plain = "".join(bare)
    if _AFTER.match(text, literal.end()):
        return True
    names = list(_around(plain))
    return not any(_SAYS.search(name) for name in names[:1]) and any(
        _RUNS.search(name) for name in names
    )


def _around(plain: str) -> Iterator[str]:
    """Yield the names before a literal: what stands there, then each call that is still open."""
    rest = re.sub(r"[\s,]+$", "", plain)
    word = _NAME_BEFORE.search(rest)
    if word and word[1]:
        yield word[1]
    depth = 0
    for at in range(len(plain) - 1, -1, -1):
        if plain[at] in ")}]":
            depth += 1
        elif plain[at] in "([{":
            if depth:
                depth -= 1
                continue
            before = _NAME_BEFORE.search(plain[:at])
            if before and before[1]:
                yield before[1]
            after = _NAME_AFTER.match(plain, at + 1)
            if after and after[1]:
                yield after[1]
        elif plain[at] in ";\n" and not depth:
            return
