# SPDX-License-Identifier: Apache-2.0
"""Names that appear in a workspace while its cell is warm: secrets that a person makes meanwhile.

The kernel notes them (inotify), so that a call that finds none pays one system call. Watched are
the outermost folders, `MOST_FOLDERS` of them; where the kernel gives no watch, the folder at the
top is listed when its time has changed. Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import ctypes
import os
import struct

MOST_FOLDERS = 1024
_CREATED, _MOVED_HERE = 0x100, 0x80
_ONLY_FOLDERS, _NO_LINKS, _NO_UNLINKED = 0x01000000, 0x02000000, 0x04000000
_OVERFLOW, _GONE, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_HEAD = struct.Struct("iIII")
_READ = 65536
_libc = ctypes.CDLL(None, use_errno=True)


class Newcomers:
    """The new names in the folders of one workspace."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[int, str] = {}
        self._fd = int(_libc.inotify_init1(_NONBLOCK | _CLOEXEC))
        self._blind = self._fd < 0
        self._time = 0

    def watch(self, folders: list[str]) -> None:
        """Watch folders too, relative to the root, the outermost first."""
        if self._time == 0:
            self._time = _time(self._root)
        for folder in sorted(folders, key=lambda path: path.count("/")):
            if self._blind or len(self._folders) >= MOST_FOLDERS:
                return
            path = os.fsencode(os.path.join(self._root, folder))
            flags = _CREATED | _MOVED_HERE | _ONLY_FOLDERS | _NO_LINKS | _NO_UNLINKED
            number = int(_libc.inotify_add_watch(self._fd, path, flags))
            if number >= 0:
                self._folders[number] = folder
            elif not self._folders:
                self._blind = True

    def take(self) -> tuple[list[tuple[str, bool]], bool]:
        """Return the names that have appeared, with whether each is a folder; and whether some were
        missed, so that everything must be looked at."""
        if self._blind:
            return self._listed(), False
        found: list[tuple[str, bool]] = []
        while True:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return found, False
            except OSError:
                self._blind = True
                return found, True
            at = 0
            while at < len(data):
                number, mask, _, size = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0")
                at += _HEAD.size + size
                if mask & _OVERFLOW:
                    self._drain()
                    return found, True
                if mask & _GONE:
                    self._folders.pop(number, None)
                folder = self._folders.get(number)
                if folder is not None and name:
                    path = os.path.join(folder, os.fsdecode(name))
                    found.append((path, bool(mask & _IS_FOLDER)))

    def _drain(self) -> None:
        try:
            while os.read(self._fd, _READ):
                pass
        except OSError:
            return

    def _listed(self) -> list[tuple[str, bool]]:
        now = _time(self._root)
        if now == self._time:
            return []
        self._time = now
        try:
            return [(name, False) for name in os.listdir(self._root)]
        except OSError:
            return []


def _time(root: str) -> int:
    try:
        return os.stat(root).st_mtime_ns
    except OSError:
        return 0
