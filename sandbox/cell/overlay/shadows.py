# SPDX-License-Identifier: Apache-2.0
"""Which compiled modules lie beside a Python source that they would be loaded in place of.

    note_shadows(walked: Walk, root: str) -> None    sets `shadows` of changes

Python looks for `name.so`, and `name.cpython-311-x86_64-linux-gnu.so`, before `name.py`.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import os
import re

from .. import fs
from .layer import join
from .steps import Change, Walk

_NATIVE = re.compile(r"([^.]+)(?:\.[A-Za-z0-9_-]+)?\.(?:so|pyd)", re.IGNORECASE)


def note_shadows(walked: Walk, root: str) -> None:
    """Say of native modules that come with a call which source each of them hides."""
    natives: list[tuple[Change, str]] = []
    for change in walked.changes:
        folder, _, name = change["path"].rpartition("/")
        if change["kind"] in ("created", "modified", "renamed") and change["type"] != "directory":
            match = _NATIVE.fullmatch(name)
            if match:
                natives.append((change, join(folder, match[1])))
    if not natives:
        return
    top = fs.open_directory(root)
    try:
        there = _There(top, walked)
        for change, stem in natives:
            if there.has(stem + ".py"):
                change["shadows"] = stem + ".py"
    finally:
        os.close(top)


class _There:
    """What a workspace holds once a call's changes are made."""

    def __init__(self, top: int, walked: Walk) -> None:
        self._top = top
        self._come = {change["path"] for change in walked.changes if change["kind"] != "deleted"}
        gone = [change["path"] for change in walked.changes if change["kind"] == "deleted"]
        self._gone = {*gone, *(change["source"] for change in walked.changes if "source" in change)}

    def has(self, path: str) -> bool:
        """Whether something lies at a path."""
        if path in self._come:
            return True
        return path not in self._gone and fs.lstat(self._top, path) is not None
