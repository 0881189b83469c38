# SPDX-License-Identifier: Apache-2.0
"""What became of a landing or an undo whose answer nobody heard: did it come to its end?

Runs in the keeper: standard library only, Python 3.9. Changes nothing. Asked after `recover`, so
that nothing is half-way.
"""

from __future__ import annotations

import os
from typing import Any

from . import fs, journal
from .layer import LandingError
from .standing import changes_of
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
    return list(changes_of(record.ops, back=record.last.back))
