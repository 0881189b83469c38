# SPDX-License-Identifier: Apache-2.0
"""Put a protected path back as it was, and keep what was found in its place.

Works on descriptors below the workspace's root and follows no link. What is new is written beside
its target and renamed over it, so that at no time half of it is there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat

from sandbox.cell import fs
from sandbox.guard.fingerprint import DIRECTORY, FILE, SYMLINK, Entry
from sandbox.guard.snapshots import Full, Place

PREFIX = ".lockgate-guard-"
"""Names of files that are being put back."""


class NotRestored(Exception):
    """Why a path could not be put back."""


def restore(root: str, path: str, before: Entry | None, place: Place) -> None:
    """Make `path` as it was `before` (None: it was not there). Raises NotRestored."""
    try:
        top = fs.open_directory(root)
    except OSError as error:
        raise NotRestored(f"the workspace cannot be opened: {error.strerror}") from None
    try:
        folder, name = _parent(top, path, make=before is not None)
        try:
            _put_back(folder, name, before, place)
            with contextlib.suppress(OSError):
                os.fsync(folder)
        finally:
            if folder != top:
                os.close(folder)
    except Full as error:
        raise NotRestored(str(error)) from None
    except OSError as error:
        raise NotRestored(error.strerror or str(error)) from None
    finally:
        os.close(top)


def _parent(top: int, path: str, *, make: bool) -> tuple[int, str]:
    """Open the folder of a path, making what is missing of it; a repository is not made."""
    try:
        return fs.parent(top, path)
    except FileNotFoundError:
        if not make:
            raise
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        part = "/".join(parts[:depth])
        if fs.lstat(top, part) is None:
            if parts[depth - 1] == ".git":
                raise NotRestored("the whole repository is gone")
            above, name = fs.parent(top, part)
            try:
                os.mkdir(name, 0o755, dir_fd=above)
                inherited = os.fstat(above)
                made = fs.open_directory(name, above)
                with contextlib.suppress(PermissionError):
                    os.fchown(made, inherited.st_uid, inherited.st_gid)
                os.close(made)
            finally:
                if above != top:
                    os.close(above)
    return fs.parent(top, path)


def _put_back(folder: int, name: str, before: Entry | None, place: Place) -> None:
    beside = PREFIX + secrets.token_hex(8)
    if before is None or before.type not in (FILE, SYMLINK):
        if before is not None and before.type != DIRECTORY:
            raise NotRestored("it was a special file")
        there = _status(folder, name)
        if before is not None and there is not None and stat.S_ISDIR(there.st_mode):
            _settings(folder, name, before)
            return
        if there is not None:
            place.take_away(folder, name)
        if before is not None:
            os.mkdir(name, 0o700, dir_fd=folder)
            _settings(folder, name, before)
        return
    content = place.content(before.sha256) if before.sha256 is not None else None
    if content is None:
        raise NotRestored("its content was not kept: it is too long or could not be read")
    try:
        _write(folder, beside, before, content)
        there = _status(folder, name)
        if there is None:
            fs.rename(folder, beside, folder, name, fs.NOREPLACE)
            return
        # Exchanged, never overwritten: whatever stands there at that moment is kept.
        fs.rename(folder, beside, folder, name, fs.EXCHANGE)
        place.take_away(folder, beside)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot exchange
            raise
        if _status(folder, name) is not None:
            place.take_away(folder, name)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(beside, dir_fd=folder)


def _write(folder: int, name: str, before: Entry, content: bytes) -> None:
    if before.type == SYMLINK:
        os.symlink(content, name.encode(), dir_fd=folder)
        with contextlib.suppress(PermissionError):
            os.chown(name, before.uid, before.gid, dir_fd=folder, follow_symlinks=False)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, before.uid, before.gid)
        os.fchmod(descriptor, before.mode)
        os.utime(descriptor, ns=(before.identity[2], before.identity[2]))
        os.fsync(descriptor)


def _settings(folder: int, name: str, before: Entry) -> None:
    descriptor = fs.open_directory(name, folder)
    try:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, before.uid, before.gid)
        os.fchmod(descriptor, before.mode)
    finally:
        os.close(descriptor)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
