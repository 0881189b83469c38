# SPDX-License-Identifier: Apache-2.0
"""Names of references in one git folder: which are new, and which others they could be taken for.

Git takes a short name for a tag before a branch, and for a branch before what stands for another
repository's (gitrevisions(7)): a new tag `main` would be shown in the place of the branch, and a
branch `31b5e62`, or `v1-0-g31b5e62`, in the place of the object whose id begins so. Two names that
a file system may take for one (case, Unicode form) are one there.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from .. import fs
from ..git.files import OnDisk, width_of, within
from ..git.objects import Store
from ..git.packs import Odd
from ..overlay.comparison import normal
from ..overlay.steps import Change

MOST_NAMES = 200_000
"""References of one repository that are compared."""
MOST_BYTES = 64 << 20
"""Of a list of packed references."""
_LINE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\0\n ]+)")
_PEELED = re.compile(rb"\^(?:[0-9a-f]{40}|[0-9a-f]{64})")
_HEADS, _AT_ORIGIN = "refs/heads/", "refs/remotes/origin/"
_ABBREVIATED = re.compile(r"(?:.*-g)?([0-9A-Fa-f]{4,64})", re.DOTALL)
_NAMESPACES = ("refs/tags/", "refs/heads/", "refs/remotes/")


class Packed(NamedTuple):
    """What a list of packed references says anew."""

    names: list[str]
    """References that it names, and that did not stand so before."""
    gone: list[str]
    """References that it does not name any more."""
    odd: str
    """Why it is none that git writes; empty where it is one."""


class References:
    """The references of one git folder, before a call and after it."""

    def __init__(self, top: int, layer: int, folder: str, changes: Iterable[Change]) -> None:
        self._top = top
        self._layer = layer
        self._prefix = "" if folder == "." else folder + "/"
        self._changes = changes

    def packed(self, content: bytes, before: bytes | None) -> Packed:
        """Compare a list of packed references with what stood before."""
        listed = _listed(content)
        if isinstance(listed, str):
            return Packed([], [], listed)
        old = _listed(before or b"")
        known = {} if isinstance(old, str) else old
        new = [
            name
            for name, oid in listed.items()
            if known.get(name) != oid and self._loose(name) != oid
        ]
        gone = [name for name in known if name not in listed]
        return Packed([*map(os.fsdecode, new)], [*map(os.fsdecode, gone)], "")

    def shadowed(self, names: Iterable[str]) -> str:
        """Return an existing reference that one of these new ones could be taken for, or ""."""
        after = self._after
        for name in names:
            twin = self._by_form.get(normal(name), name)
            if twin != name:
                return twin
            short = next((name[len(n) :] for n in _NAMESPACES if name.startswith(n)), None)
            if short is None or (name in self._before_names and name in after):
                continue
            for other in (*(n + short for n in _NAMESPACES), f"refs/remotes/{short}/HEAD"):
                if other != name and other in after:
                    return other
            if digits := self._abbreviates(short):
                return digits
        return ""

    def _abbreviates(self, short: str) -> str:
        """Return what of a short name git takes for an object's id where no reference is so called.

        What cannot be read counts as one.
        """
        match = _ABBREVIATED.fullmatch(short)
        if match is None:
            return ""
        digits = match[1].lower()
        try:
            with contextlib.ExitStack() as stack:
                sides = [OnDisk(top, self._prefix.rstrip("/")) for top in (self._top, self._layer)]
                width = width_of(sides, "")
                for files in sides:
                    store = Store(within(files, "objects"), width)
                    stack.callback(store.close)
                    if store.begins(digits):
                        return digits
        except (Odd, OSError, ValueError, struct.error):
            return digits
        return ""

    def new_branches(self, names: Iterable[str]) -> list[str]:
        """Return those of some names that are branches which stood neither here nor at `origin`."""
        shorts = (name[len(_HEADS) :] for name in names if name.startswith(_HEADS))
        return sorted(
            short
            for short in shorts
            if not {_HEADS + short, _AT_ORIGIN + short} & self._before_names
        )

    def gone(self, names: Iterable[str]) -> list[str]:
        """Return those of some names that stand nowhere after the call."""
        return sorted(set(names) - self._after)

    def _loose(self, name: bytes) -> bytes | None:
        content = _content(self._top, self._prefix + os.fsdecode(name), 4096)
        return None if content is None else content.strip()

    @cached_property
    def _before_names(self) -> set[str]:
        listed = _listed(_content(self._top, self._prefix + "packed-refs", MOST_BYTES) or b"")
        packed = () if isinstance(listed, str) else listed
        return {*map(os.fsdecode, packed), *self._loose_names()}

    @cached_property
    def _after(self) -> set[str]:
        """The references that stand after the call."""
        before = self._before_names
        content = _content(self._layer, self._prefix + "packed-refs", MOST_BYTES)
        if content is not None:
            listed = _listed(content)
            packed = () if isinstance(listed, str) else listed
            before = {*map(os.fsdecode, packed), *self._loose_names()}
        came: set[str] = set()
        went: set[str] = set()
        start = self._prefix + "refs/"
        for change in self._changes:
            path, source = change["path"], change.get("source") or ""
            if change["type"] == "file" and path.startswith(start):
                (went if change["kind"] == "deleted" else came).add(path[len(self._prefix) :])
            if source.startswith(start):
                went.add(source[len(self._prefix) :])
        return (before - went) | came

    @cached_property
    def _by_form(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in sorted(self._after, key=lambda one: one in self._before_names):
            found[normal(name)] = name  # what stood before counts
        return found

    def _loose_names(self) -> Iterable[str]:
        try:
            descriptor = fs.open_beneath(self._top, self._prefix + "refs")
        except OSError:
            return
        try:
            for count, (name, status) in enumerate(fs.tree(descriptor)):
                if count > MOST_NAMES:
                    raise OSError("more references than are compared")
                if stat.S_ISREG(status.st_mode):
                    yield "refs/" + name
        finally:
            os.close(descriptor)


def _listed(content: bytes) -> dict[bytes, bytes] | str:
    """Return name -> object id, or why this is no list of packed references."""
    if content and not content.endswith(b"\n"):
        return "its last line does not end"
    found: dict[bytes, bytes] = {}
    last, peels, sorts = b"", False, False
    for at, line in enumerate(content.split(b"\n")[:-1]):
        if at == 0 and line.startswith(b"# pack-refs with:"):
            sorts = b" sorted " in line
            continue
        if peels and _PEELED.fullmatch(line):
            peels = False
            continue
        fits = _LINE.fullmatch(line)
        if fits is None:
            return "a line of it is none that git writes there"
        name = fits[2]
        if name in found or (sorts and name <= last):
            return f"`{os.fsdecode(name)}` is not where git would look for it"
        found[name] = fits[1]
        last, peels = name, True
    return found


def _content(directory: int, path: str, most: int) -> bytes | None:
    try:
        descriptor = fs.open_beneath(directory, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        regular = stat.S_ISREG(status.st_mode) and status.st_size <= most
        return file.read() if regular else None
