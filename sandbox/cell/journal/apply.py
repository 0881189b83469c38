# SPDX-License-Identifier: Apache-2.0
"""Carry out the operations of a landing, forwards or backwards, each atomic and verified.

INVARIANT (P11, Runner): before, between and after any two operations every object lies either in
the workspace or in the landing's folder, whole; how far a run came can be read off the folder.

Runs in the keeper: standard library only, Python 3.9. No link is followed, nothing is overwritten:
objects are renamed onto free names or exchanged, and what came out is compared with what was
expected, else put back.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import fs
from ..overlay import marks
from .format import META, PUT, SWAP, TAKE, Identity, Inner, Op


class Conflict(Exception):
    """The workspace is not as it was when the changes were listed."""

    def __init__(self, *paths: str) -> None:
        super().__init__(", ".join(paths))
        self.paths = paths


class Stuck(Conflict):
    """Not everything could be put back. All of it lies in the workspace or in the folder."""


Identities = list[Any]
"""An identity or None per operation."""


class Runner:
    """One pass over the operations of a landing."""

    def __init__(
        self,
        root: int,
        folder: int,
        ops: list[Op],
        fault: Callable[[str], None] | None,
        *,
        forced: bool = False,
        exact: bool = True,
    ) -> None:
        """`forced`: files that somebody is writing to are replaced and removed all the same.

        `exact`: a moved directory takes along what was listed, and nothing else.
        """
        self._root = root
        self._exact = exact
        self._spares_writers = not forced
        self._folder = folder
        self._ops = ops
        self._fault = fault

    # Whole runs. Each gives the identities at every operation's path, as they are right after it.

    def forward(
        self, expected: Sequence[Identity | None], resumed: int | None = None
    ) -> Identities:
        """Do all operations. Raises Conflict with all of them reversed.

        `resumed` is how many stand already, after a crash (see `progress`).
        """
        start = resumed or 0
        if start and self._unlike(start - 1, expected):
            path = self._ops[start - 1].path
            raise self._gave_up(Conflict(path), self._revert(start))
        now = [self._at(op.path) if n < start else None for n, op in enumerate(self._ops)]
        for position in range(start, len(self._ops)):
            self._step(f"do {position}")
            op = self._ops[position]
            unsure = resumed is not None and op.action == META
            try:
                now[position] = self._do(op, None if unsure else expected[position])
            except (Conflict, OSError) as error:
                # Settings come last: whether a crash came before or after one cannot be seen.
                done = len(self._ops) if unsure else position
                raise self._gave_up(error, self._revert(done)) from None
        return now

    def backward(
        self, expected: Sequence[Identity | None], resumed: int | None = None
    ) -> Identities:
        """Take all operations back. Raises Conflict with all of them done again."""
        count = len(self._ops) if resumed is None else resumed
        if all(op.action == META for op in self._ops[count:]):
            count = len(self._ops)
        if count < len(self._ops) and self._unlike(count, expected):
            path = self._ops[count].path
            raise self._gave_up(Conflict(path), self._redo(count, from_meta=False))
        now = [self._at(op.path) if n >= count else None for n, op in enumerate(self._ops)]
        for position in range(count - 1, -1, -1):
            self._step(f"undo {position}")
            op = self._ops[position]
            unsure = resumed is not None and op.action == META
            try:
                now[position] = self._undo(op, None if unsure else expected[position])
            except (Conflict, OSError) as error:
                again = 0 if unsure else position + 1
                raise self._gave_up(error, self._redo(again, from_meta=unsure)) from None
        return now

    def _revert(self, count: int) -> list[str]:
        self._spares_writers = self._exact = False  # what stands half is worse
        failed = []
        for position in range(count - 1, -1, -1):
            self._step(f"revert {position}")
            op = self._ops[position]
            try:
                self._undo(op, None if op.action == META else loosely(op.identity))
            except (Conflict, OSError):
                failed.append(op.path)
        return failed

    def _redo(self, start: int, *, from_meta: bool) -> list[str]:
        self._spares_writers = self._exact = False
        failed = []
        for position in range(start, len(self._ops)):
            self._step(f"redo {position}")
            op = self._ops[position]
            if from_meta and op.action != META:
                continue
            try:
                self._do(op, None if op.action == META else loosely(first_expected(op)))
            except (Conflict, OSError):
                failed.append(op.path)
        return failed

    def _unlike(self, position: int, expected: Sequence[Identity | None]) -> bool:
        """Whether an operation moved something else than it should have.

        INVARIANT (P11, unlike): each is compared right after it was done, and put back where it is
        not what was expected. A crash may come between: this is asked of the last one before it.
        """
        op, wanted = self._ops[position], expected[position]
        slot = None if op.action == META else self._slot(op)
        if slot is None or wanted is None:
            return False  # it moved nothing out of the workspace, or on to another place
        if self._written(op) or not _same(fs.identity(slot), wanted):
            return True
        return bool(self._strangers(op))

    @staticmethod
    def _gave_up(error: Conflict | OSError, failed: list[str]) -> Exception:
        if failed:
            return Stuck(*failed)
        return error

    def progress(self) -> int:
        """Return how many operations stand, read off the folder. Settings in place do not count."""
        for position in range(len(self._ops) - 1, -1, -1):
            if self._stands(self._ops[position]):
                return position + 1
        return 0

    def _step(self, name: str) -> None:
        if self._fault is not None:
            self._fault(name)

    # What stands

    def _at(self, path: str) -> Identity | None:
        status = fs.lstat(self._root, "" if path == "." else path)
        return None if status is None else fs.identity(status)

    def _slot(self, op: Op) -> os.stat_result | None:
        try:
            return os.stat(op.slot, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _stands(self, op: Op) -> bool:
        if op.action == META:
            return False
        if op.action == SWAP:
            self._settle(op)
            self._put_back(op)
        slot = self._slot(op)
        if op.action == SWAP:
            return slot is None or op.identity is None or slot.st_ino != op.identity[0]
        if op.action == TAKE:
            if op.other is None:
                return slot is not None
            return slot is not None or self._lies_at(op, op.other)
        return slot is None and (op.other is None or self._lies_at(op, op.path))

    def _put_back(self, op: Op) -> None:
        """Exchange again what a run backwards took for the file of the landing, and is another.

        Forwards it shows in `_unlike`; here neither side would tell that the exchange was begun.
        """
        slot, found = self._slot(op), self._at(op.path)
        if slot is None or found is None or op.old is None or op.identity is None:
            return
        if found[0] == op.old[0] and slot.st_ino not in (op.old[0], op.identity[0]):
            with self._parent(op.path) as (directory, name):
                self._exchange(op, directory, name)

    def _lies_at(self, op: Op, path: str) -> bool:
        found = self._at(path)
        return found is not None and op.identity is not None and found[0] == op.identity[0]

    # Single operations

    def _do(self, op: Op, expected: Identity | None) -> Identity | None:
        if op.action == TAKE:
            self._out(op, expected)
            return None
        if op.action == PUT:
            return self._in(op)
        if op.action == SWAP:
            return self._swap(op, expected)
        return self._set(op, expected, op.before, op.after)

    def _undo(self, op: Op, expected: Identity | None) -> Identity | None:
        if op.action == TAKE:
            return self._in(op)
        if op.action == PUT:
            self._out(op, expected)
            return None
        if op.action == SWAP:
            return self._swap(op, expected)
        return self._set(op, expected, op.after, op.before)

    def _expect(self, op: Op, directory: int, name: str, expected: Identity | None) -> Identity:
        try:
            found = _look(directory, name)
        except FileNotFoundError:
            raise Conflict(op.path) from None
        if expected is not None and not matches(found, expected):
            raise Conflict(op.path)
        return found

    def _out(self, op: Op, expected: Identity | None) -> None:
        """Move a path of the workspace into its slot."""
        with self._parent(op.path) as (directory, name):
            found = self._expect(op, directory, name, expected)
            _move(directory, name, self._folder, op.slot)
            self._step(f"moved {op.slot}")
            more = self._written(op)
            more = more or ([] if _same(_look(self._folder, op.slot), found) else [op.path])
            more = more or self._strangers(op)
            if more:
                _move(self._folder, op.slot, directory, name)
                raise Conflict(*more)

    def _in(self, op: Op) -> Identity:
        """Move a slot's object to its free place in the workspace."""
        with self._parent(op.path) as (directory, name):
            try:
                _move(self._folder, op.slot, directory, name)
            except FileExistsError:
                raise Conflict(op.path) from None
            return _look(directory, name)

    def _swap(self, op: Op, expected: Identity | None) -> Identity:
        with self._parent(op.path) as (directory, name):
            found = self._expect(op, directory, name, expected)
            if found[4] == stat.S_IFDIR:
                raise Conflict(op.path)
            self._exchange(op, directory, name)
            self._step(f"exchanged {op.slot}")
            if self._written(op) or not _same(_look(self._folder, op.slot), found):
                self._exchange(op, directory, name)
                raise Conflict(op.path)
            fs.tell_modified(directory, name)
            return _look(directory, name)

    def _set(
        self, op: Op, expected: Identity | None, old: list[Any] | None, new: list[Any] | None
    ) -> Identity:
        """Set attributes in place. Without an expected identity they may be old, new or between."""
        assert old is not None
        assert new is not None
        if op.path == ".":
            return self._set_open(op, self._root, expected, old, new)
        with self._parent(op.path) as (directory, name):
            found = self._expect(op, directory, name, expected)
            if op.old is None or (found[0], found[4]) != (op.old[0], op.old[4]):
                raise Conflict(op.path)
            if found[4] == stat.S_IFLNK:
                os.chown(name, new[1], new[2], dir_fd=directory, follow_symlinks=False)
                times = (new[3], new[3])
                os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)
                return _look(directory, name)
            descriptor = fs.open_beneath(directory, name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return self._set_open(op, descriptor, expected, old, new)
        finally:
            os.close(descriptor)

    def _set_open(
        self, op: Op, descriptor: int, expected: Identity | None, old: list[Any], new: list[Any]
    ) -> Identity:
        status = os.fstat(descriptor)
        present = [stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid]
        if expected is None:
            known = all(value in (old[n], new[n]) for n, value in enumerate(present))
        else:
            known = present == old[:3] and matches(fs.identity(status), expected)
        if not known or (op.old is not None and status.st_ino != op.old[0]):
            raise Conflict(op.path)
        if new[1:3] != present[1:]:
            os.fchown(descriptor, new[1], new[2])
        if new[4] is not None:
            wanted = {name: base64.b64decode(value) for name, value in new[4].items()}
            fs.set_attributes(descriptor, wanted)
        os.fchmod(descriptor, new[0])
        if new[3] is not None:
            os.utime(descriptor, ns=(status.st_atime_ns, new[3]))
            marks.keep(descriptor, status)
        return fs.identity(os.fstat(descriptor))

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        try:
            opened = fs.parent(self._root, path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                raise Conflict(path) from None
            raise
        try:
            yield opened
        finally:
            if opened[0] != self._root:
                os.close(opened[0])

    def _written(self, op: Op) -> list[str]:
        """Return what in a slot somebody still has open for writing.

        Looked at once no name leads there any more, and before it is compared: who has closed it
        by then has changed it visibly, and who has not would write where nobody looks.
        """
        if not self._spares_writers or op.other is not None:  # what was moved goes on elsewhere
            return []
        if op.inner is None:
            return [op.path] if fs.being_written(self._folder, op.slot) else []
        found = []
        for path, what in op.inner.items():
            if what[4] == stat.S_IFREG and self._written_inside(f"{op.slot}/{path}"):
                found.append(f"{op.path}/{path}")
        return found

    def _written_inside(self, path: str) -> bool:
        try:
            folder, name = fs.parent(self._folder, path)
        except OSError:  # what is not there is told by the comparison
            return False
        try:
            return fs.being_written(folder, name)
        finally:
            os.close(folder)

    # Directories as a whole

    def _strangers(self, op: Op) -> list[str]:
        """Return what a directory in its slot holds beside, or instead of, what was listed."""
        moved = op.carried if self._exact and op.action == TAKE else None
        listed = op.inner if moved is None else moved
        if listed is None:
            return []
        folder = fs.open_beneath(self._folder, op.slot)
        try:
            found = {path: fs.identity(status) for path, status in fs.tree(folder)}
        finally:
            os.close(folder)
        gone = (
            [] if moved is None else [f"{op.path}/{name}" for name in moved.keys() - found.keys()]
        )
        return sorted((*differing(op.path, listed, found), *gone))

    # File systems that cannot exchange

    def _exchange(self, op: Op, directory: int, name: str) -> None:
        try:
            fs.rename(self._folder, op.slot, directory, name, fs.EXCHANGE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            aside = op.slot + ".old"
            os.link(
                name, aside, src_dir_fd=directory, dst_dir_fd=self._folder, follow_symlinks=False
            )
            self._step(f"linked {op.slot}")
            os.rename(op.slot, name, src_dir_fd=self._folder, dst_dir_fd=directory)
            self._step(f"replaced {op.slot}")
            os.rename(aside, op.slot, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _settle(self, op: Op) -> None:
        """Complete or take back an exchange that was cut short."""
        aside = op.slot + ".old"
        if fs.lstat(self._folder, aside) is None:
            return
        if self._slot(op) is None:
            os.rename(aside, op.slot, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        else:
            os.unlink(aside, dir_fd=self._folder)


def differing(path: str, wanted: Inner, found: Inner) -> list[str]:
    """Return the paths below `path` that are new or changed against `wanted`."""
    return sorted(
        f"{path}/{name}"
        for name, what in found.items()
        if name not in wanted or not matches(what, wanted[name])
    )


def first_expected(op: Op) -> Identity | None:
    """Return what must stand at an operation's path before it is done for the first time."""
    return op.identity if op.action == TAKE else op.old


def loosely(identity: Identity | None) -> Identity | None:
    """Return an identity that does not ask for a certain ctime (our own renames change it)."""
    return None if identity is None else [*identity[:3], 0, identity[4]]


def matches(found: Identity, expected: Identity) -> bool:
    """Whether an object is the expected one; an expected ctime of 0 stands for any."""
    return found[:3] == expected[:3] and expected[3] in (0, found[3])


def _same(identity: Identity, other: Identity) -> bool:
    return identity[:3] == other[:3]


def _look(directory: int, name: str) -> Identity:
    return fs.identity(os.stat(name, dir_fd=directory, follow_symlinks=False))


def _move(from_dir: int, name: str, to_dir: int, target: str) -> None:
    """Rename onto a free name. Raises FileExistsError where it is not free."""
    try:
        fs.rename(from_dir, name, to_dir, target, fs.NOREPLACE)
        return
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    status = os.stat(name, dir_fd=from_dir, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        try:
            os.link(name, target, src_dir_fd=from_dir, dst_dir_fd=to_dir, follow_symlinks=False)
        except FileExistsError:  # linked before a crash: only the second half is left to do
            there = os.stat(target, dir_fd=to_dir, follow_symlinks=False)
            if (there.st_dev, there.st_ino) != (status.st_dev, status.st_ino):
                raise
        os.unlink(name, dir_fd=from_dir)
        return
    with contextlib.suppress(FileNotFoundError):
        os.stat(target, dir_fd=to_dir, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(name, target, src_dir_fd=from_dir, dst_dir_fd=to_dir)
