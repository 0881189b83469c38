# SPDX-License-Identifier: Apache-2.0
"""Names that appear in a workspace while its cell is warm: secrets that a person makes meanwhile.

Watched are the outermost folders, `MOST_FOLDERS` of them. Up to `MOST_COMPARED` are looked at by
their times before each call; in a larger workspace the kernel notes the names (inotify), so that a
call that finds none pays one system call. What the kernel watches is scarce, and shared by all
cells of a user: where it gives none, the times count there as well. Runs in the keeper: standard
library only, Python 3.9.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time

MOST_FOLDERS = 1024
MOST_COMPARED = 64
"""Folders of which it takes no time to ask each for its time."""
TICK_SECONDS = 0.1
"""Two changes of a folder that are nearer to each other may bear one time."""
COARSE_SECONDS = 2.1
"""The same where a file system notes whole seconds."""
_CREATED, _MOVED_HERE = 0x100, 0x80
_ONLY_FOLDERS, _NO_LINKS, _NO_UNLINKED = 0x01000000, 0x02000000, 0x04000000
_OVERFLOW, _GONE, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_HEAD = struct.Struct("iIII")
_READ = 65536
_BILLION = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)

State = tuple[int, int]
"""Of a folder: its inode, and the time of its last change."""


class Newcomers:
    """The new names in the folders of one workspace."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: set[str] = set()
        """Folders that were looked into, of those in a folder that is watched."""
        self._watched: set[str] = set()
        self._compared: dict[str, State | None] = {}
        """Folder -> how it was; None where the same state may yet be another one."""
        self._heard: dict[int, str] = {}
        self._fd = -1
        self._refused = False

    def watch(self, folders: list[str], since: int) -> None:
        """Watch folders too, relative to the root, the outermost first.

        `since` is when they began to be looked into, in ns: what came later is new.
        """
        for folder in sorted(folders, key=lambda path: path.count("/")):
            if not folder or os.path.dirname(folder) in self._watched:
                self._known.add(folder)
            full = folder not in self._watched and len(self._watched) >= MOST_FOLDERS
            if folder in self._compared or full:
                continue
            self._watched.add(folder)
            heard = self._listen(folder)
            state = self._settled(folder, since)
            if not heard or state is None:
                self._compared[folder] = state
        if len(self._compared) > MOST_COMPARED and not self._refused:
            self._hand_over()

    def take(self) -> tuple[list[tuple[str, bool]], bool]:
        """Return the names that have appeared, with whether each is a folder; and whether some were
        missed, so that everything must be looked at."""
        found, missed = self._listened() if self._fd >= 0 else ([], False)
        for folder, before in list(self._compared.items()):
            now = self._state(folder)
            if now is None:
                del self._compared[folder]
                self._forget(folder)
            elif now != before:
                self._compared[folder] = self._settled(folder, time.time_ns())
                found += self._names(folder)
                if self._compared[folder] is not None and folder in self._heard.values():
                    del self._compared[folder]
        return found, missed

    def release(self) -> None:
        """Give back what the kernel watches, and go by times alone from now on."""
        self._refused = True
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        for folder in self._heard.values():
            self._compared[folder] = None  # what was not read yet is looked for next
        self._heard.clear()

    def _forget(self, folder: str) -> None:
        """Take it that a folder is gone; what comes in its place is new."""
        self._known.discard(folder)
        self._watched.discard(folder)

    # -- by times

    def _state(self, folder: str) -> State | None:
        """Return what changes with the names in a folder; None where it is no folder any more.

        That is the time which programs cannot set; the inode tells a folder that took its place.
        """
        try:
            status = os.lstat(os.path.join(self._root, folder) if folder else self._root)
        except OSError:
            return None
        if not stat.S_ISDIR(status.st_mode):
            return None
        return status.st_ino, status.st_ctime_ns

    def _settled(self, folder: str, since: int) -> State | None:
        """Return the state of a folder, if any change after `since` must show in it."""
        state = self._state(folder)
        if state is None:
            return None
        wanted = TICK_SECONDS if state[1] % _BILLION else COARSE_SECONDS
        return state if since - state[1] > wanted * _BILLION else None

    def _names(self, folder: str) -> list[tuple[str, bool]]:
        """Return the files in a folder, and the folders that were not looked into."""
        found = []
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not is_folder or path not in self._known:
                        found.append((path, is_folder))
        except OSError:
            return found
        return found

    # -- by the kernel's word

    def _hand_over(self) -> None:
        """Have the kernel watch what was compared, where it does that."""
        if self._fd < 0:
            self._fd = int(_libc.inotify_init1(_NONBLOCK | _CLOEXEC))
        self._refused = self._fd < 0
        for folder, before in list(self._compared.items()):
            if not self._listen(folder):
                self._refused = True  # it watches as much as it may
                return
            if self._state(folder) == before:  # nothing came until it was watched
                del self._compared[folder]

    def _listen(self, folder: str) -> bool:
        if self._fd < 0:
            return False
        path = os.fsencode(os.path.join(self._root, folder))
        flags = _CREATED | _MOVED_HERE | _ONLY_FOLDERS | _NO_LINKS | _NO_UNLINKED
        number = int(_libc.inotify_add_watch(self._fd, path, flags))
        if number >= 0:
            self._heard[number] = folder
        return number >= 0

    def _listened(self) -> tuple[list[tuple[str, bool]], bool]:
        found: list[tuple[str, bool]] = []
        while True:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return found, False
            except OSError:
                self.release()
                return found, True
            at = 0
            while at < len(data):
                number, mask, _, size = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0")
                at += _HEAD.size + size
                if mask & _OVERFLOW:
                    self._drain()
                    return found, True
                folder = self._heard.get(number)
                if folder is None:
                    continue
                if mask & _GONE:
                    del self._heard[number]
                    self._forget(folder)
                elif name:
                    path = os.path.join(folder, os.fsdecode(name))
                    found.append((path, bool(mask & _IS_FOLDER)))

    def _drain(self) -> None:
        try:
            while os.read(self._fd, _READ):
                pass
        except OSError:
            return
