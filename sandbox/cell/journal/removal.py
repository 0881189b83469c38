# SPDX-License-Identifier: Apache-2.0
"""Remove whole trees, as deep and as large as they may be, and no faster than there is time for.

A folder that is not empty is brought up beside its parent before it is emptied, so that no depth
needs recursion, a long path or many descriptors. No link is followed.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Callable, Iterator

from .. import fs

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def remove(directory: int | str, name: str) -> None:
    """Remove `name` of an open folder, or of the one at a path, and all it holds; absent is fine.

    Raises OSError.
    """
    parent = fs.open_directory(directory) if isinstance(directory, str) else os.dup(directory)
    try:
        for _ in steps(parent, name):
            pass
    finally:
        os.close(parent)


def steps(directory: int, name: str) -> Iterator[None]:
    """Remove `name` and all it holds, one object before each `yield`; absent is fine."""
    if _removed(directory, name):
        return
    top = fs.open_directory(name, directory)
    try:
        free = (f".{number}" for number in itertools.count())
        while names := os.listdir(top):
            for held in names:
                yield
                if not _removed(top, held):
                    yield from _emptied(top, held, free)
                    os.rmdir(held, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=directory)


def _emptied(top: int, name: str, free: Iterator[str]) -> Iterator[None]:
    """Remove what a folder holds; folders that hold something themselves go up to the top."""
    inner = fs.open_directory(name, top)
    try:
        while names := os.listdir(inner):
            for held in names:
                yield
                while not _removed(inner, held):
                    try:
                        os.rename(held, next(free), src_dir_fd=inner, dst_dir_fd=top)
                        break
                    except OSError as error:
                        if error.errno not in _TAKEN:
                            raise
    finally:
        os.close(inner)


def _removed(directory: int, name: str) -> bool:
    """Remove a file or an empty folder; return whether nothing is there any more."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            try:
                os.rmdir(name, dir_fd=directory)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                return False
    return True


class Trash:
    """Paths that are to be removed while there is nothing else to do."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._going: Iterator[None] | None = None

    def add(self, path: str) -> None:
        """Have a path removed."""
        self._paths.append(path)

    def work(self, kept: Callable[[str], bool], seconds: float) -> bool:
        """Remove for a while what is not to be `kept` yet; return whether more can be removed.

        What cannot be removed stays; the folder that it lies in goes with the cell.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._going is None:
                path = next((path for path in self._paths if not kept(path)), None)
                if path is None:
                    return False
                self._paths.remove(path)
                self._going = _of_path(path)
            try:
                next(self._going)
            except (StopIteration, OSError):
                self._going = None
        return True


def _of_path(path: str) -> Iterator[None]:
    directory = fs.open_directory(os.path.dirname(path))
    try:
        yield from steps(directory, os.path.basename(path))
    finally:
        os.close(directory)
