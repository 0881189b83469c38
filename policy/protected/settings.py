# SPDX-License-Identifier: Apache-2.0
"""Which settings a change adds, changes or removes that nobody knows to be harmless. Pure.

    Harmless(("save-exact", "+ignore-scripts=true", "toolchain.channel=/stable|beta/", "term.**"))

A pattern is a key, its names joined by `.`: `*` is any one name, `**` at the end whatever follows,
`x*` a name that begins so. `=text` and `=/expression/` say which values are harmless; a leading `+`
that the key may come, and never go; a leading `-` that it may go, and never come, whatever other
patterns say (`-*`: whatever it is). `=<inside>` is a path that does not leave the workspace,
`=<same>` a value in the same folder as one that a key of that pattern had before (up to its last
`/`: the same server, another version), `/&version/` a version of an npm package, `&cargo:KEY`
whatever a crate from an index, or one of the workspace, is described by.
Keys that no pattern fits are not harmless.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from policy.protected.formats import Form, Key, Odd, Pair, settings

_NPM_ONE = r"[~^<>=v]{0,3} ?[0-9xX*][\w.+*-]*"
_NPM_VERSION = (
    r"(?:npm:@?[\w./-]+@)?(?:workspace:|catalog:)?"
    rf"(?:{_NPM_ONE}(?:(?: \|\| ?|\|\|| - | ){_NPM_ONE}){{0,8}}"
    r"|[~^*]?|[a-z][a-z0-9-]*|\$@?[\w./-]+)"
)
_CARGO = (
    *("={v}", ".version={v}", ".features.[]", ".optional", ".default-features", ".workspace"),
    *(".default_features", ".package", ".path=<inside>", "="),
)
_CARGO_VERSION = r"/[\^~<>=*]{0,2} ?[0-9*][\w.+*, <>=^~-]*/"
INSIDE, SAME = "<inside>", "<same>"
MOST_VALUE = 300
"""Characters of a value that is compared with an expression; a longer one is not harmless."""


class _Pattern:
    def __init__(self, text: str) -> None:
        self.stays = text.startswith("+")
        self.denies = text == "-*" or (text.startswith("-") and text[1:2].isalpha())
        name, equals, value = (text[1:] if self.stays or self.denies else text).partition("=")
        self._names = name.split(".")
        self._rest = self._names[-1] == "**"
        if self._rest:
            self._names.pop()
        self._value: re.Pattern[str] | None = None
        self.inside, self.same = value == INSIDE, value == SAME
        if equals and not (self.inside or self.same):
            plain = not (len(value) > 1 and value[0] == value[-1] == "/")
            value = re.escape(value) if plain else value[1:-1].replace("&version", _NPM_VERSION)
            self._value = re.compile(value, re.DOTALL if self.denies else 0)

    @property
    def compares(self) -> bool:
        """Whether it has an expression for values."""
        return self._value is not None

    def fits(self, key: Key) -> bool:
        """Whether the pattern names a key."""
        if len(key) < len(self._names) or (len(key) > len(self._names) and not self._rest):
            return False
        return all(map(_fits, self._names, key))

    def allows(self, value: str, depth: int) -> bool:
        """Whether a value, in a file so many folders deep, is one of those it names."""
        if self.inside:
            return stays_inside(value, depth)
        if self.same:
            return False  # that goes by what was there; see `continues`
        if self._value is None:
            return True
        if len(value) > MOST_VALUE:
            return self.denies
        return self._value.fullmatch(value) is not None

    def continues(self, key: Key, value: str, before: Iterable[Pair]) -> bool:
        """Whether a value lies where one of those that were there did."""
        if not (self.same and "/" in value and self.fits(key)):
            return False
        folder = value.rpartition("/")[0]
        return ".." not in value and any(
            self.fits(old) and was.rpartition("/")[0] == folder for old, was in before
        )


def _fits(wanted: str, name: str) -> bool:
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1])
    return name == wanted


class Harmless:
    """A closed list of keys, or an open one: all but those that `held` names."""

    def __init__(self, harmless: Iterable[str], held: Iterable[str] = ()) -> None:
        patterns = [_Pattern(one) for text in harmless for one in _expanded(text)]
        self._harmless = [pattern for pattern in patterns if not pattern.denies]
        self._denied = [pattern for pattern in patterns if pattern.denies]
        self._held = [_Pattern(one) for one in held]

    @property
    def patterns(self) -> list[_Pattern]:
        """All patterns."""
        return [*self._denied, *self._harmless, *self._held]

    def harms(
        self, before: str | None, after: str | None, form: Form, *, depth: int = 0
    ) -> list[str]:
        """Return the keys of a change that are not harmless. None is no file. Raises Odd.

        `depth` is how many folders of the workspace the file lies in.
        """
        old = Counter(_pairs(before, form))
        new = Counter(_pairs(after, form))
        left = {key for key, _ in new}
        found = [
            key
            for (key, value) in new - old
            if not self._may_come(key, value, depth)
            and not any(pattern.continues(key, value, old) for pattern in self._harmless)
        ]
        found += [key for (key, _) in old - new if key not in left and not self._may_go(key)]
        return [".".join(key) for key in dict.fromkeys(sorted(found))]

    def _may_come(self, key: Key, value: str, depth: int) -> bool:
        if any(pattern.fits(key) and pattern.allows(value, depth) for pattern in self._denied):
            return False
        if any(pattern.fits(key) and pattern.allows(value, depth) for pattern in self._harmless):
            return True
        return bool(self._held) and not any(pattern.fits(key) for pattern in self._held)

    def _may_go(self, key: Key) -> bool:
        if any(pattern.fits(key) for pattern in self._denied):
            return True
        known = [pattern for pattern in self._harmless if pattern.fits(key)]
        if known:
            return not any(pattern.stays for pattern in known)
        return bool(self._held) and not any(pattern.fits(key) for pattern in self._held)


def _expanded(text: str) -> Iterator[str]:
    if not text.startswith("&cargo:"):
        yield text
        return
    place = text.removeprefix("&cargo:")
    yield place
    for one in _CARGO:
        yield f"{place}.*{one}".replace("{v}", _CARGO_VERSION)


def stays_inside(path: str, depth: int) -> bool:
    """Whether a relative path, from a folder so many folders deep, stays in the workspace."""
    if path.startswith(("/", "~")) or "\\" in path or "$" in path or ":" in path:
        return False
    for part in path.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return False
    return True


def _pairs(text: str | None, form: Form) -> list[Pair]:
    return [] if text is None else settings(text, form)


__all__ = ["Form", "Harmless", "Odd"]
