# SPDX-License-Identifier: Apache-2.0
"""Copies of files that an agent's own tool is about to edit, kept on the host in the workspace.

    with opened(root) as edits: edits.keep(...) before the tool, edits.close(...) after it

Where they lie and how the next keeper takes them over: `cell.journal.own_edits`. Everything goes
through a descriptor of the workspace and follows no link.

INVARIANT (P12, own edits): `keep` returns only when a whole copy of each file is on disk; each
file's content when one edit of it is over is that when the next one began, so that edits can be
taken back one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.cell import fs
from sandbox.cell.journal import own_edits
from sandbox.cell.journal.own_edits import After, Before, Damaged, Kept
from sandbox.cell.journal.removal import remove
from sandbox.cell.journal.vault import NAME
from sandbox.cell.landing.room import AGED_SECONDS
from sandbox.cell.overlay.layer import above
from sandbox.errors import Unavailable
from sandbox.host.image_files import copy_file, open_folder, reason_of, try_lock, write_file

MOST_FILE = 32 << 20
"""Bytes of one file of which a copy is kept."""
LOCK_SECONDS = 20.0
PAUSE_SECONDS = 0.005
FORGET_SECONDS = 86_400
"""After which an edit whose tool never came back, and that changed nothing, is forgotten."""
_TRIES = 3
"""Copies of a file that is being written to, before that is given up."""


class Full(Unavailable):
    """The quota of before-images is reached."""

    def __init__(self, root: str, coming: int) -> None:
        super().__init__(f"before-images in `{root}` take up all of `undo_mib`")
        self.root = root
        self.coming = coming


@dataclass(frozen=True, slots=True)
class Edit:
    """One file that a tool is going to edit."""

    path: str
    """Relative to the workspace, without links."""
    expected: str = ""
    """The SHA-256 of what it is going to leave, where that can be told."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What one call left of one file; what it replaced lies in the folder of the call."""

    before: Before
    after: After
    slot: str
    mode: int = 0o644
    """Permission bits of what stands there now, or stood there."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose edit it is."""

    call: str
    sign: str
    session: str = ""
    use: str = ""


@dataclass(slots=True)
class OwnEdits:
    """The folder of kept copies in one workspace, locked."""

    root: str
    _top: int
    _base: int

    # -- before a tool

    def keep(self, whose: Whose, edits: Sequence[Edit], quota: int) -> None:
        """Keep a copy of each file. Raises Full, and Unavailable with the path and the reason."""
        draft = whose.call + own_edits.NEW
        try:
            self._remove_drafts()
            os.mkdir(draft, 0o700, dir_fd=self._base)
            folder = fs.open_directory(draft, self._base)
            try:
                files = [self._copy(folder, n, one) for n, one in enumerate(edits)]
                size = sum(file.was[1] for file in files if file.was is not None)
                if self._total() + size > quota:
                    raise Full(self.root, size)
                kept = Kept(
                    whose.call, whose.sign, whose.session, whose.use, time.time(), size, files
                )
                write_file(folder, own_edits.NOTE, own_edits.note(kept))
                os.fsync(folder)
            finally:
                os.close(folder)
            self._hand_over(whose.call, {file.path: file for file in files})
            os.rename(draft, whose.call, src_dir_fd=self._base, dst_dir_fd=self._base)
            os.fsync(self._base)  # P12: the copy is on disk before its tool runs
        except BaseException as error:
            with contextlib.suppress(OSError):
                remove(self._base, draft)
            if isinstance(error, OSError):
                raise Unavailable(reason_of(error)) from None
            raise

    def _copy(self, folder: int, number: int, edit: Edit) -> Before:
        for _ in range(_TRIES):
            try:
                source = fs.open_beneath(self._top, edit.path, fs.READ)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    return Before(edit.path, None, "", self._missing(edit.path), edit.expected)
                raise Unavailable(f"`{edit.path}`: {reason_of(error)}") from None
            try:
                status = os.fstat(source)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_FILE:
                    raise Unavailable(f"`{edit.path}`: {unkept(status)}")
                digest = copy_file(source, status, folder, own_edits.slot(number))
                same = fs.identity(os.fstat(source)) == fs.identity(status)
            finally:
                os.close(source)
            if same:
                return Before(edit.path, fs.identity(status), digest, "", edit.expected)
            os.unlink(own_edits.slot(number), dir_fd=folder)
        raise Unavailable(f"`{edit.path}`: another program is writing to it; try again")

    def _missing(self, path: str) -> str:
        """Return the outermost folder above a path that is not there; empty where all are."""
        for folder in reversed(list(above(path))):
            if fs.lstat(self._top, folder) is None:
                return folder
        return ""

    def _total(self) -> int:
        """Return the bytes that are kept in this workspace. Raises Full where nobody can tell."""
        try:
            kept = fs.open_beneath(self._top, f"{NAME}/kept", os.O_RDONLY)
        except FileNotFoundError:
            return self._waiting()
        except OSError:
            raise Full(self.root, 0) from None
        with fs.reading(kept) as file:
            text = file.read(20)
        return self._waiting() + (int(text) if text.isdigit() else 0)

    def _waiting(self) -> int:
        return own_edits.waiting(self._base)

    def _remove_drafts(self) -> None:
        """Remove copies whose making a crash ended: while this holds the lock, nobody makes any."""
        with os.scandir(self._base) as entries:
            drafts = [entry.name for entry in entries if entry.name.endswith(own_edits.NEW)]
        for draft in drafts:
            remove(self._base, draft)

    def forget_aged(self) -> list[str]:
        """Forget edits that never came back, where a person has had time to notice (see `room`).

        Returns their calls.
        """
        before = time.time() - AGED_SECONDS
        aged = [one.call for one in self.unfinished() if one.time < before]
        for call in aged:
            remove(self._base, call)
        return aged

    def _hand_over(self, call: str, files: Mapping[str, Before]) -> None:
        """Say of edits of the same files that have not come back what they left: what `call` found.

        So no content comes between two edits, whichever comes back first.
        """
        for name in self._open():
            kept = self._note(name)
            shared = [file for file in kept.files if file.path in files] if kept else []
            if not shared:
                continue
            found = self._left(name)
            for one in shared:
                before = files[one.path]
                if one.path not in found:
                    after = After(one.path, before.was, before.sha256, [], call)
                    found[one.path] = after._replace(folders=self._made(one))
            self._note_left(name, found)

    # -- after it

    def open_of(self, session: str, use: str) -> list[str]:
        """Return the calls of one use of a tool that has not come back, oldest first: some agents
        ask twice."""
        return [one.call for one in self.unfinished() if (one.session, one.use) == (session, use)]

    def unfinished(self) -> list[Kept]:
        """Return the edits whose tools have not come back, oldest first."""
        found = [kept for name in self._open() if (kept := self._note(name))]
        return sorted(found, key=lambda one: one.time)

    def has_changed(self, kept: Kept) -> bool:
        """Whether anything that a tool named is another than before it."""
        found = self._left(kept.call)
        looks = [(file, found.get(file.path) or self._look(file)) for file in kept.files]
        return any(_differs(before, after) for before, after in looks)

    def close(self, call: str) -> list[Changed] | None:
        """Note what stands there now; return what changed. None where nothing is kept of the call.

        Raises Unavailable.
        """
        kept = self._note(call)
        if kept is None:
            return None
        try:
            found = self._left(call)
            for before in kept.files:
                if before.path not in found:
                    found[before.path] = self._look(before)
            self._note_left(call, found)
        except OSError as error:
            raise Unavailable(reason_of(error)) from None
        return [
            Changed(before, found[before.path], name, self._mode(before.path, f"{call}/{name}"))
            for number, before in enumerate(kept.files)
            if _differs(before, found[before.path]) and (name := own_edits.slot(number))
        ]

    def _mode(self, path: str, copy: str) -> int:
        status = fs.lstat(self._top, path) or fs.lstat(self._base, copy)
        return 0o644 if status is None else stat.S_IMODE(status.st_mode)

    def is_as_told(self, call: str) -> bool:
        """Whether all stands there that a tool, of which nobody heard again, was going to leave.

        What has changed nothing may run still; after a day it is forgotten.
        """
        kept = self._note(call)
        if kept is None:
            return False
        if not self.has_changed(kept):
            if time.time() - kept.time > FORGET_SECONDS:
                remove(self._base, call)
            return False
        found = self._left(call)
        told = [file.path in found or _is_expected(file, self._look(file)) for file in kept.files]
        return all(told)

    def done(self, call: str, *, changed: bool) -> None:
        """Hand a closed edit to the next keeper; where nothing changed, forget it."""
        if changed:
            with contextlib.suppress(FileNotFoundError):
                os.rename(call, call + own_edits.DONE, src_dir_fd=self._base, dst_dir_fd=self._base)
        else:
            remove(self._base, call)

    @contextlib.contextmanager
    def folder_of(self, call: str) -> Iterator[tuple[int, int]]:
        """Give descriptors of the workspace and of the folder with a call's copies."""
        folder = fs.open_directory(call, self._base)
        try:
            yield self._top, folder
        finally:
            os.close(folder)

    def _look(self, before: Before) -> After:
        """Return what stands at a path."""
        status = fs.lstat(self._top, before.path)
        if status is None:
            return After(before.path, None)
        digest = ""
        if stat.S_ISREG(status.st_mode):
            with contextlib.suppress(OSError):
                digest = self._digest(before.path)
        settings = [stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid]
        found = After(before.path, fs.identity(status), digest, self._made(before))
        return found._replace(settings=settings if digest else [])

    def _digest(self, path: str) -> str:
        digest = hashlib.sha256()
        with fs.reading(fs.open_beneath(self._top, path, fs.READ)) as file:
            while chunk := file.read(fs.CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def _made(self, before: Before) -> list[list[Any]]:
        """Return the folders that were made above a path, outermost first."""
        if not before.folder:
            return []
        rows: list[list[Any]] = []
        for folder in reversed(list(above(before.path))):
            status = fs.lstat(self._top, folder)
            new = folder == before.folder or folder.startswith(before.folder + "/")
            if new and status is not None and stat.S_ISDIR(status.st_mode):
                rows.append([folder, fs.identity(status)])
        return rows

    # -- what lies there

    def _open(self) -> list[str]:
        return [name for name in own_edits.names(self._base) if not name.endswith(own_edits.DONE)]

    def _note(self, name: str) -> Kept | None:
        return own_edits.note_of(self._base, name)

    def _left(self, name: str) -> dict[str, After]:
        folder = fs.open_directory(name, self._base)
        try:
            return {one.path: one for one in own_edits.read_after(folder)[0]}
        except Damaged as error:
            raise Unavailable(f"`{name}`: {error}") from None
        finally:
            os.close(folder)

    def _note_left(self, name: str, found: Mapping[str, After]) -> None:
        folder = fs.open_directory(name, self._base)
        try:
            write_file(folder, own_edits.AFTER, own_edits.after(list(found.values()), time.time()))
        finally:
            os.close(folder)


def is_kept(workspaces: Sequence[str], landing: str) -> bool:
    """Whether what a landing or an undo replaced is kept in a workspace, as far as a look at names
    tells, so that it may be taken back. For what people are told; nothing is decided by it."""
    folders = (
        f"{root}/{NAME}/{kind}" for root in workspaces for kind in ("undo", own_edits.FOLDER)
    )
    return any(os.path.lexists(f"{folder}/{landing}") for folder in folders)


@contextlib.contextmanager
def opened(root: str, *, make: bool = False) -> Iterator[OwnEdits | None]:
    """Open and lock the kept copies of a workspace; None where there are none and none are made.

    Raises Unavailable.
    """
    with contextlib.ExitStack() as stack:
        try:
            try:
                top = fs.open_directory(root)
            except FileNotFoundError:
                if make:
                    raise
                yield None  # a workspace that is gone
                return
            stack.callback(os.close, top)
            base = open_folder(stack, top, NAME, make=make)
            edits = None if base is None else open_folder(stack, base, own_edits.FOLDER, make=make)
            if edits is None:
                yield None
                return
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open("lock", flags, 0o600, dir_fd=edits)
            stack.callback(os.close, lock)
        except OSError as error:
            raise Unavailable(f"`{root}/{NAME}`: {reason_of(error)}") from None
        deadline = time.monotonic() + LOCK_SECONDS
        while not try_lock(lock):
            if time.monotonic() > deadline:
                raise Unavailable(f"another edit in `{root}` does not come to its end")
            time.sleep(PAUSE_SECONDS)
        yield OwnEdits(root, top, edits)


def unkept(status: os.stat_result) -> str:
    """Say why no copy of something is kept; empty where one can be."""
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "it is no ordinary file, of which a copy could be kept"
    if status.st_size > MOST_FILE:
        return f"it is larger than {MOST_FILE >> 20} MiB, of which no copy is kept"
    return ""


def _is_expected(before: Before, after: After) -> bool:
    return bool(before.expected) and before.expected == after.sha256


def _differs(before: Before, after: After) -> bool:
    if before.was is None or after.now is None:
        return before.was is not after.now
    return before.was[:3] != after.now[:3] or before.sha256 != after.sha256
