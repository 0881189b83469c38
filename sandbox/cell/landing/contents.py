# SPDX-License-Identifier: Apache-2.0
"""What files hold as a run leaves them, so that a touch of one later is no change of it.

    arriving(folder: int, root: int, ops: list[Op], *, back: bool) -> dict[str, Content]
    stands(root: int, path: str, content: Content) -> Identity | None

Whoever writes the same bytes again, or touches a file, makes another identity of it (see `fs`), but
nothing that an undo could lose. What is noted before a run is read off the objects that it is about
to place, which nobody else has: what somebody writes there later is never taken for ours.

INVARIANT (P12, contents): what counts as unchanged has the kind, the content, the mode, the owner
and the user's attributes that the run left; the identity that then stands for it is the one that
was read.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import fs
from ..journal.format import META, PUT, SWAP, TAKE, Amendment, Content, Identity, Op
from ..overlay.lower import encoded

MOST = 64 << 20
"""Bytes that are read of one run's files; of further ones only the identity tells."""


def arriving(folder: int, root: int, ops: Sequence[Op], *, back: bool) -> dict[str, Content]:
    """Return what will stand at each path of a file or link that a run is about to place or set."""
    left = MOST
    found: dict[str, Content] = {}
    for path, directory, place, after in _places(folder, root, ops, back=back):
        status = fs.lstat(directory, place)
        if status is None or status.st_size > left:
            continue
        seen = _read(directory, place)
        if seen is None:
            continue
        left -= status.st_size
        content = seen[1]
        if after is not None:
            content = [content[0], *after[:3], _digest(after[4] or {})]
        found[path] = content
    return found


def stands(root: int, path: str, content: Content) -> Identity | None:
    """Return the identity of what stands at a path if it is what a run left there, else None."""
    seen = _read(root, path)
    return seen[0] if seen is not None and seen[1] == list(content) else None


def amended(
    ops: Sequence[Op], path: str, identity: Identity, *, back: bool
) -> tuple[int | None, list[Amendment]]:
    """Return which operation's path it is, and what says that another object stands there now."""
    leaves = PUT if back else TAKE
    for position, op in enumerate(ops):
        if op.path == path and op.action in (leaves, SWAP, META):
            which = "identity" if op.action == leaves or (op.action == SWAP and back) else "old"
            return position, [[position, which, None, identity]]
        name = path[len(op.path) + 1 :]
        if op.action == leaves and path.startswith(op.path + "/") and name in (op.inner or {}):
            return None, [[position, "inner", name, identity]]
    return None, []


def _places(
    folder: int, root: int, ops: Sequence[Op], *, back: bool
) -> Iterator[tuple[str, int, str, list[Any] | None]]:
    """Give path, where the object lies now, and what will be set of it; nothing of folders."""
    arrives = TAKE if back else PUT
    for op in ops:
        if op.path == ".":
            continue
        if op.action == META:
            yield op.path, root, op.path, op.before if back else op.after
        elif op.action == SWAP or (op.action == arrives and op.other is None):
            yield op.path, folder, op.slot, None
            for name in op.inner or {} if op.action == arrives else ():
                yield f"{op.path}/{name}", folder, f"{op.slot}/{name}", None


def _read(directory: int, path: str) -> tuple[Identity, Content] | None:
    """Return identity and content of a file or link; None of anything else, or what is changing."""
    status = None if path == "." else fs.lstat(directory, path)
    if status is None:
        return None
    listed: dict[str, str] = {}
    try:
        if stat.S_ISLNK(status.st_mode):
            digest = hashlib.sha256(os.fsencode(fs.readlink(directory, path)))
            again = fs.lstat(directory, path)
        elif stat.S_ISREG(status.st_mode):
            digest = hashlib.sha256()
            with fs.reading(fs.open_beneath(directory, path, fs.READ)) as file:
                while chunk := file.read(fs.CHUNK):
                    digest.update(chunk)
                listed = encoded(fs.attributes(file.fileno()))
                again = os.fstat(file.fileno())
        else:
            return None
    except OSError:  # another one stands there by now, or it cannot be read: the identity tells
        return None
    if again is None or fs.identity(again) != fs.identity(status):
        return None
    return fs.identity(again), _content(digest.hexdigest(), again, listed)


def _content(sha256: str, status: os.stat_result, listed: Mapping[str, str]) -> Content:
    return [
        sha256,
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        _digest(listed),
    ]


def _digest(listed: Mapping[str, str]) -> str:
    """Return what tells attributes from others; nothing of none."""
    if not listed:
        return ""
    return hashlib.sha256(json.dumps(dict(listed), sort_keys=True).encode()).hexdigest()
