# SPDX-License-Identifier: Apache-2.0
"""Which Lockgate this is: its version, and a digest of the code and the settings it runs with.

Standard library only, and quick: a client compares digests before each request.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from sandbox.host.dirs import POLICY_FILES, Dirs

VERSION = "0.1.0"

_KINDS = (".py", ".yaml", ".yml")


def digest(dirs: Dirs) -> str:
    """Return a digest that changes with any file of the program or of the user's settings. Policy
    files do not count: a running supervisor reads them again by itself.

    Names, sizes and times are compared, not contents; that takes less than a millisecond. It
    notices a change, and protects from nobody: a checksum does (hashlib takes 3 ms to import).
    """
    root = Path(__file__).parents[2]
    lines = [VERSION]
    for folder in (root / "sandbox", root / "policy"):
        lines.extend(sorted(_signatures(str(folder))))
    lines.extend(sorted(_signatures(str(dirs.config), but=POLICY_FILES)))
    return f"{zlib.crc32(chr(10).join(lines).encode('utf-8', 'surrogateescape')):08x}"


def _signatures(folder: str, but: tuple[str, ...] = ()) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name in but:
            continue
        if entry.name.endswith(_KINDS):
            found = entry.stat()
            yield f"{entry.path} {found.st_size} {found.st_mtime_ns}"
        elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
            yield from _signatures(entry.path)
