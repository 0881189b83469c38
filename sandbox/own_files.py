# SPDX-License-Identifier: Apache-2.0
"""Read and lock the small files of Lockgate's own without ever waiting for somebody else.

A stop must not hang because a pipe was put in the place of one, or because whoever holds a lock was
halted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

MOST_BYTES = 4_000_000
PAUSE_SECONDS = 0.01
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read(path: Path, encoding: str = "utf-8") -> str:
    """Return a file's text. Raises OSError, also for what is no file; UnicodeDecodeError."""
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        return file.read(MOST_BYTES).decode(encoding)


def lock(descriptor: int, seconds: float) -> None:
    """Take a lock for this process alone. Raises TimeoutError where another keeps it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked") from None
            time.sleep(PAUSE_SECONDS)
        else:
            return
