# SPDX-License-Identifier: Apache-2.0
"""Which references lead to a commit or a tag that is new and bears no signature.

No cell holds a person's key, so what is committed there is not signed, whatever their settings ask
for; gate 2 says so. Signatures themselves are not checked.

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
from ..git.files import Standing, width_of
from ..git.objects import Store
from ..git.packs import Odd
from ..overlay.steps import Change

_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)


def note_unsigned(changes: Iterable[Change], root: str, upper: str) -> None:
    """Say `unsigned`: `commit` or `tag`, of each reference that leads to a new one without.

    Goes by what `note_folders` said. What cannot be read is held for that elsewhere.
    """
    wanted = [one for one in changes if one.get("git_text") and one.get("git_folders")]
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


def _unsigned(change: Change, top: int, layer: int) -> str:
    folder = change["git_folders"][-1]
    rest = change["path"] if folder == "." else change["path"][len(folder) + 1 :]
    found = re.fullmatch(r"([0-9a-f]{40}|[0-9a-f]{64})\n?", change["git_text"])
    if found is None or not re.fullmatch(r"HEAD|refs/(?:heads|tags)/.+", rest, re.DOTALL):
        return ""
    oid = bytes.fromhex(found[1])
    objects = "objects" if folder == "." else f"{folder}/objects"
    try:
        width = width_of((Standing(layer), Standing(top)), "" if folder == "." else folder)
    except ValueError:
        return ""  # git on the host can read nothing there
    with contextlib.ExitStack() as stack:
        old, new = (Store(Standing(one, objects), width) for one in (top, layer))
        stack.callback(old.close)
        stack.callback(new.close)
        if len(oid) != width or old.has(oid):
            return ""
        read = new.read(oid, (old,))
    if read is None:
        return ""
    kind, content = read
    if kind == b"commit":
        head = b"\n" + content.partition(b"\n\n")[0]
        return "" if b"\ngpgsig" in head else "commit"
    return "tag" if kind == b"tag" and b"\n-----BEGIN " not in content else ""
