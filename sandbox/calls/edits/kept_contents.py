# SPDX-License-Identifier: Apache-2.0
"""Read what a landing keeps of a file that it replaced or deleted, without changing anything.

For a person who wants one file back of a call that cannot be undone as a whole any more.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack

from sandbox.cell import fs
from sandbox.cell.journal.format import SWAP, TAKE, Journal
from sandbox.cell.journal.vault import NAME, folder_of
from sandbox.cell.landing.settle import read_record
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
            name = folder_of(undo, call)
            record = read_record(undo, name)
            if record.last.back:
                raise BadInput(f"`{call}` was undone: what it replaced is where it was")
            folder = _open(stack, fs.open_directory(name, undo))
            return _read(folder, _slot(record, wanted, call))
    except FileNotFoundError:
        raise BadInput(f"nothing is kept of `{path}` before `{call}`") from None
    except (OSError, LandingError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"what `{path}` held before `{call}` cannot be read: {why}") from None


def _open(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


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
