# SPDX-License-Identifier: Apache-2.0
"""Patterns of paths as regular expressions, for paths as `comparison.normal` gives them. Pure."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from policy.values.comparison import normal_name

_ANYWHERE = "(?:.*/)?"
_BRACES = re.compile(r"\{([^{}]*)\}")
MOST_ALTERNATIVES = 64
"""Patterns that one with `{a,b}` may stand for."""


def alternatives(pattern: str) -> Iterable[str]:
    """Expand `{a,b}` (not nested). Raises ValueError where that gives too many."""
    count = math.prod(part.count(",") + 1 for part in _BRACES.findall(pattern))
    if count > MOST_ALTERNATIVES:
        raise ValueError(f"`{pattern}` stands for more than {MOST_ALTERNATIVES} patterns")
    return _expanded(pattern)


def _expanded(pattern: str) -> Iterable[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _expanded(pattern[: match.start()] + choice + pattern[match.end() :])


def _glob(component: str) -> str:
    """Return the expression for one component.

    What stands between two `*` has one length, so the first place where it fits is as good as any
    other: it is looked for once (an atomic group), and no pattern takes long.
    """
    text = unicodedata.normalize("NFC", component).casefold()
    first, *rest = (re.escape(part).replace(r"\?", "[^/]") for part in re.split(r"\*+", text))
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{part})" for part in middle) + "[^/]*" + last


def expression(pattern: str) -> str:
    """Return the regular expression for one pattern without `{}`; it matches normalised paths.

    What stands between two `**` is looked for once as well.
    """
    anchored = pattern.startswith("/")
    parts = [part for part in pattern.split("/") if part]
    tail = "(?:/.*)?" if len(parts) > 1 and parts[-1] == "**" else ""
    while len(parts) > 1 and parts[-1] == "**":
        parts.pop()
    if parts == ["**"]:
        return ".*"
    runs: list[list[str]] = [[]]
    for part in parts:
        if part != "**":
            runs[-1].append(_glob(part))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    first, *rest = ("/".join(run) for run in runs)
    if not anchored and not first and rest:
        first, *rest = rest
    start = "" if anchored else _ANYWHERE
    if not rest:
        return start + first + tail
    *middle, last = rest
    start += f"{first}/" if first else ""
    return start + "".join(f"(?>(?:[^/]*/)*?{run}/)" for run in middle) + f"(?:.*/)?{last}" + tail


def expressions(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the regular expressions for patterns, one per alternative."""
    return tuple(
        expression(alternative) for pattern in patterns for alternative in alternatives(pattern)
    )


def compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return one regular expression, for `fullmatch` on normalised paths; none matches nothing."""
    found = expressions(patterns)
    anchored = [e for e in found if not e.startswith(_ANYWHERE)]
    # said once, or every alternative would look through the whole path again
    anywhere = [e.removeprefix(_ANYWHERE) for e in found if e.startswith(_ANYWHERE)]
    if anywhere:
        anchored.append(_ANYWHERE + "(?:" + "|".join(f"(?:{e})" for e in anywhere) + ")")
    return re.compile("|".join(anchored) or r"(?!)", re.DOTALL)


def folders(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return patterns for the folders above what patterns name, as far as they are literal."""
    found = []
    for pattern in (alternative for several in patterns for alternative in alternatives(several)):
        parts = pattern.split("/")
        for count in range(1, len(parts)):
            head = "/".join(parts[:count])
            if head and "*" not in head and "?" not in head:
                found.append(head)
    return tuple(dict.fromkeys(found))


class Anchors:
    """Tells at once of most paths that no pattern names them: none of their names is in one."""

    def __init__(self, patterns: Iterable[str]) -> None:
        literal: set[str] = set()
        wild: list[str] = []
        for pattern in (
            alternative for several in patterns for alternative in alternatives(several)
        ):
            parts = [part for part in pattern.split("/") if part and part != "**"]
            plain = [part for part in parts if "*" not in part and "?" not in part]
            if plain:
                literal.add(normal_name(plain[-1]))
            else:
                wild.append(_glob(parts[-1]) if parts else ".*")
        self._literal = frozenset(literal)
        self._wild = re.compile("|".join(f"(?:{one})" for one in wild) or r"(?!)", re.DOTALL)
        self.holds = lru_cache(maxsize=65_536)(self._holds)
        """Whether one name of a path, in its normal form, is in a pattern."""

    def _holds(self, name: str) -> bool:
        return name in self._literal or self._wild.fullmatch(name) is not None

    def may_name(self, path: str) -> bool:
        """Whether a pattern may name a path (already `normal`)."""
        return any(map(self.holds, path.split("/")))
