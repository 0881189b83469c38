# SPDX-License-Identifier: Apache-2.0
"""See at a glance which programs a plain text runs, and compare what two readings saw.

Most command lines are lists and pipes of plain words. For those this reading is exact, so that no
slower second reading (`policy.gate1.bashlex_worker`) could see more. It does not understand
substitutions, compound commands, here-documents and comments: for these it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from policy.model import LayerAnswer, Verdict
from policy.programs.catalog import Catalog
from policy.values.partial import clean

MOST_TEXT = 8 * 1024
"""Characters; longer texts are not plain."""
RULE = "second-opinion"
_VALUE = r"\$[A-Za-z_]\w*|\$\{\w+\}"
_TOKEN = re.compile(
    rf"""
      (?P<blank>[ \t]+)
    | (?P<redirect>\d*+(?:<<<|<&|<>|<(?![<(])|>>|>\||>&|>(?!\()|&>>?))
    | (?P<ends>\|\||&&|\|&|[|;&\n])
    | (?P<word>(?!\#)(?:
          [^ \t\n'"\\$`;|&<>()]++
        | \\[^\n]
        | '[^']*+'
        | "(?:[^"$`\\]++|\\[^\n]|{_VALUE})*+"
        | {_VALUE}
      )++)
    """,
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z0-9_./+-]+")
_QUIET = ("[", ":")
"""Names that no reading needs to record: they run nothing."""
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_RESERVED = frozenset(
    ("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
     "select", "function", "time", "coproc", "in")
)  # fmt: skip


def programs(text: str) -> tuple[str, ...] | None:
    """Return the programs that a plain text names, or None where the text is not plain."""
    if len(text) > MOST_TEXT:
        return None
    found: dict[str, None] = {}
    at, target, named = 0, False, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        kind = token.lastgroup
        if kind == "word":
            word = token[0]
            if target or named or _ASSIGNED.match(word):
                target = False
                continue
            if word not in _QUIET:
                if word in _RESERVED or not _NAME.fullmatch(word):
                    return None
                found[word] = None
            named = True
        elif kind == "redirect":
            target = True
        elif kind == "ends":
            target = named = False
    return tuple(found)


def overlooked(seen: Iterable[str], known: Iterable[str], catalog: Catalog) -> str | None:
    """Return a program that another reading saw and the first one did not, or None.

    `known` are the names that the first reading recorded (`git`, `git push`, `./tool.sh`); folders
    and the version in a name do not count.
    """
    names = {one.split(" ", 1)[0].rsplit("/", 1)[-1] for one in known}
    for one in seen:
        name = one.rsplit("/", 1)[-1]
        if name in names:
            continue
        entry = catalog.lookup(name)
        if entry is None or not names.intersection(entry.programs):
            return name
    return None


def answer(name: str) -> LayerAnswer:
    """Return what gate 1 says of a program that the first reading overlooked."""
    return LayerAnswer(
        layer="tier",
        verdict=Verdict.ASK,
        reason=f"a second reading of the text finds the program `{clean(name)}` in it",
        rule=RULE,
    )


def answer_unread() -> LayerAnswer:
    """Return what gate 1 says where a text wants a second reading and nobody can be asked."""
    return LayerAnswer(
        layer="tier",
        verdict=Verdict.ASK,
        reason="the second reading of the text could not be asked",
        rule=RULE,
    )
