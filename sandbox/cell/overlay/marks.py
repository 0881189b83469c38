# SPDX-License-Identifier: Apache-2.0
"""Whose landing made a file's content: a mark on the file itself, which no call can set or see.

    put(descriptor: int, agent: str) -> None
    of(path: str) -> str | None      the sign of an agent, as `sign` gives it

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

NAME = "trusted.lockgate"
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


def keep(descriptor: int, before: os.stat_result) -> None:
    """Renew a mark after a landing set another mtime; `before` is the file's status until then."""
    with contextlib.suppress(OSError):
        found = _read(descriptor, before)
        if found is not None:
            os.setxattr(descriptor, NAME, _text(found, os.fstat(descriptor)))


def of(target: str | int) -> str | None:
    """Return the sign of the agent whose content a file holds; None for a person's, or no file."""
    try:
        status = os.fstat(target) if isinstance(target, int) else os.lstat(target)
        return _read(target, status) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def _read(target: str | int, status: os.stat_result) -> str | None:
    follow = isinstance(target, int)  # a descriptor names the file itself
    text = os.getxattr(target, NAME, follow_symlinks=follow)
    found = text[:_SIGN_CHARS].decode("ascii", "replace")
    return found if text == _text(found, status) else None


def _text(found: str, status: os.stat_result) -> bytes:
    return f"{found} {status.st_size} {status.st_mtime_ns}".encode("ascii", "replace")
