# SPDX-License-Identifier: Apache-2.0
"""Links that let a browser in once: made at a terminal, short-lived, of which a digest is kept.

INVARIANT (P8, "a link is not a person"): it says that whoever bears it was shown it; whether
that is an agent's process is asked all the same, at every request (`entrance`).
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from sandbox.errors import Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.processes.loopback import HOST
from sandbox.web.tokens import digest_of, new_secret

LINK_SECONDS = 300.0
"""How long a link can be opened."""


def new_link(dirs: Dirs, port: int) -> str:
    """Make a link to the page that is served at a port of loopback. Raises Unavailable."""
    token = new_secret()
    folder = _folder(dirs)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.iterdir():
            if not _counts(path):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"`{folder}`: {error.strerror}") from None
    own_files.write(_path(dirs, token), f"{time.time() + LINK_SECONDS}\n")
    return f"http://{HOST}:{port}/login?link={token}"


def use_link(dirs: Dirs, token: str) -> bool:
    """Whether a text is the token of a link that counts; from then on it counts no more."""
    path = _path(dirs, token)
    counts = _counts(path)
    try:
        path.unlink()  # of several that come at once, one succeeds
    except OSError:
        return False
    return counts


def _counts(path: Path) -> bool:
    until = 0.0
    with contextlib.suppress(OSError, ValueError):
        until = float(own_files.read(path))
    return time.time() < until <= time.time() + LINK_SECONDS


def _folder(dirs: Dirs) -> Path:
    return dirs.state / "page-links"


def _path(dirs: Dirs, token: str) -> Path:
    return _folder(dirs) / digest_of(token)
