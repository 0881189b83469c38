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

from .. import fs
from ..journal import format as journal
from ..journal.apply import matches
from ..journal.format import PUT, SWAP, TAKE, Identity, Journal, Op
from ..journal.vault import NAME, Vault
from ..overlay import sides as pieces
from ..overlay.layer import LandingError
from ..overlay.steps import type_name


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
        record = _record(vault, name)
    except (LandingError, FileNotFoundError):
        return None
    return [] if record is None else list(_listed(record.ops, back=record.last.back))


def _record(vault: Vault, name: str) -> Journal | None:
    """Return the record whose last run is `name`; None where it is damaged, or another ran since.

    Raises LandingError or FileNotFoundError where nothing is kept.
    """
    descriptor = fs.open_directory(vault.folder_of(name), vault.undo)
    try:
        record = journal.read(descriptor)
    finally:
        os.close(descriptor)
    return record if record is not None and record.last.call == name else None


def digests_of(root: str, name: str, wanted: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of what stands at wanted paths, where it is still as `name` left it."""
    top = fs.open_directory(root)
    try:
        if not wanted or fs.lstat(top, NAME) is None:
            return {}
        with Vault(top) as vault:
            record = _record(vault, name)
            left = dict(_left(record)) if record is not None else {}
            found = {}
            for path in left.keys() & set(wanted):
                side = pieces.below(top, path)()
                if side is not None and matches(fs.identity(side.status), left[path]):
                    found[path] = pieces.sha256(side)
            return {path: digest for path, digest in found.items() if digest is not None}
    except (LandingError, FileNotFoundError):
        return {}
    finally:
        os.close(top)


def _left(record: Journal) -> Iterator[tuple[str, Identity]]:
    """Give what a complete run left at which path."""
    for op, identity in zip(record.ops, record.last.now or ()):
        if identity is not None:
            yield op.path, identity
        arrived = op.action == (TAKE if record.last.back else PUT)
        for name, held in (op.inner or {}).items() if arrived else ():
            yield f"{op.path}/{name}", held


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
