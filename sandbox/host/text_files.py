# SPDX-License-Identifier: Apache-2.0
"""Read files that people write; never waits, and says what is wrong with a file.

A pipe or a device in the place of such a file would hold up every call.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from policy.values.strict_yaml import PolicyError

MOST_BYTES = 4_000_000
"""Longer than any file that is read; what lies beyond is left out."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read_text(path: Path, *, follow: bool = True) -> str | None:
    """Return the text of a file of settings, or None if there is none. Raises PolicyError.

    Without `follow` neither the file nor its folder may be a link: a workspace's files can be an
    agent's or a stranger's.
    """
    nofollow = 0 if follow else os.O_NOFOLLOW
    try:
        folder = os.open(path.parent, _FLAGS | os.O_DIRECTORY | nofollow)
    except (FileNotFoundError, NotADirectoryError):
        if not follow and path.parent.is_symlink():
            raise PolicyError(f"{path.parent}: it is a link; make it a folder") from None
        return None
    except OSError as error:
        raise PolicyError(f"{path}: it cannot be read: {error.strerror}") from None
    try:
        return _read_in(folder, path, nofollow)
    finally:
        os.close(folder)


def _read_in(folder: int, path: Path, nofollow: int) -> str | None:
    try:
        descriptor = os.open(path.name, _FLAGS | nofollow, dir_fd=folder)
    except FileNotFoundError:
        if nofollow == 0 and path.is_symlink():
            raise PolicyError(f"{path}: it is a link to nothing; remove it") from None
        return None
    except OSError as error:
        what = "it is a link; put the file itself there" if path.is_symlink() else error.strerror
        raise PolicyError(f"{path}: it cannot be read: {what}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PolicyError(f"{path}: it is no file; put a file there or remove it")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PolicyError(f"{path}:{line}: it is not UTF-8") from None
