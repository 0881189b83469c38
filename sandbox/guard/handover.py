# SPDX-License-Identifier: Apache-2.0
"""Let a guard that a person starts take over from the supervisor's, and give back when it ends.

The person's guard holds `guard/wanted` in the state folder locked while it runs; the supervisor's
looks now and then whether somebody does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from sandbox.host.dirs import Dirs


class Handover:
    """One guard's end of it."""

    def __init__(self, dirs: Dirs, *, yields: bool) -> None:
        self._yields = yields
        self._path = dirs.state / "guard" / "wanted"
        self._held: int | None = None

    def take(self) -> None:
        """Ask the guard that yields to make room until `close`; does nothing in that one itself."""
        if self._yields or self._held is not None:
            return
        with contextlib.suppress(OSError):
            for folder in (self._path.parent.parent, self._path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = self._open()
            fcntl.flock(self._held, fcntl.LOCK_SH)

    @property
    def wanted(self) -> bool:
        """Whether this guard is to make room."""
        if not self._yields:
            return False
        try:
            descriptor = self._open()
        except OSError:  # nobody ever asked
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def close(self) -> None:
        """Need no more room."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _open(self) -> int:
        create = 0 if self._yields else os.O_CREAT
        return os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | create, 0o600)
