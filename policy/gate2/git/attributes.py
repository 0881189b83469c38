# SPDX-License-Identifier: Apache-2.0
"""Attributes by which git runs a person's driver, commits another text, or shows no change. Pure.

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
MOST_PATTERN = 300
"""Characters of a pattern; a longer one may be for any file."""
_HIDING = ("working-tree-encoding", "ident")
"""Git commits another text than the file has: decoded, or without what stands in `$Id: $`."""
_UNSHOWN = re.compile(
    r"-diff|binary|(?:linguist|gitlab)-(?:generated|vendored|documentation)(?:=true)?|-linguist-detectable"
)
"""`git diff`, and the pages on which people review, leave out what a file with it changes in."""
_NOT_READ = re.compile(
    r".*\.(?:lock|lockb|min\.[a-z]+|map|snap|svg|png|jpe?g|gif|webp|ico|pdf|zip|gz|jar|woff2?|ttf|eot|otf|mp[34]|mov|wasm|bin|psd"
    r"|sqlite|db|parquet|csv|ipynb|po|pot|pb\.[a-z]+|g\.dart|freezed\.dart|graphql|sum)"
    r"|.*(?:-lock\.(?:json|yaml)|_pb2(?:_grpc)?\.pyi?|npm-shrinkwrap\.json|\.generated\.[a-z]+)"
    r"|(?:.*/)?(?:dist|build|vendor|vendored|node_modules|third_party|generated|__generated__|gen|\.yarn|fixtures|__snapshots__|public)/.*",
    re.DOTALL | re.IGNORECASE,
)
"""Files that nobody reviews line by line: packages' lists, pictures, what tools make."""
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
            for word in words[1:]:
                if _counts(word):
                    hides = word.partition("=")[0] in _HIDING
                    found.append((word, words[0] if hides else ""))
                elif _UNSHOWN.fullmatch(word) and not _is_unread(words[0].strip('"')):
                    found.append((word, words[0]))
    return found


def _is_unread(pattern: str) -> bool:
    return len(pattern) <= MOST_PATTERN and _NOT_READ.fullmatch(pattern) is not None


def _counts(word: str) -> bool:
    name, _, value = word.partition("=")
    if name in _HIDING:
        return name != "ident" or not value
    return bool(value) and name in _KNOWN and value not in _KNOWN[name]
