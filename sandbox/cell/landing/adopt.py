# SPDX-License-Identifier: Apache-2.0
"""Take what agents' own tools edited on the host into the records of landings.

    take_in(vault) -> None

The host kept a copy of each file before the tool ran (`journal.own_edits`). Here that becomes the
record of a landing that is over: the copy is what was replaced, what stood there when the tool came
back is what landed. So undoing, looking, the quota and recovery need no word on where an edit came
from. Nothing of the workspace but its `.lockgate` changes, so no judgement becomes an old one.

Runs in the keeper: standard library only, Python 3.9. Decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

from .. import fs
from ..journal import format as journal
from ..journal import own_edits
from ..journal.format import PUT, SWAP, TAKE, Content, Identity, Inner, Op
from ..journal.own_edits import After, Before, Damaged, Kept
from ..journal.vault import Vault, checked
from ..overlay.layer import LandingError, above
from .stands import bytes_kept


def take_in(vault: Vault) -> None:
    """Take in every edit whose tool came back, the oldest first. What is damaged stays where it is.

    A crash in the middle leaves it to the next one.
    """
    edits = vault.edits()
    if edits is None:
        return
    try:
        found = sorted(_done(edits), key=lambda item: item[0])
        if not found:
            return
        for _, name, call in found:
            with contextlib.suppress(OSError, Damaged, LandingError):
                vault.note_total(vault.total() + _take_in(vault, edits, name, call))
    finally:
        os.close(edits)


def _done(edits: int) -> Iterable[tuple[float, str, str]]:
    with os.scandir(edits) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in names:
        if not name.endswith(own_edits.DONE):
            continue
        with contextlib.suppress(OSError, Damaged, LandingError):
            folder = fs.open_directory(name, edits)
            try:
                _, when = own_edits.read_after(folder)
            finally:
                os.close(folder)
            yield when, name, checked(name[: -len(own_edits.DONE)])


def _take_in(vault: Vault, edits: int, name: str, call: str) -> int:
    """Make one edit a record; return the bytes that it keeps."""
    if fs.lstat(vault.undo, call) is not None:
        raise LandingError(f"`{call}` is recorded already")
    folder = fs.open_directory(name, edits)
    try:
        kept = own_edits.read_note(folder)
        after, when = own_edits.read_after(folder)
        plan = _Plan(folder, kept, after, _claimed(vault, kept))
        size = bytes_kept(folder, plan.ops, back=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(journal.NAME, dir_fd=folder)  # a crash came after it
        begun = journal.plan(call, plan.ops, when, kept.sign, plan.copies, plan.contents)
        journal.append(folder, begun, durable=False)
        journal.append(folder, journal.end(plan.now, size), durable=True)
    finally:
        os.close(folder)
    os.rename(name, call, src_dir_fd=edits, dst_dir_fd=vault.undo)
    return size


def _claimed(vault: Vault, kept: Kept) -> set[str]:
    """Return the folders that an earlier record made, where this edit found none as well."""
    wanted = {file.folder for file in kept.files if file.folder}
    if not wanted:
        return set()
    found = set()
    for _, record in vault.kept():
        for op in record.ops if not record.last.back else ():
            if op.action == PUT:
                found |= {op.path, *(f"{op.path}/{inner}" for inner in op.inner or ())}
    return found


class _Plan:
    """The operations that the edit amounts to."""

    def __init__(self, folder: int, kept: Kept, after: list[After], claimed: set[str]) -> None:
        self._folder = folder
        self.copies: dict[str, Identity] = {}
        """Path -> identity of the object that a copy was made of."""
        left = {one.path: one for one in after}
        taken: list[tuple[Op, Identity | None]] = []
        exchanged: list[tuple[Op, Identity | None]] = []
        made: dict[str, After] = {}
        for number, before in enumerate(kept.files):
            now = left.get(before.path)
            if now is None or (before.was is None and now.now is None):
                continue
            if before.was is None:
                made[before.path] = now
                continue
            copy = self._copy(number)
            self.copies[before.path] = before.was
            name = own_edits.slot(number)
            if now.now is None:
                taken.append((Op(TAKE, before.path, name, copy), None))
            elif not _is_same(before, now):
                exchanged.append((Op(SWAP, before.path, name, now.now, copy), now.now))
        rows = [*taken, *_made(made, claimed), *exchanged]
        self.contents: dict[str, Content] = {
            one.path: [one.sha256, *one.settings, ""]
            for one in after
            if one.now is not None and one.sha256 and one.settings
        }
        self.ops = [op for op, _ in rows]
        self.now = [now for _, now in rows]

    def _copy(self, number: int) -> Identity:
        status = fs.lstat(self._folder, own_edits.slot(number))
        if status is None or not stat.S_ISREG(status.st_mode):
            raise Damaged("a copy is missing")
        return fs.identity(status)


def _is_same(before: Before, now: After) -> bool:
    """Whether a tool left a file as it found it, with its content and its time."""
    stands = before.was is not None and now.now is not None and before.was[:3] == now.now[:3]
    return stands and before.sha256 == now.sha256


def _made(made: dict[str, After], claimed: set[str]) -> list[tuple[Op, Identity | None]]:
    """Return what puts new files in their places: each new folder whole, with what is known of it.

    A folder that another record made holds the file, and stays when this edit is taken back.
    """
    known: Inner = {}
    for path, after in made.items():
        known.update({place: what for place, what in after.folders if place not in claimed})
        if after.now is not None:
            known[path] = after.now
    rows: list[tuple[Op, Identity | None]] = []
    for path in sorted(known):
        if any(one in known for one in above(path)):
            continue
        what = known[path]
        inner = None
        if what[4] == stat.S_IFDIR:
            inner = {
                place[len(path) + 1 :]: held
                for place, held in known.items()
                if place.startswith(path + "/")
            }
        rows.append((Op(PUT, path, f"n{len(rows)}", what, inner=inner), what))
    return rows
