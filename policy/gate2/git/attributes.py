# SPDX-License-Identifier: Apache-2.0
"""Attributes by which git runs a person's driver, or commits another text than a file shows. Pure.

Source: gitattributes(5). Drivers that git has itself, and git-lfs, may be named; what else a name
means stands in settings on the host, and the program there would run on files of the call's choice.
"""

from __future__ import annotations

import re

_KNOWN = {
    "filter": frozenset(("lfs",)),
    "merge": frozenset(("text", "binary", "union", "lfs")),
    "diff": frozenset(
        (
            *("ada", "bash", "bibtex", "cpp", "csharp", "css", "dts", "elixir", "fortran"),
            *("fountain", "golang", "html", "java", "kotlin", "lfs", "markdown", "matlab"),
            *("objc", "pascal", "perl", "php", "python", "r", "ruby", "rust", "scheme", "tex"),
        )
    ),
}
_HIDING = ("working-tree-encoding", "ident")
"""Git commits another text than the file has: decoded, or without what stands in `$Id: $`."""
_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^ \t\r\n]+')


def held_attributes(before: str | None, after: str) -> list[str]:
    """Return the attributes that come with a change and wait for a person."""
    old = set(_named(before or ""))
    return list(dict.fromkeys(word for word, where in _named(after) if (word, where) not in old))


def _named(text: str) -> list[tuple[str, str]]:
    """Return the attributes that count; those that hide text also with the files they are for."""
    found = []
    for line in text.split("\n"):
        words = _WORD.findall(line)
        if words and not words[0].startswith("#"):
            for word in filter(_counts, words[1:]):
                hides = word.partition("=")[0] in _HIDING
                found.append((word, words[0] if hides else ""))
    return found


def _counts(word: str) -> bool:
    name, _, value = word.partition("=")
    if name in _HIDING:
        return name != "ident" or not value
    return bool(value) and name in _KNOWN and value not in _KNOWN[name]
