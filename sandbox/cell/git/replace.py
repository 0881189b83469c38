# SPDX-License-Identifier: Apache-2.0
"""Put new content in the place of an index that still is the one that was read.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import stat

from .. import fs
from ..journal.format import Identity
from .places import Found

_FRESH = "index.fresh"
"""Name of the new index in the landing's folder."""


def replace(
    root: int, folder: int, one: Found, content: bytes, *, durable: bool
) -> Identity | None:
    """Put new content in the place of an index that still is the one we read."""
    directory, name = fs.parent(root, one.place.path)
    try:
        if one.status.st_nlink != 1 or _locked(directory, name):
            return None
        _write(folder, directory, name, one.status, content, durable=durable)
        if _locked(directory, name) or not _same(directory, name, one.status):
            return None
        try:
            fs.rename(folder, _FRESH, directory, name, fs.EXCHANGE)
        except OSError:
            os.rename(_FRESH, name, src_dir_fd=folder, dst_dir_fd=directory)
        else:
            if not _same(folder, _FRESH, one.status, moved=True):
                fs.rename(folder, _FRESH, directory, name, fs.EXCHANGE)
                return None
        return fs.identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FRESH, dir_fd=folder)
        if directory != root:
            os.close(directory)


def _locked(directory: int, name: str) -> bool:
    """Whether somebody is about to write an index."""
    try:
        os.stat(name + ".lock", dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _same(directory: int, name: str, status: os.stat_result, *, moved: bool = False) -> bool:
    one = fs.identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    other = fs.identity(status)
    return one[:3] == other[:3] and (moved or one == other)


def _write(
    folder: int,
    directory: int,
    name: str,
    status: os.stat_result,
    content: bytes,
    *,
    durable: bool,
) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(_FRESH, flags, 0o600, dir_fd=folder)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(target, view) :]
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            fs.set_attributes(target, fs.attributes(source))
        finally:
            os.close(source)
        os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        if durable:
            os.fdatasync(target)
    finally:
        os.close(target)
