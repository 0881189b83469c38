# SPDX-License-Identifier: Apache-2.0
"""Which settings a change adds, changes or removes that nobody knows to be harmless. Pure.

    Harmless(("save-exact", "+ignore-scripts=true", "toolchain.channel=/stable|beta/", "term.**"))

A pattern is a key, its names joined by `.`: `*` is any one name, `**` at the end whatever follows,
`x*` a name that begins so. `=text` and `=/expression/` say which values are harmless; a leading `+`
that the key may come, and never go. Keys that no pattern fits are not harmless.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from policy.gate2.formats import Form, Key, Odd, Pair, settings


class _Pattern:
    def __init__(self, text: str) -> None:
        self.stays = text.startswith("+")
        name, equals, value = text.removeprefix("+").partition("=")
        self._names = name.split(".")
        self._rest = self._names[-1] == "**"
        if self._rest:
            self._names.pop()
        self._value: re.Pattern[str] | None = None
        if equals:
            plain = not (len(value) > 1 and value[0] == value[-1] == "/")
            self._value = re.compile(re.escape(value) if plain else value[1:-1])

    def fits(self, key: Key) -> bool:
        """Whether the pattern names a key."""
        if len(key) < len(self._names) or (len(key) > len(self._names) and not self._rest):
            return False
        return all(map(_fits, self._names, key))

    def allows(self, value: str) -> bool:
        """Whether a value is one of those that the pattern names."""
        return self._value is None or self._value.fullmatch(value) is not None


def _fits(wanted: str, name: str) -> bool:
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1])
    return name == wanted


class Harmless:
    """A closed list of keys, or an open one: all but those that `held` names."""

    def __init__(self, harmless: Iterable[str], held: Iterable[str] = ()) -> None:
        self._harmless = [_Pattern(one) for one in harmless]
        self._held = [_Pattern(one) for one in held]

    def harms(self, before: str | None, after: str | None, form: Form) -> list[str]:
        """Return the keys of a change that are not harmless. None is no file. Raises Odd."""
        old = Counter(_pairs(before, form))
        new = Counter(_pairs(after, form))
        left = {key for key, _ in new}
        found = [key for (key, value) in new - old if not self._may_come(key, value)]
        found += [key for (key, _) in old - new if key not in left and not self._may_go(key)]
        return [".".join(key) for key in dict.fromkeys(sorted(found))]

    def _may_come(self, key: Key, value: str) -> bool:
        for one in self._harmless:
            if one.fits(key) and one.allows(value):
                return True
        return bool(self._held) and not any(
            one.fits(key) and one.allows(value) for one in self._held
        )

    def _may_go(self, key: Key) -> bool:
        known = [one for one in self._harmless if one.fits(key)]
        if known:
            return not any(one.stays for one in known)
        return bool(self._held) and not any(one.fits(key) for one in self._held)


def _pairs(text: str | None, form: Form) -> list[Pair]:
    return [] if text is None else settings(text, form)


__all__ = ["Form", "Harmless", "Odd"]
