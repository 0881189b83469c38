# SPDX-License-Identifier: Apache-2.0
"""Copies of files as before-images: written whole, into folders that only their owner reads."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat

from sandbox.cell import fs
from sandbox.cell.journal import own_edits
from sandbox.cell.journal.vault import NAME


def try_lock(lock: int) -> bool:
    """Lock an open file for this process alone; False where another one holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_folder(stack: contextlib.ExitStack, parent: int, name: str, *, make: bool) -> int | None:
    """Return a folder's descriptor, which `stack` closes; None where it is not there and `make` is
    False. Raises OSError."""
    try:
        found = fs.open_directory(name, parent)
    except FileNotFoundError:
        if not make:
            return None
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        found = fs.open_directory(name, parent)
        if name == NAME:
            write_file(found, ".gitignore", b"*\n")
    stack.callback(os.close, found)
    return found


def copy_file(source: int, status: os.stat_result, folder: int, name: str) -> str:
    """Copy an open file with its mode, attributes and times; return its SHA-256."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(name, flags, 0o600, dir_fd=folder)
    digest = hashlib.sha256()
    try:
        offset = 0
        while chunk := os.pread(source, fs.CHUNK, offset):
            digest.update(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(target, view) :]
            offset += len(chunk)
        owner = os.fstat(target)
        if (owner.st_uid, owner.st_gid) != (status.st_uid, status.st_gid):
            with contextlib.suppress(PermissionError):
                os.fchown(target, status.st_uid, status.st_gid)
        fs.set_attributes(target, fs.attributes(source))
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(target)
    finally:
        os.close(target)
    return digest.hexdigest()


def write_file(folder: int, name: str, data: bytes) -> None:
    """Put a file in its place, whole and on disk."""
    draft = name + own_edits.NEW
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def reason_of(error: OSError) -> str:
    """Say in a few words why a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if error.errno == errno.ELOOP:
        return "a link came into its place"
    return error.strerror or str(error)
