# SPDX-License-Identifier: Apache-2.0
"""The folder `.lockgate` of a workspace: its lock, unfinished landings, before-images, quota.

    .lockgate/lock           held while anything lands, so that two keepers never do at once; says
                             in 20 decimal digits how often something began or came to an end
    .lockgate/landing/CALL/  a landing or undo that is not complete; normally empty
    .lockgate/undo/CALL/     a complete one: its journal and what it replaced
    .lockgate/undo/CALL      (a file) an undo: names the folder that it turned back
    .lockgate/kept           bytes under undo/, in 20 decimal digits
    .lockgate/edits/         what agents' own tools edited on the host since (see `own_edits`)

Runs in the keeper: standard library only, Python 3.9. Git ignores the folder, cells never see it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator

from .. import fs
from ..overlay.layer import LandingError
from . import format as journal
from . import own_edits
from .removal import remove

NAME = ".lockgate"
AGAIN_SECONDS = 0.002
"""Between two tries to lock a workspace's records."""
FEW = 4
"""Landings that are read at once where it is likely that one of the last ones is looked for."""
UNDO_QUOTA = 1 << 30
"""Bytes of before-images that a workspace keeps; beyond it the oldest go."""

_CALL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def checked(call: str) -> str:
    """Return a call's id if it can be a file name. Raises LandingError."""
    if not _CALL.fullmatch(call):
        raise LandingError(f"`{call!a}` cannot be the id of a call")
    return call


def folder_of(undo: int, call: str) -> str:
    """Return the folder, of those in `undo`, that a call's landing or undo is recorded in.

    Raises LandingError.
    """
    status = fs.lstat(undo, checked(call))
    if status is None:
        raise LandingError(f"nothing is kept of call `{call}`; see the list of undoable calls")
    if stat.S_ISDIR(status.st_mode):
        return call
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with fs.reading(os.open(call, flags, dir_fd=undo)) as file:
        return checked(file.read(200).decode())


def turn_of(lock: int) -> int:
    """Return the number in an open `.lockgate/lock`; 0 where nothing has landed yet."""
    text = os.pread(lock, 20, 0)
    return int(text) if text.isdigit() else 0


class Patience:
    """How long this keeper waits for others in a workspace."""

    seconds = 150.0


def _lock(descriptor: int) -> None:
    """Lock a workspace's records. Raises LandingError where others hold them too long.

    It ends before whoever asked takes this keeper for lost: it is not the one that stands still.
    """
    deadline = time.monotonic() + Patience.seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LandingError(
                    "another landing or undo in this workspace has not come to its end for "
                    f"{Patience.seconds:g} s"
                ) from None
            time.sleep(AGAIN_SECONDS)
        else:
            return


class Vault:
    """An open `.lockgate` folder. Locked from opening to closing."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._owner = os.fstat(root)
        self._open: list[int] = []
        try:
            self._base = self._directory(NAME, root, 0o700, ignored=True)
            self._lock = self._file("lock")
            _lock(self._lock)
            self.landing = self._directory("landing", self._base, 0o700)
            self.undo = self._directory("undo", self._base, 0o700)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give up the lock."""
        while self._open:
            os.close(self._open.pop())

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _directory(self, name: str, parent: int, mode: int, *, ignored: bool = False) -> int:
        try:
            descriptor = fs.open_directory(name, parent)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another keeper was faster
                os.mkdir(name, mode, dir_fd=parent)
            descriptor = fs.open_directory(name, parent)
            self._own(descriptor)
            if ignored:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(".gitignore", flags, 0o600, dir_fd=descriptor)
                os.write(file, b"*\n")
                self._own(file)
                os.close(file)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise LandingError(f"`{NAME}` of the workspace is not a folder") from None
            raise
        self._open.append(descriptor)
        if os.fstat(descriptor).st_dev != self._owner.st_dev:
            raise LandingError(f"`{NAME}` lies in another file system than the workspace")
        return descriptor

    def _own(self, descriptor: int) -> None:
        """Give the workspace's owner what we made, so that a person can remove it by hand."""
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, self._owner.st_uid, self._owner.st_gid)

    def _file(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self._base)
        self._open.append(descriptor)
        self._own(descriptor)  # the host reads how much is kept (see `own_edits`)
        return descriptor

    def edits(self) -> int | None:
        """Open the folder of what agents' own tools edited; None where there is none."""
        try:
            return fs.open_directory(own_edits.FOLDER, self._base)
        except OSError:
            return None

    # How often something landed

    def turn(self) -> int:
        """Return a number that is another one as soon as anything lands or is undone here.

        What was judged under one number is judged anew under another. A landing that goes on now
        changes it at its end as well.
        """
        return turn_of(self._lock)

    def _next_turn(self) -> None:
        os.pwrite(self._lock, b"%020d" % (self.turn() + 1), 0)

    # Unfinished landings

    def unfinished(self) -> list[str]:
        """Return the names of landings that did not come to their end."""
        with os.scandir(self.landing) as entries:
            return sorted(entry.name for entry in entries)

    def start(self, call: str) -> int:
        """Make the folder of a new landing; return its descriptor, which the caller closes."""
        if fs.lstat(self.undo, call) is not None:
            raise LandingError(f"call `{call}` has landed already")
        self._next_turn()
        os.mkdir(call, 0o700, dir_fd=self.landing)
        descriptor = fs.open_directory(call, self.landing)
        self._own(descriptor)
        return descriptor

    def reopen(self, call: str) -> int:
        """Make a complete landing an unfinished one again; return its folder's descriptor."""
        self._next_turn()
        os.rename(call, call, src_dir_fd=self.undo, dst_dir_fd=self.landing)
        return fs.open_directory(call, self.landing)

    def finish(self, folder: str, call: str) -> None:
        """Move a landing to the complete ones; `call` is the run that completed it."""
        self._next_turn()
        if call != folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            alias = os.open(call, flags, 0o600, dir_fd=self.undo)
            os.write(alias, folder.encode())
            self._own(alias)
            os.close(alias)
        os.rename(folder, folder, src_dir_fd=self.landing, dst_dir_fd=self.undo)

    def set_aside(self, name: str) -> None:
        """Keep a landing that can neither be finished nor taken back, for a person to look at."""
        self._next_turn()
        os.rename(name, name + ".stuck", src_dir_fd=self.landing, dst_dir_fd=self.undo)

    @staticmethod
    def aside(name: str) -> str:
        """Return where `set_aside` keeps a landing, relative to the workspace."""
        return f"{NAME}/undo/{name}.stuck"

    def touch(self) -> os.stat_result:
        """Return the status of a file that was changed just now (see `stamp` of `landing.land`)."""
        descriptor = self._file("stamp")
        os.fstat(descriptor)
        os.utime(descriptor)
        return os.fstat(descriptor)

    def drop(self, call: str) -> None:
        """Remove an unfinished landing and what was staged for it."""
        self._next_turn()
        remove(self.landing, call)

    # Complete ones

    def folder_of(self, call: str) -> str:
        """Return the folder that a call's landing or undo is recorded in. Raises LandingError."""
        return folder_of(self.undo, call)

    def kept(self) -> Iterator[tuple[str, journal.Journal]]:
        """Give the complete landings, oldest first."""
        with os.scandir(self.undo) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return self._read(names)

    def growing(self) -> Iterator[list[journal.Journal]]:
        """Give the complete landings, oldest first: those completed last, then ever more of them,
        until all are given. Reads only what was not given before.
        """
        found: list[tuple[int, str]] = []
        with os.scandir(self.undo) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    found.append((status.st_ctime_ns, entry.name))
        names = [name for _, name in sorted(found, reverse=True)]
        given: list[tuple[str, journal.Journal]] = []
        size = FEW
        while names:
            given += self._read(names[:size])
            del names[:size]
            size *= 4
            given.sort(key=lambda item: (item[1].last.time, item[0]))
            yield [record for _, record in given]

    def since(self, when: int) -> Iterator[journal.Journal]:
        """Give what was completed since a ctime of this file system (ns), oldest first.

        Costs one look where nothing was; else a look at each complete landing.
        """
        if os.fstat(self.undo).st_mtime_ns < when:
            return
        names = []
        with os.scandir(self.undo) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_ctime_ns >= when:
                    names.append(entry.name)
        for _, record in self._read(names):
            yield record

    def _read(self, names: list[str]) -> Iterator[tuple[str, journal.Journal]]:
        found = []
        for name in names:
            descriptor = fs.open_directory(name, self.undo)
            try:
                record = journal.read(descriptor)
            finally:
                os.close(descriptor)
            if record is not None:
                found.append((record.last.time, name, record))
        for _, name, record in sorted(found, key=lambda item: item[:2]):
            yield name, record

    def note_total(self, total: int) -> None:
        """Note how many bytes are kept (see `room`)."""
        with contextlib.suppress(OSError):  # only a count, made anew by `recount`
            os.pwrite(self._file("kept"), b"%020d" % total, 0)

    def recount(self) -> None:
        """Add up anew what is kept: after a crash the count cannot be trusted."""
        total = sum(record.last.kept for _, record in self.kept())
        os.pwrite(self._file("kept"), b"%020d" % total, 0)

    def total(self) -> int:
        """Return how many bytes are kept, as far as that was noted."""
        text = os.pread(self._file("kept"), 20, 0)
        return int(text) if text.isdigit() else sum(r.last.kept for _, r in self.kept())

    def forget(self, name: str) -> None:
        """Remove a complete landing and all that stands for its undos."""
        with os.scandir(self.undo) as entries:
            aliases = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        for alias in aliases:
            with contextlib.suppress(LandingError):
                if self.folder_of(alias) == name:
                    os.unlink(alias, dir_fd=self.undo)
        remove(self.undo, name)
