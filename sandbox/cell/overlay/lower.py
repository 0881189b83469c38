# SPDX-License-Identifier: Apache-2.0
"""The real workspace as a walk looks at it, beside the layer: is it there, is it the same?

Runs in the keeper: standard library only, Python 3.9. Reads only, follows no link.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from .. import fs
from .addresses import MAX_BYTES, condensed
from .layer import LayerError, Node, above, join, lies_in
from .steps import Attributes, landed_mode

MAX_TEXT = 64 * 1024
"""Bytes of one file that are passed on for gate 2 to read."""
MAX_TEXTS = 512 * 1024
"""Bytes of all such files together, besides git's own settings: parsing them takes its time."""
MAX_CONDENSED = 24 * 1024 * 1024
"""Bytes of all files together that are condensed to the places that they name."""
Reads = Callable[[str], bool]
"""Whether gate 2 reads the file at a path of the workspace."""
CONFIG_NAMES = (
    *("config", "config.worktree", "gitconfig", ".gitconfig", ".gitmodules", ".lfsconfig"),
    ".gitattributes",
)
"""Names under which git keeps settings, in lower case (`config` of a bare repository, too)."""


class Below:
    """The workspace under a layer. Close it after use."""

    def __init__(
        self,
        root: int,
        masks: frozenset[str],
        since: int | None,
        reads: Reads,
        condenses: Reads,
    ) -> None:
        self.root = root
        self.inodes: dict[int, str] = {}
        """Of every file that was looked at, with its path."""
        self._device = os.fstat(root).st_dev
        self._masks = masks
        self._since = since
        self._reads = reads
        self._condenses = condenses
        self._left = {False: MAX_TEXTS, True: MAX_CONDENSED}
        self._open: tuple[str, int] | None = None

    def close(self) -> None:
        """Close what is kept open."""
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of a path, None where absent."""
        if not path:
            return os.fstat(self.root)
        directory, _, name = path.rpartition("/")
        try:
            if self._open is None or self._open[0] != directory:
                descriptor = fs.open_beneath(self.root, directory)
                self.close()
                self._open = (directory, descriptor)
            status = os.stat(name, dir_fd=self._open[1], follow_symlinks=False)
        except OSError as error:
            if error.errno in fs.ABSENT:
                return None
            raise LayerError(f"`{path}` cannot be looked at: {error.strerror}") from None
        if not stat.S_ISDIR(status.st_mode):
            self.inodes[status.st_ino] = path
        return status

    def listing(self, path: str) -> list[tuple[str, os.stat_result]]:
        """Return name and status of what a directory holds, in order of names."""
        descriptor = fs.open_beneath(self.root, path)
        try:
            with os.scandir(descriptor) as entries:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(descriptor)
        self.inodes.update(
            (s.st_ino, join(path, name)) for name, s in found if not stat.S_ISDIR(s.st_mode)
        )
        return sorted(found, key=lambda item: item[0])

    def foreign(self, status: os.stat_result) -> bool:
        """Whether another file system is mounted there: it is never ours to change."""
        return status.st_dev != self._device

    def later(self, status: os.stat_result) -> bool:
        """Whether an object changed after the transaction opened."""
        return self._since is not None and status.st_ctime_ns >= self._since

    def arrived(self, path: str, status: os.stat_result) -> bool:
        """Whether a folder may lie at a path only since the transaction opened.

        It changed since, and so did the names beside it. What it holds may bear older times.
        """
        if not path or not stat.S_ISDIR(status.st_mode) or not self.later(status):
            return False
        above = self.status(path.rpartition("/")[0])
        return above is None or self._since is None or above.st_mtime_ns >= self._since

    def replaced(self, path: str, status: os.stat_result, origin: bytes | None) -> bool:
        """Whether a folder is another one than that of which the layer's `origin` is a handle."""
        if not self.arrived(path, status):
            return False
        known = fs.handle(self.root, path) if origin else None
        if known is None or self._masks_below(path):
            return True  # folders above a mask come from the mask's layer, not from the workspace
        return known != origin

    def another(self, path: str, status: os.stat_result, origin: bytes | None) -> bool:
        """Whether a folder that a call moved away is not the one any more that it saw there.

        Another one can only have come by a rename of it, or of a folder above it, which shows in
        the ctime of what was renamed; what lies in that may bear older times.
        """
        places = [path, *above(path)]
        if not any((found := self.status(place)) and self.later(found) for place in places):
            return False
        known = fs.handle(self.root, path) if origin else None
        if known is not None and not self._masks_below(path):
            return known != origin
        return any((found := self.status(place)) and self.arrived(place, found) for place in places)

    def _masks_below(self, path: str) -> bool:
        """Whether the layer's folder stands for one of the mask's layer."""
        return any(mask.startswith(path + "/") for mask in self._masks)

    def touched(self, status: os.stat_result) -> bool:
        """Whether changing the object now would overrule somebody else."""
        directory = stat.S_ISDIR(status.st_mode)  # what happened in it shows in what it holds
        return self.foreign(status) or (not directory and self.later(status))

    def hidden(self, path: str) -> bool:
        """Whether a mask hides the path, or a folder that it lies in, from the cell."""
        return bool(self._masks) and lies_in(path, self._masks)

    def same(self, node: Node, path: str, status: os.stat_result) -> bool:
        """Whether a file or link of the layer equals one of the workspace (same type)."""
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(node.real) == fs.readlink(self.root, path)
        if node.status.st_size != status.st_size:
            return False
        upper = os.open(node.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            lower = fs.open_beneath(self.root, path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                return fs.same_content(upper, lower)
            finally:
                os.close(lower)
        finally:
            os.close(upper)

    def settings(
        self, node: Node, path: str, status: os.stat_result, owners: Mapping[int, int]
    ) -> tuple[Attributes, Attributes, bool]:
        """Return mode, owner, mtime, attributes before and after; whether more than mtime differs.

        Set-id bits that are new do not land, but count as a difference; old ones stay.
        """
        new_status = node.status
        after: Attributes = [
            landed_mode(new_status),
            owners.get(new_status.st_uid, new_status.st_uid),
            owners.get(new_status.st_gid, new_status.st_gid),
            new_status.st_mtime_ns,
            None,
        ]
        before: Attributes = [
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            None,
        ]
        if not stat.S_ISLNK(status.st_mode):
            after[4], before[4] = encoded(fs.attributes(node.real)), encoded(self.attributes(path))
        if stat.S_ISDIR(status.st_mode):
            after[3] = before[3] = None  # a directory's mtime follows what happens in it
        mode = stat.S_IMODE(new_status.st_mode)
        if mode == before[0]:
            after[0] = mode
        listed = mode != before[0] or before[1:3] != after[1:3] or before[4] != after[4]
        return before, after, listed

    def attributes(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes of a file or folder that belong to the user."""
        descriptor = fs.open_beneath(self.root, path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return fs.attributes(descriptor)
        finally:
            os.close(descriptor)

    def texts(self, node: Node, path: str, low: str | None) -> dict[str, str]:
        """Return what gate 2 reads of a file before and after; nothing where it reads none."""
        if not self._wanted(path) and (low is None or not self._wanted(low)):
            return {}
        texts = {}
        if stat.S_ISREG(node.status.st_mode) and self._may_read(node.status.st_size, path):
            with open(node.real, "rb") as file:
                text = self._text(file, path)
            if text is not None:
                texts["after_text"] = text
        status = None if low is None else self.status(low)
        if low is not None and status is not None:
            texts.update(self._before(low, status))
        return texts

    def gone_texts(self, low: str, status: os.stat_result) -> dict[str, Any]:
        """Return what gate 2 reads of a file that went away."""
        return self._before(low, status) if self._reads(low) else {}

    def moved_texts(self, path: str, low: str, status: os.stat_result) -> dict[str, Any]:
        """Return what gate 2 reads of a file that lies elsewhere now, as it was."""
        if not self._reads(path) and not self._reads(low):
            return {}
        found = self._before(low, status)
        after = found
        if self._condenses(path) != self._condenses(low):
            after = self._before(low, status, read_as=path)
        return {**found, "after_text": after["before_text"]} if found and after else {}

    def _before(self, low: str, status: os.stat_result, *, read_as: str = "") -> dict[str, str]:
        name = read_as or low
        if not stat.S_ISREG(status.st_mode) or not self._may_read(status.st_size, name):
            return {}
        descriptor = fs.open_beneath(self.root, low, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            text = self._text(file, name)
        return {} if text is None else {"before_text": text}

    def _text(self, file: BinaryIO, path: str) -> str | None:
        """Return what gate 2 reads of a file; None where it is too large, or says it unclearly."""
        if self._condenses(path):
            return condensed(file.read(MAX_BYTES + 1))
        content = file.read(MAX_TEXT + 1)
        return None if len(content) > MAX_TEXT else content.decode("utf-8", "surrogateescape")

    def _wanted(self, path: str) -> bool:
        return path.rpartition("/")[2].lower() in CONFIG_NAMES or self._reads(path)

    def _may_read(self, size: int, path: str) -> bool:
        """Whether a file is not too large; of what is not git's, all together are bounded."""
        condensed_one = self._condenses(path)
        if size > (MAX_BYTES if condensed_one else MAX_TEXT):
            return False
        if path.rpartition("/")[2].lower() not in CONFIG_NAMES:
            if size > self._left[condensed_one]:
                return False
            self._left[condensed_one] -= size
        return True


def no_text(_: str) -> bool:
    """Want the text of no file."""
    return False


def encoded(attributes: Mapping[str, bytes]) -> dict[str, str]:
    """Return extended attributes in a form fit for JSON."""
    return {name: base64.b64encode(value).decode() for name, value in attributes.items()}


def tree(
    below: Below, path: str, skipped: set[str], prefix: str = ""
) -> list[tuple[str, os.stat_result]]:
    """Return all that a directory holds, parents first, by path relative to it.

    Leaves out the directories in `skipped` (full paths), and does not enter other file systems.
    """
    found = []
    waiting = [(path, prefix, iter(below.listing(path)))]
    while waiting:
        folder, head, entries = waiting[-1]
        name, status = next(entries, ("", None))
        if status is None:
            waiting.pop()
            continue
        held = join(folder, name)
        if held in skipped:
            continue
        found.append((head + name, status))
        if stat.S_ISDIR(status.st_mode) and not below.foreign(status):
            if len(waiting) > MAX_LOWER_DEPTH:
                raise LayerError(f"`{path}` holds directories nested deeper than {MAX_LOWER_DEPTH}")
            waiting.append((held, head + name + "/", iter(below.listing(held))))
    return found


MAX_LOWER_DEPTH = 800
"""Directories within directories of the workspace that are deleted or moved in one call."""
