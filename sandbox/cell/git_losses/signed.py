# SPDX-License-Identifier: Apache-2.0
"""Which references lead to a commit or a tag that is new.

No cell holds a person's key, so what is committed there is not signed, whatever their settings ask
for and whatever it bears that looks like a signature; gate 2 says so.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Iterable

from .. import fs
from ..git.files import OnDisk, content, width_of
from ..git.objects import Store
from ..git.packs import Odd
from ..overlay.steps import Change

_BRANCH_OR_TAG = re.compile(r"HEAD|refs/(?:heads|tags)/.+", re.DOTALL)
MOST_BYTES = 64 << 20
"""Of a list of packed references."""
_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)


def note_unsigned(changes: Iterable[Change], root: str, upper: str) -> None:
    """Say `unsigned`: `commit` or `tag`, of each reference that leads to a new one.

    Goes by what `note_folders` said. What cannot be read is held for that elsewhere.
    """
    wanted = [
        one
        for one in changes
        if one.get("git_folders")
        and (one.get("git_text") or _is_list(one))
        and one["type"] == "file"
    ]
    if not wanted:
        return
    top, layer = fs.open_directory(root), fs.open_directory(upper)
    try:
        for change in wanted:
            with contextlib.suppress(*_UNREADABLE):
                kind = _unsigned(change, top, layer)
                if kind:
                    change["unsigned"] = kind
    finally:
        os.close(layer)
        os.close(top)


def _is_list(change: Change) -> bool:
    return bool(change.get("git_refs")) and f"/{change['path']}".endswith("/packed-refs")


def _unsigned(change: Change, top: int, layer: int) -> str:
    folder = change["git_folders"][-1]
    start = "" if folder == "." else f"{folder}/"
    width = width_of((OnDisk(layer), OnDisk(top)), start[:-1])
    with contextlib.ExitStack() as stack:
        old, new = (Store(OnDisk(one, f"{start}objects"), width) for one in (top, layer))
        stack.callback(old.close)
        stack.callback(new.close)
        for oid in _named(change, start, layer):
            if len(oid) == width and not old.has(oid):
                kind = new.kind(oid)
                if kind in (b"commit", b"tag"):
                    return kind.decode("ascii")
    return ""


def _named(change: Change, start: str, layer: int) -> list[bytes]:
    """Return the objects that new branches and tags of a change name."""
    if _is_list(change):
        text = content(OnDisk(layer), change["path"], MOST_BYTES) or b""
        lines = (line.split(b" ", 1) for line in text.split(b"\n") if b" refs/" in line)
        names = {os.fsencode(one) for one in change["git_refs"] if _BRANCH_OR_TAG.fullmatch(one)}
        return [bytes.fromhex(oid.decode("ascii")) for oid, name in lines if name in names]
    match = re.fullmatch(r"([0-9a-f]{40}|[0-9a-f]{64})\n?", change["git_text"])
    if match is None or not _BRANCH_OR_TAG.fullmatch(change["path"][len(start) :]):
        return []
    return [bytes.fromhex(match[1])]
