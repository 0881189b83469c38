# SPDX-License-Identifier: Apache-2.0
"""What one file of git's ignore rules says of a name (gitignore(5), git's dir.c). Pure.

Names are bytes, relative to the folder that the rules stand in. The last rule that fits counts.
Names that a rule spells out are looked up; for each other rule a step is taken (see wildmatch).
"""

from __future__ import annotations

from typing import NamedTuple

from policy.gate2.wildmatch import Budget, Pattern

_SPECIAL = b"*?[\\"
_BOM = b"\xef\xbb\xbf"


class _Rule(NamedTuple):
    """One line."""

    negated: bool
    folders_only: bool
    by_name: bool
    """It holds no slash, so that it is compared with the last component alone."""
    literal: bytes
    """What the name begins with."""
    suffix: bool
    """`*x`: the name ends with `literal`."""
    rest: Pattern | None
    """What follows the literal part; None: nothing."""

    def fits(self, path: bytes, name: bytes, budget: Budget) -> bool:
        """Whether the rule is about a path."""
        wanted = name if self.by_name else path
        budget.take(1)
        if self.suffix:
            return wanted.endswith(self.literal)
        if not wanted.startswith(self.literal):
            return False
        if self.rest is None:
            return len(wanted) == len(self.literal)
        return self.rest.matches(wanted[len(self.literal) :], budget)


class Rules:
    """The rules of one file."""

    def __init__(self, content: bytes) -> None:
        """Read the rules, as git reads them."""
        self._plain: dict[tuple[bool, bytes], list[tuple[int, _Rule]]] = {}
        self._others: list[tuple[int, _Rule]] = []
        for at, line in enumerate(content.removeprefix(_BOM).split(b"\n")):
            rule = _rule(line)
            if rule is None:
                continue
            if rule.rest is None and not rule.suffix:
                self._plain.setdefault((rule.by_name, rule.literal), []).append((at, rule))
            else:
                self._others.append((at, rule))
        self._others.reverse()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._plain or self._others)

    def answer(self, path: bytes, *, is_folder: bool, budget: Budget) -> bool | None:
        """Whether a path is ignored; None where no rule is about it. Raises TooMuchWork."""
        name = path.rpartition(b"/")[2]
        found: tuple[int, _Rule] | None = None
        for key in ((True, name), (False, path)):
            budget.take(1)
            for one in reversed(self._plain.get(key, ())):
                budget.take(1)
                if is_folder or not one[1].folders_only:
                    found = one if found is None or one[0] > found[0] else found
                    break
        for at, rule in self._others:
            if found is not None and found[0] > at:
                break
            if rule.folders_only and not is_folder:
                budget.take(1)
            elif rule.fits(path, name, budget):
                found = at, rule
                break
        return None if found is None else not found[1].negated


def _rule(line: bytes) -> _Rule | None:
    """Read one line; None for a blank one and for a comment."""
    if not line or line.startswith(b"#"):
        return None
    line = _trimmed(line.removesuffix(b"\r").partition(b"\0")[0])
    negated = line.startswith(b"!")
    text = line[1:] if negated else line
    folders_only = text.endswith(b"/")
    plain = min(_literal_length(text), len(text) - folders_only)
    suffix = text.startswith(b"*") and _literal_length(text[1:]) == len(text) - 1
    text = text[:-1] if folders_only else text
    if not text:
        return None
    by_name = b"/" not in text
    if not by_name and text.startswith(b"/"):
        text, plain = text[1:], plain - 1
    if suffix and by_name:
        return _Rule(negated, folders_only, by_name, text[1:], True, None)
    rest = text[plain:]
    return _Rule(
        negated, folders_only, by_name, text[:plain], False, Pattern(rest) if rest else None
    )


def _literal_length(text: bytes) -> int:
    return next((at for at, byte in enumerate(text) if byte in _SPECIAL), len(text))


def _trimmed(line: bytes) -> bytes:
    """Return a line without the spaces at its end that no backslash keeps."""
    kept = at = 0
    while at < len(line):
        if line[at] == b"\\"[0]:
            at += 2
            if at > len(line):
                return line
            kept = at
            continue
        at += 1
        if line[at - 1] != b" "[0]:
            kept = at
    return line[:kept]
