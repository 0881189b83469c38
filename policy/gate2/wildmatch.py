# SPDX-License-Identifier: Apache-2.0
"""Match names against git's patterns in linear time. Pure.

The meaning is that of git's wildmatch.c, byte by byte: `*`, `?` and `[...]` stay within one
component, `**` between slashes crosses them, a backslash takes the next byte as it is. All states
of a match are bits of one number and move on together, so that no pattern makes it go back.

INVARIANT: a match takes at most one step for each byte of the name and each `WORD` parts of the
pattern, and reads each set of the pattern once for each byte that the name holds. A `Budget` counts
the steps.
"""

from __future__ import annotations

from typing import NamedTuple

WORD = 64
"""Parts of a pattern that move on in one step."""
_SLASH, _STAR, _BACK = b"/*\\"
_EVERY = (1 << 256) - 1
_NO_SLASH = _EVERY & ~(1 << _SLASH)
_CLASSES = {
    b"alnum": b"09AZaz",
    b"alpha": b"AZaz",
    b"blank": b"  \t\t",
    b"cntrl": b"\x00\x1f\x7f\x7f",
    b"digit": b"09",
    b"graph": b"!~",
    b"lower": b"az",
    b"print": b" ~",
    b"punct": b"!/:@[`{~",
    b"space": b"  \t\r",
    b"upper": b"AZ",
    b"xdigit": b"09AFaf",
}
"""Named sets: the first and the last byte of each range."""


class TooMuchWork(Exception):
    """The steps that were allowed are spent."""


class Budget:
    """Steps that may be made."""

    __slots__ = ("_most", "spent")

    def __init__(self, most: int) -> None:
        self._most = most
        self.spent = 0

    def take(self, steps: int) -> None:
        """Spend steps. Raises TooMuchWork."""
        self.spent += steps
        if self.spent > self._most:
            raise TooMuchWork


class _Part(NamedTuple):
    """One part of a pattern."""

    taken: int = 0
    """The bytes, a bit for each, that lead to the next part."""
    stays: int = 0
    """The bytes that lead here again."""
    skips: tuple[int, ...] = ()
    """How many parts on it leads without a byte."""


_ONE_STAR = _Part(stays=_NO_SLASH, skips=(1,))
_DEEP = _Part(stays=_EVERY, skips=(1,))
_FOLDERS = (_Part(skips=(1, 2)), _Part(taken=1 << _SLASH, stays=_EVERY))
"""`**/`: nothing, or anything that ends with a slash."""
_IN_A_ROW = 4
"""Parts one after the other that may stand for nothing: two of `**/`, a `*` or `**` after it."""


class Pattern:
    """One pattern, read once."""

    __slots__ = ("_deep", "_end", "_far", "_near", "_one", "_sets", "_shortest", "_single", "_size")

    def __init__(self, text: bytes) -> None:
        """Read a pattern; one that git cannot read (`[a`) matches nothing."""
        try:
            parts, self._shortest = _parts(text), 0
        except ValueError:
            parts, self._shortest = [], -1
        self._single = [0] * 256
        self._sets: list[tuple[int, int]] = []
        self._one = self._deep = self._near = self._far = 0
        for at, part in enumerate(parts):
            bit = 1 << at
            self._near |= bit if 1 in part.skips else 0
            self._far |= bit if 2 in part.skips else 0
            self._one |= bit if part.stays == _NO_SLASH else 0
            self._deep |= bit if part.stays == _EVERY else 0
            if part.taken.bit_count() == 1:
                self._single[part.taken.bit_length() - 1] |= bit
            elif part.taken:
                self._sets.append((bit, part.taken))
            self._shortest += not (part.skips or part.stays)
        self._end = 1 << len(parts)
        self._size = len(parts) // WORD + 1

    def matches(self, text: bytes, budget: Budget) -> bool:
        """Whether the pattern stands for the whole of a name. Raises TooMuchWork."""
        budget.take(1)
        if not 0 <= self._shortest <= len(text):
            return False
        known: dict[int, int] = {}
        states = self._open(1)
        for byte in text:
            if byte not in known:
                budget.take(len(self._sets))
                known[byte] = self._taken_by(byte)
            budget.take(self._size)
            stay = self._deep if byte == _SLASH else self._deep | self._one
            states = self._open((states & known[byte]) << 1 | states & stay)
            if not states:
                return False
        return bool(states & self._end)

    def _taken_by(self, byte: int) -> int:
        """Return the parts that one byte leads on from."""
        found = self._single[byte]
        for bit, members in self._sets:
            found |= bit if members >> byte & 1 else 0
        return found

    def _open(self, states: int) -> int:
        """Return the states, and those that are reached without a byte."""
        for _ in range(_IN_A_ROW if self._near else 0):
            states |= (states & self._near) << 1 | (states & self._far) << 2
        return states


def _parts(text: bytes) -> list[_Part]:
    """Return the parts of a pattern. Raises ValueError where git cannot read it."""
    out: list[_Part] = []
    at = 0
    while at < len(text):
        byte = text[at]
        if byte == _STAR:
            at = _stars(text, at, out)
        elif byte == b"?"[0]:
            out.append(_Part(_NO_SLASH))
            at += 1
        elif byte == b"["[0]:
            members, at = _set(text, at + 1)
            out.append(_Part(members & _NO_SLASH))
        elif byte == _BACK:
            if at + 1 == len(text):
                raise ValueError
            out.append(_Part(1 << text[at + 1]))
            at += 2
        else:
            out.append(_Part(1 << byte))
            at += 1
    return out


def _stars(text: bytes, at: int, out: list[_Part]) -> int:
    """Add what stars stand for; return where the text goes on."""
    end = at
    while text[end : end + 1] == b"*":
        end += 1
    begins = at == 0 or text[at - 1] == _SLASH
    if end - at < 2 or not begins:
        out += () if out[-1:] == [_ONE_STAR] else (_ONE_STAR,)
    elif end == len(text) or text[end : end + 2] == b"\\/":
        out.append(_DEEP)
    elif text[end] == _SLASH:
        out += () if tuple(out[-2:]) == _FOLDERS else _FOLDERS
        return end + 1
    else:
        out.append(_ONE_STAR)
    return end


def _set(text: bytes, at: int) -> tuple[int, int]:
    """Return the members of the set that begins at a place, and where it ends.

    Raises ValueError for one without an end.
    """
    negated = text[at : at + 1] in (b"!", b"^")
    at += negated
    members, before, first = 0, -1, True
    while first or text[at : at + 1] != b"]":
        first = False
        if at >= len(text):
            raise ValueError
        byte = text[at]
        if byte == _BACK:
            at += 1
            if at >= len(text):
                raise ValueError
            before = text[at]
            members |= 1 << before
        elif byte == b"-"[0] and before > 0 and text[at + 1 : at + 2] not in (b"", b"]"):
            at += 1
            if text[at] == _BACK:
                at += 1
                if at >= len(text):
                    raise ValueError
            members |= _range(before, text[at])
            before = -1
        elif text[at : at + 2] == b"[:" and (named := _named(text, at + 2)) is not None:
            more, at = named
            members |= more
            before = -1
        else:
            before = byte
            members |= 1 << byte
        at += 1
    return (_EVERY & ~members if negated else members), at + 1


def _named(text: bytes, at: int) -> tuple[int, int] | None:
    """Return a named set's members and the place of its `]`; None where none is named.

    Raises ValueError for a name that there is not.
    """
    end = text.find(b"]", at)
    if end < 0:
        raise ValueError
    if end == at or text[end - 1] != b":"[0]:
        return None
    ends = _CLASSES.get(text[at : end - 1])
    if ends is None:
        raise ValueError
    members = 0
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        members |= _range(low, high)
    return members, end


def _range(low: int, high: int) -> int:
    return ((1 << (high + 1)) - 1) & ~((1 << low) - 1) if low <= high else 0
