# SPDX-License-Identifier: Apache-2.0
"""Notices that files of the program changed since the supervisor started from them.

A client must know that before each request. Comparing all files takes longer than the rest of its
work, and the kernel can say it: events are in its queue before whoever made the change goes on.
"""

from __future__ import annotations

import ctypes
import os
import struct

from sandbox.host.version import PACKAGES, code_digest, code_place

_EVENTS = 0x0002 | 0x0004 | 0x0008 | 0x0040 | 0x0080 | 0x0100 | 0x0200 | 0x0400 | 0x0800
"""Modified, its attributes, closed after writing, moved, made, removed, and the folder itself."""
_FOLDER, _OVERFLOW, _SELF = 0x40000000, 0x4000, 0x0400 | 0x0800
_HEAD = struct.Struct("iIII")
_READ_BYTES = 65_536
_CACHE = b"__pycache__"


class CodeWatch:
    """Watches the program's folders; without the kernel's help it says that it does not know."""

    def __init__(self, root: str, digest: str) -> None:
        """`digest` is that of the code that runs, which lies in the folder `root`."""
        self._root, self._digest = root, digest
        self._fd = _watch_all(root)
        self._place = code_place(root)
        self._sure = self._fd is not None
        self._same = code_digest(root) == digest

    def unchanged_place(self) -> str:
        """Return where the code lies while it is as it was; empty where that is not known."""
        if self._sure and self._heard():
            self._same = code_digest(self._root) == self._digest
        return self._place if self._sure and self._same else ""

    def close(self) -> None:
        """End the watching."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd, self._sure = None, False

    def _heard(self) -> bool:
        """Whether something happened since the last look."""
        assert self._fd is not None
        found = False
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                _, mask, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                if name == _CACHE:
                    continue
                found = True
                if mask & (_FOLDER | _OVERFLOW | _SELF):  # of a new folder nothing will be heard
                    self._sure = False


def _watch_all(root: str) -> int | None:
    """Return a descriptor of the kernel's that tells of all folders; None where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if fd < 0:
        return None
    for package in PACKAGES:
        for folder, inner, _ in os.walk(f"{root}/{package}"):
            inner[:] = [one for one in inner if one != _CACHE.decode()]
            if libc.inotify_add_watch(fd, os.fsencode(folder), _EVENTS) < 0:
                os.close(fd)
                return None
    return fd
