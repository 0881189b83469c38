# SPDX-License-Identifier: Apache-2.0
"""What became of a landing or an undo whose answer nobody heard: did it come to its end?

Runs in the keeper: standard library only, Python 3.9. Changes nothing. Asked after `recover`, so
that nothing is half-way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from . import fs, journal
from .journal import PUT, SWAP, TAKE, Identity, Op
from .layer import LandingError
from .steps import type_name
from .vault import NAME, Vault


def became(root: str, name: str) -> list[dict[str, Any]] | None:
    """Return what the call or undo `name` changed in a workspace; None where it changed nothing.

    Empty where it was turned back since, by a later undo, or where its record is damaged.
    """
    top = fs.open_directory(root)
    try:
        if fs.lstat(top, NAME) is None:
            return None
        with Vault(top) as vault:
            return _changes(vault, name)
    finally:
        os.close(top)


def _changes(vault: Vault, name: str) -> list[dict[str, Any]] | None:
    try:
        folder = vault.folder_of(name)
        descriptor = fs.open_directory(folder, vault.undo)
    except (LandingError, FileNotFoundError):
        return None
    try:
        record = journal.read(descriptor)
    finally:
        os.close(descriptor)
    if record is None or record.last.call != name:
        return []
    return list(_listed(record.ops, back=record.last.back))


def _listed(ops: Sequence[Op], *, back: bool) -> Iterator[dict[str, Any]]:
    """Say what a run changed, by path, kind and type."""
    for op in ops:
        if op.other is not None:
            if op.action == TAKE:
                old, new = (op.other, op.path) if back else (op.path, op.other)
                yield _change(new, "renamed", op.identity, source=old)
        elif op.action in (TAKE, PUT):
            kind = "created" if (op.action == TAKE) == back else "deleted"
            yield _change(op.path, kind, op.identity)
            for name, held in sorted((op.inner or {}).items()):
                yield _change(f"{op.path}/{name}", kind, held)
        else:
            kind = "modified" if op.action == SWAP else "meta"
            yield _change(op.path, kind, op.identity or op.old)


def _change(path: str, kind: str, identity: Identity | None, **more: str) -> dict[str, Any]:
    form = stat.S_IFREG if identity is None else identity[4]
    return {"path": path, "kind": kind, "type": type_name(form), "conflict": False, **more}
