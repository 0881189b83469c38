# SPDX-License-Identifier: Apache-2.0
"""Read, write and lock small files, most of them our own, without ever waiting for anybody else.

A stop must not hang because a pipe was put in the place of one, or because whoever holds a lock was
halted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sandbox.errors import Unavailable

LOCK_SECONDS = 5.0
"""How long whoever changes a file is waited for; it takes milliseconds."""
MOST_BYTES = 4_000_000
PAUSE_SECONDS = 0.01
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NoFile(OSError):
    """A pipe, a socket or a device is there instead of a file."""


def opened(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError: IsADirectoryError, NoFile."""
    fd = os.open(path, _FLAGS)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NoFile(errno.EINVAL, "it is no file", str(path))
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read(path: Path, encoding: str = "utf-8") -> str:
    """Return a file's text. Raises OSError, also for what is no file; UnicodeDecodeError."""
    with opened(path) as file:
        return file.read(MOST_BYTES).decode(encoding)


def append(path: Path, data: bytes) -> int:
    """Add to a file, which is made if it is not there; return its size. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, data)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def write(path: Path, text: str) -> None:
    """Put a text in a file's place, whole and on disk. Raises Unavailable."""
    draft = path.with_suffix(f".{os.getpid()}.new")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Unavailable(f"`{path}` cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def locked(path: Path, of: Path) -> Iterator[None]:
    """Hold the lock `path` for a change `of` something. Raises Unavailable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise Unavailable(f"`{of}` cannot be used: {error.strerror}") from None
    try:
        try:
            lock(fd, LOCK_SECONDS)
        except OSError as error:
            raise Unavailable(f"`{of}` cannot be used: {error.strerror}") from None
        yield
    finally:
        os.close(fd)


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
