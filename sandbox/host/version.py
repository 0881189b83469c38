# SPDX-License-Identifier: Apache-2.0
"""Which Lockgate this is: its version, and a digest of the code and the settings it runs with.

Imports nothing heavy: a client compares it before each request.
"""

from __future__ import annotations

import os

from sandbox.host.xdg import POLICY_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "0.1.0"

ROOT = __file__.rsplit("/", 3)[0]
"""The folder that holds the program's packages."""
PACKAGES = ("sandbox", "policy")
_KINDS = (".py", ".yaml", ".yml")


def digest(config: str) -> str:
    """Return a digest that changes with any file of the program or of the user's settings, which
    lie in the folder `config`.

    Names, sizes and times are compared, not contents. It notices a change, and protects from
    nobody: a checksum does (hashlib takes 3 ms to import).
    """
    return f"{code_digest()}{settings_digest(config)}"


def code_digest(root: str = ROOT) -> str:
    """Return a digest that changes with any file of the program; it takes some
    milliseconds."""
    return _digest(
        [signature for name in PACKAGES for signature in sorted(_signatures(f"{root}/{name}"))]
    )


def settings_digest(config: str) -> str:
    """Return a digest of the user's settings. Policy files do not count: a running supervisor reads
    them again by itself."""
    return _digest(sorted(_signatures(config, but=POLICY_FILES)))


def code_place(root: str = ROOT) -> str:
    """Return which folders the program lies in, whatever has their names later."""
    found = [os.stat(f"{root}/{name}") for name in PACKAGES]  # noqa: PTH116
    return " ".join([VERSION, root, *(f"{one.st_dev}:{one.st_ino}" for one in found)])


def _digest(lines: list[str]) -> str:
    import binascii

    text = chr(10).join([VERSION, *lines])
    return f"{binascii.crc32(text.encode('utf-8', 'surrogateescape')):08x}"


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
