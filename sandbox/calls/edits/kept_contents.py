# SPDX-License-Identifier: Apache-2.0
"""Read what a landing keeps of a file that it replaced or deleted, without changing anything.

For a person who wants one file back of a call that cannot be undone as a whole any more.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack

from sandbox.cell import fs
from sandbox.cell.journal import format as journal
from sandbox.cell.journal.format import SWAP, TAKE, Journal
from sandbox.cell.journal.vault import NAME, checked
from sandbox.cell.overlay.layer import LandingError
from sandbox.errors import BadInput

MOST_BYTES = 1 << 30


def read_before(workspace: str, call: str, path: str) -> bytes:
    """Return what a file held before a call landed, from what is kept in the workspace.

    `path` is relative to the workspace. Raises BadInput where nothing of it is kept, where the call
    was undone, and where it was no ordinary file.
    """
    wanted = os.path.normpath(path)
    try:
        with ExitStack() as stack:
            root = _open(stack, fs.open_directory(workspace))
            undo = _open(stack, fs.open_beneath(root, f"{NAME}/undo"))
            name = _folder_of(undo, checked(call))
            folder = _open(stack, fs.open_directory(name, undo))
            record = journal.read(folder)
            if record is None or record.last.now is None:
                raise BadInput(f"the record of `{call}` in `{workspace}` is damaged")
            if record.last.back:
                raise BadInput(f"`{call}` was undone: what it replaced is where it was")
            return _read(folder, _slot(record, wanted, call))
    except FileNotFoundError:
        raise BadInput(f"nothing is kept of `{path}` before `{call}`") from None
    except (OSError, LandingError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"what `{path}` held before `{call}` cannot be read: {why}") from None


def _open(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _folder_of(undo: int, call: str) -> str:
    """Return the name of the folder that a call's landing is recorded in."""
    if stat.S_ISDIR(os.stat(call, dir_fd=undo, follow_symlinks=False).st_mode):
        return call
    with os.fdopen(os.open(call, fs.READ, dir_fd=undo), "rb") as file:
        return checked(file.read(200).decode("utf-8", "replace"))


def _slot(record: Journal, wanted: str, call: str) -> str:
    """Return where in the landing's folder a file lies that was at a path before."""
    for op in record.ops:
        if op.action not in (TAKE, SWAP):
            continue
        if op.path == wanted:
            return op.slot
        if wanted.startswith(f"{op.path}/") and op.other is None:
            return f"{op.slot}{wanted[len(op.path) :]}"
    raise BadInput(f"`{call}` replaced or deleted no `{wanted}`; `lockgate show {call}` lists it")


def _read(folder: int, slot: str) -> bytes:
    descriptor = fs.open_beneath(folder, slot, fs.READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("it was no ordinary file")
        if status.st_size > MOST_BYTES:
            raise BadInput("it is too large to be shown")
        return file.read()
