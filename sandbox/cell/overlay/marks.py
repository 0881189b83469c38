# SPDX-License-Identifier: Apache-2.0
"""Whose landing made a file's content: a mark on the file itself, which no call can set or see.

    put(descriptor: int, agent: str) -> None
    of(path: str) -> str | None      the sign of an agent, as `sign` gives it
    add_edited(descriptor: int) -> None     what it made of a file that was not all its own
    is_all(path: str, agent: str) -> bool   whether the agent made all that the file held, ever

An attribute of the `trusted` kind needs a privilege that neither a cell nor a person's programs
have. It says size and mtime too: whoever changes the file in place makes its content their own,
and a new file in its place has no mark. Where a file system keeps no such attributes, all that lies
there counts as a person's.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from .. import fs

NAME = "trusted.lockgate"
_EDITED = b" edited"
_SIGN_CHARS = 16


def sign(agent: str) -> str:
    """Return what stands for an agent's name; nothing for nobody."""
    return hashlib.sha256(agent.encode()).hexdigest()[:_SIGN_CHARS] if agent else ""


def put(descriptor: int, agent: str) -> None:
    """Mark an open file as an agent's; its size and mtime must be what they shall be."""
    status = os.fstat(descriptor)
    if agent and stat.S_ISREG(status.st_mode):
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, NAME, _text(sign(agent), status))


def add_edited(descriptor: int) -> None:
    """Say of a marked file that its agent made it of one that was not all its own."""
    with contextlib.suppress(OSError):
        found = _read(descriptor, os.fstat(descriptor))
        if found is not None and not found.endswith(_EDITED):
            os.setxattr(descriptor, NAME, found + _EDITED)


def remove(descriptor: int) -> None:
    """Let what an open file holds count as a person's."""
    with contextlib.suppress(OSError):
        os.removexattr(descriptor, NAME)


def keep(descriptor: int, before: os.stat_result) -> None:
    """Renew a mark after a landing set another mtime; `before` is the file's status until then."""
    with contextlib.suppress(OSError):
        found = _read(descriptor, before)
        if found is not None:
            end = _EDITED if found.endswith(_EDITED) else b""
            maker = found[:_SIGN_CHARS].decode("ascii")
            os.setxattr(descriptor, NAME, _text(maker, os.fstat(descriptor)) + end)


def of(target: str | int) -> str | None:
    """Return the sign of the agent whose content a file holds; None for a person's, or no file."""
    found = _found(target)
    return None if found is None else found[:_SIGN_CHARS].decode("ascii")


def is_all(target: str | int, agent: str) -> bool:
    """Whether an agent made a file, and nobody else ever anything that it held."""
    found = _found(target)
    own = found is not None and found[:_SIGN_CHARS] == sign(agent).encode()
    return bool(agent) and own and found is not None and not found.endswith(_EDITED)


def is_all_at(directory: int, path: str, agent: str) -> bool:
    """Say the same of the file at a path below an open directory; False where there is none."""
    try:
        descriptor = fs.open_beneath(directory, path, fs.READ)
    except OSError:
        return False
    try:
        return is_all(descriptor, agent)
    finally:
        os.close(descriptor)


def _found(target: str | int) -> bytes | None:
    try:
        status = os.fstat(target) if isinstance(target, int) else os.lstat(target)
        return _read(target, status) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def _read(target: str | int, status: os.stat_result) -> bytes | None:
    follow = isinstance(target, int)  # a descriptor names the file itself
    text = os.getxattr(target, NAME, follow_symlinks=follow)
    found = text[:_SIGN_CHARS].decode("ascii", "replace")
    return text if text.removesuffix(_EDITED) == _text(found, status) else None


def _text(found: str, status: os.stat_result) -> bytes:
    return f"{found} {status.st_size} {status.st_mtime_ns}".encode("ascii", "replace")
