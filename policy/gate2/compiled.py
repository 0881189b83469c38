# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on compiled code, which whoever reads the source beside it does not see. Pure.

What Python compiled in a call never gets here (`sandbox/cell/overlay/layer.py`). What is moved in
among it is held, as is compiled code that Python would load in place of a source, or without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.values.comparison import normal

CACHE = "__pycache__"
_PACKAGES = frozenset(("site-packages", "dist-packages", "localpycs"))
"""Folders of installed packages, and one in which PyInstaller keeps what it packs."""
_COMPILED = re.compile(r".*\.py[co]", re.DOTALL)
_NATIVE = re.compile(
    r"(?:(?!lib)[a-z_]\w*|\w+\.(?:abi3|cpython-[\w-]+|cp\d[\w-]*))\.(?:so|pyd)", re.DOTALL
)
"""Native modules that `import` loads; a library of C begins with `lib`."""
_RUNS = "python on the host would run it"


def is_compiled(path: str) -> bool:
    """Whether a path is that of compiled Python, outside of installed packages."""
    parts = normal(path).split("/")
    if not _PACKAGES.isdisjoint(parts):
        return False
    return CACHE in parts or _COMPILED.fullmatch(parts[-1]) is not None


def is_native(path: str) -> bool:
    """Whether a path is that of a native module of Python, outside of installed packages."""
    *folders, name = normal(path).split("/")
    return _PACKAGES.isdisjoint(folders) and _NATIVE.fullmatch(name) is not None


class Compiled:
    """Looks at the compiled code among the changes of a call."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._moved = {
            (change.source, change.path)
            for change in changes
            if change.kind is Kind.RENAMED and change.type is FileType.DIRECTORY
        }

    def reasons(self, change: Change) -> Iterator[PathReason]:
        """Yield the reasons why compiled code that comes with a change is held."""
        if change.kind in (Kind.DELETED, Kind.META) or self._goes_along(change):
            return
        if change.shadows and _PACKAGES.isdisjoint(normal(change.path).split("/")):
            because = f"{_RUNS} in place of `{change.shadows}`, which lies beside it"
            yield PathReason(change.path, Outcome.HOLD, "compiled-code", because)
        elif change.type is not FileType.DIRECTORY and is_compiled(change.path):
            because = f"{_RUNS} without looking at a source that a person can read"
            yield PathReason(change.path, Outcome.HOLD, "compiled-code", because)

    def _goes_along(self, change: Change) -> bool:
        """Whether a change is part of a folder's move that takes along the sources as well."""
        if change.kind is not Kind.RENAMED or change.source is None:
            return False
        if change.modified and change.type is not FileType.DIRECTORY:
            return False
        here, there = change.path.split("/"), change.source.split("/")
        while here and there and here[-1] == there[-1]:
            here.pop()
            there.pop()
            if (
                not any(normal(one) == CACHE for one in here)
                and ("/".join(there), "/".join(here)) in self._moved
            ):
                return True
        return False
