# SPDX-License-Identifier: Apache-2.0
"""Copy what a call made from its layer into a landing's folder, ready to be moved into place.

Runs in the keeper: standard library only, Python 3.9. Touches the workspace only below its own
`.lockgate`. Device nodes, sockets, FIFOs and set-id bits of files are left behind here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from .. import fs
from ..overlay import marks
from ..overlay.layer import Node
from ..overlay.steps import landed_mode

SYNC_EACH = 4
"""Up to so many files are synced one by one; more are synced with the whole file system."""


class Stage:
    """The folder of one landing, being filled."""

    def __init__(
        self, folder: int, owners: Mapping[int, int], agent: str, sources: Mapping[str, str]
    ) -> None:
        """`sources` are, for paths whose content the call found elsewhere, the paths it had."""
        self._agent = agent
        self._sources = sources
        self.moved: list[tuple[str, str]] = []
        """Staged files (below the folder) whose content the call found, and the paths it had."""
        self._folder = folder
        self._owners = owners
        self._links: dict[int, str] = {}
        self._files = 0
        self.written: list[str] = []
        """The first files, to be synced one by one."""

    def place(self, node: Node, slot: str, path: str) -> None:
        """Make a copy of an object of the layer, with all it holds, under the name `slot`.

        `path` is where it will be in the workspace.
        """
        self._copy(node, self._folder, slot, slot, path)

    def sync(self) -> None:
        """Write what was staged to disk."""
        if self._files > SYNC_EACH:
            fs.sync_all(self._folder)
            return
        for path in self.written:
            descriptor = fs.open_beneath(self._folder, path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def _copy(self, node: Node, directory: int, name: str, path: str, place: str) -> None:
        status = node.status
        if stat.S_ISREG(status.st_mode):
            if status.st_nlink > 1 and self._linked(status.st_ino, directory, name, path):
                return
            self._file(node, directory, name)
            if place in self._sources:
                self.moved.append((path, self._sources[place]))
            self._files += 1
            if self._files <= SYNC_EACH:
                self.written.append(path)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(node.real), name, dir_fd=directory)
            uid, gid = self._ids(status)
            os.chown(name, uid, gid, dir_fd=directory, follow_symlinks=False)
            times = (status.st_atime_ns, status.st_mtime_ns)
            os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)
        elif stat.S_ISDIR(status.st_mode):
            self._directory(node, directory, name, path, place)

    def _linked(self, inode: int, directory: int, name: str, path: str) -> bool:
        """Link to the first copy of a file with several names in the layer, if there is one."""
        first = self._links.setdefault(inode, path)
        if first == path:
            return False
        os.link(first, name, src_dir_fd=self._folder, dst_dir_fd=directory, follow_symlinks=False)
        return True

    def _file(self, node: Node, directory: int, name: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(name, flags, 0o600, dir_fd=directory)
        try:
            source = os.open(node.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fs.copy_content(source, target, node.status.st_size)
            finally:
                os.close(source)
            self._dress(node, target)
        finally:
            os.close(target)

    def _directory(self, node: Node, directory: int, name: str, path: str, place: str) -> None:
        os.mkdir(name, 0o700, dir_fd=directory)
        inner = fs.open_directory(name, directory)
        try:
            for held, child in node.held.items():
                if child.source is None and not child.is_whiteout:
                    self._copy(child, inner, held, f"{path}/{held}", f"{place}/{held}")
            self._dress(node, inner)
        finally:
            os.close(inner)

    def _dress(self, node: Node, descriptor: int) -> None:
        """Give a copy the owner, mode, attributes and times of the original."""
        status = node.status
        uid, gid = self._ids(status)
        os.fchown(descriptor, uid, gid)
        fs.set_attributes(descriptor, fs.attributes(node.real))
        os.fchmod(descriptor, landed_mode(status))
        os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
        marks.put(descriptor, self._agent)

    def _ids(self, status: os.stat_result) -> tuple[int, int]:
        owners = self._owners
        return owners.get(status.st_uid, status.st_uid), owners.get(status.st_gid, status.st_gid)
