# SPDX-License-Identifier: Apache-2.0
"""Patterns of rules against the paths that a call touches, which may be only partly known.

The patterns are those of gate 2 (`defaults/paths.yaml`): a name at any depth, a leading `/` for the
workspace's root, `*` and `?` within one component, `**` across components, `{a,b}`. A pattern also
covers what lies below what it names. Many patterns are looked up by the names that they hold, so
that a thousand rules cost no more than ten.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from policy.values.filenames import alternatives
from policy.values.partial import globbed, known_part, unknown
from policy.values.paths import Fit, below, canonical, fits

MOST_WILDCARDS = 8
"""Wildcards in one component; more could take for ever to compare."""
MOST_DEEP = 3
"""`**` in one pattern."""
_REMEMBERED = 8192
_DEEP = "**"
_WILD = re.compile(r"[*?]")
_MARKS = re.compile("[\ue000-\ue006]")


class Glob:
    """One pattern without `{}`."""

    __slots__ = ("anchored", "key", "parts", "text", "wild")

    def __init__(self, text: str, alternative: str) -> None:
        self.text = text
        self.anchored = alternative.startswith("/")
        parts = [one for one in alternative.split("/") if one]
        while parts and parts[-1] == _DEEP:  # what lies below is covered anyway
            parts.pop()
        self.parts = tuple(
            part if part == _DEEP else unicodedata.normalize("NFC", part).casefold()
            for part in parts
        )
        self.wild = tuple(_compiled(part) if _WILD.search(part) else None for part in self.parts)
        named = [at for at, one in enumerate(self.parts) if one != _DEEP]
        plain = [at for at in named if self.wild[at] is None]
        self.key = (plain or named or [-1])[-1]
        """Which part a path is looked up by; -1: none."""

    def fits(self, names: tuple[str, ...]) -> Fit:
        """Say whether a path of these components is what the pattern names, or lies below it."""
        if not self.parts:
            return Fit.SURE
        starts = (0,) if self.anchored else range(len(names))
        best = Fit.NO
        for start in starts:
            fit = self._from(names, start, 0)
            if fit is Fit.SURE:
                return fit
            if fit is Fit.MAYBE:
                best = fit
        return best

    def _from(self, names: tuple[str, ...], at: int, part: int) -> Fit:
        if part == len(self.parts):
            return Fit.SURE
        if self.parts[part] == _DEEP:
            return _best(self._from(names, to, part + 1) for to in range(at, len(names) + 1))
        if at == len(names):
            return Fit.NO
        fit = self._one(names[at], part)
        if fit is not Fit.NO:
            rest = self._from(names, at + 1, part + 1)
            fit = fit if rest is Fit.SURE else rest
        if fit is Fit.NO and unknown(names[at]) and _meets(names[at], self.parts[part] + "*"):
            ends = range(part + 2, len(self.parts) + 1)  # what is unknown may hold a `/`
            if any(self._from(names, at + 1, end) is not Fit.NO for end in ends):
                return Fit.MAYBE
        return fit

    def _one(self, name: str, part: int) -> Fit:
        wild = self.wild[part]
        if wild is None:
            return fits(name, self.parts[part])
        if not globbed(name) and not unknown(name):
            return Fit.SURE if wild.fullmatch(canonical(name)) else Fit.NO
        return Fit.MAYBE if _meets(name, self.parts[part]) else Fit.NO


class Index:
    """Many patterns, each under its text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: dict[str, list[Glob]] = {}
        self._wild: list[Glob] = []
        self._always: list[Glob] = []
        for text in dict.fromkeys(patterns):
            for glob in globs(text):
                if glob.key < 0:
                    self._always.append(glob)
                elif glob.wild[glob.key] is None:
                    self._plain.setdefault(glob.parts[glob.key], []).append(glob)
                else:
                    self._wild.append(glob)
        self._of = lru_cache(maxsize=_REMEMBERED)(self._find)

    def hits(self, path: str, root: str) -> dict[str, Fit]:
        """Return the patterns that name a path, with how sure that is.

        `path` is absolute and normalised, or wholly unknown; patterns that begin with `/` count
        from `root`. What only may fit counts where at least the place of the path is known.
        """
        inside = below(path, root)
        relative = path[len(root) :] if inside and root != "/" else path
        names = tuple(part for part in relative.split("/") if part)
        found: dict[str, Fit] = {}
        candidates = dict.fromkeys(self._always)
        for name in names:
            candidates.update(dict.fromkeys(self._of(name)))
        for glob in candidates:
            if (glob.anchored and not inside) or found.get(glob.text) is Fit.SURE:
                continue
            fit = glob.fits(names)
            by_chance = fit is Fit.MAYBE and path.startswith("/") and not _elsewhere(names, glob)
            if fit is Fit.SURE or by_chance:
                found[glob.text] = fit
        return found

    def _find(self, name: str) -> tuple[Glob, ...]:
        """Return the patterns that one component can be looked up by."""
        wild = [glob for glob in self._wild if glob._one(name, glob.key) is not Fit.NO]
        if not globbed(name) and not unknown(name):
            return (*self._plain.get(canonical(name), ()), *wild)
        plain = [one for key, several in self._plain.items() for one in several
                 if fits(name, key) is not Fit.NO]  # fmt: skip
        return (*plain, *wild)


@lru_cache(maxsize=_REMEMBERED)
def globs(text: str) -> tuple[Glob, ...]:
    """Return the globs of a pattern. Raises ValueError for one that cannot be compared."""
    if not text.strip("/") or any(ord(one) < 32 for one in text):
        raise ValueError(f"`{text}` names no path")
    if any(part in (".", "..") for part in text.split("/")):
        raise ValueError(f"`{text}` holds `.` or `..`; write the path without them")
    if any(len(_WILD.findall(part)) > MOST_WILDCARDS for part in text.split("/")):
        raise ValueError(f"`{text}` holds more than {MOST_WILDCARDS} wildcards in one name")
    if text.split("/").count(_DEEP) > MOST_DEEP:
        raise ValueError(f"`{text}` holds `**` more than {MOST_DEEP} times")
    return tuple(Glob(text, alternative) for alternative in alternatives(text))


def _elsewhere(names: tuple[str, ...], glob: Glob) -> bool:
    """Whether `src/*` only happens to fit a bare name that is at home in the root.

    Gate 2 judges the names of what was changed; asking about every `src/*` would teach people to
    say yes.
    """
    return (
        len(glob.parts) == 1
        and len(names) > 1
        and globbed(names[-1])
        and not any(unknown(name) for name in names)
        and not any(globbed(name) for name in names[:-1])
    )


def _best(found: Iterator[Fit]) -> Fit:
    best = Fit.NO
    for fit in found:
        if fit is Fit.SURE:
            return fit
        if fit is Fit.MAYBE:
            best = fit
    return best


def _compiled(component: str) -> re.Pattern[str]:
    text = re.escape(component).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.DOTALL)


def _meets(word: str, component: str) -> bool:
    """Whether a partly known name and a pattern of one component can mean the same name."""
    if known_part(word) == "":
        return True
    known, wanted = _MARKS.split(word.casefold()), _WILD.split(component)
    heads, tails = (known[0], wanted[0]), (known[-1], wanted[-1])
    head = heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])
    tail = tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
    return head and tail
