# SPDX-License-Identifier: Apache-2.0
"""Read the private layer of a call as overlayfs left it: whiteouts, opaque and moved directories.

Runs in the keeper: standard library only, Python 3.9. Says what lies in the layer; what that means
for the workspace is `walk`'s business.

INVARIANT (P3, compiled): what Python compiled in a call is left out, as if the call had not left
it. Python on the host would run it in place of the source beside it, and a header that fits is
easily made up. Whoever imports the source compiles it anew.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator

from .. import fs

MAX_DEPTH = 300
"""Directories within directories; a deeper layer is refused as a whole."""
MAX_ENTRIES = 1_000_000
"""Objects in one layer; a larger layer is refused as a whole."""
CACHE = "__pycache__"
PACKAGES = frozenset(("site-packages", "dist-packages"))
"""Folders of installed packages: whoever writes there has the sources themselves in hand."""
_COMPILED = re.compile(r".*\.(?:pyc|pyo|nbc|nbi)(?:\.[0-9]+)?", re.DOTALL | re.IGNORECASE)
"""Of Python and of numba, also while it is being written."""


class LandingError(Exception):
    """A listing, a landing or an undo cannot be done. The message says why; nothing was changed."""


class LayerError(LandingError):
    """The layer cannot be listed. Nothing of it may land."""


class Node:
    """One object of a layer.

    `source` is, for a directory that was moved, its path in the workspace before. `held` are the
    objects of a directory by name. `opaque` says that the directory shows nothing of what lies
    below it; the file system marks only the topmost of such directories.
    """

    __slots__ = ("held", "opaque", "real", "source", "status")

    def __init__(self, real: str, status: os.stat_result) -> None:
        self.real = real
        self.status = status
        self.held: dict[str, Node] = {}
        self.opaque = False
        self.source: str | None = None

    @property
    def is_directory(self) -> bool:
        """Whether this is a directory."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_whiteout(self) -> bool:
        """Whether this says that the name below is gone."""
        return stat.S_ISCHR(self.status.st_mode) and self.status.st_rdev == 0


class Layer:
    """A whole layer, and the workspace directories that were moved within it."""

    def __init__(self, upper: str) -> None:
        self.sources: set[str] = set()
        self._count = 0
        self.root = Node(upper, os.lstat(upper))
        if not self.root.is_directory:
            raise LayerError(f"`{upper}` is not a directory")
        self._fill(self.root, "", 0)

    def _fill(self, node: Node, below: str | None, depth: int, *, packages: bool = False) -> None:
        """Read what `node` holds; `below` is the workspace directory it shows, None for none.

        `packages` says that it lies in a folder of installed packages.
        """
        if depth > MAX_DEPTH:
            raise LayerError(f"directories are nested deeper than {MAX_DEPTH}")
        with os.scandir(node.real) as entries:
            found = [
                (entry.name, entry.path, entry.stat(follow_symlinks=False)) for entry in entries
            ]
        self._count += len(found)
        if self._count > MAX_ENTRIES:
            raise LayerError(f"the layer holds more than {MAX_ENTRIES} objects")
        cache = not packages and os.path.basename(node.real).casefold() == CACHE
        for name, path, status in sorted(found):
            child = Node(path, status)
            if cache and _is_compiled(name, child):
                continue
            node.held[name] = child
            if child.is_directory:
                inner = None if below is None else join(below, name)
                self._read_directory(child, below)
                child.opaque = child.opaque or (node.opaque and child.source is None)
                place = child.source if child.source is not None else inner
                inside = packages or name in PACKAGES
                self._fill(child, place, depth + 1, packages=inside)
                if name.casefold() == CACHE and not inside and _is_bare(child):
                    del node.held[name]

    def _read_directory(self, node: Node, below: str | None) -> None:
        node.opaque = fs.trusted(node.real, "opaque") == b"y"
        redirect = fs.trusted(node.real, "redirect")
        if redirect is None or node.opaque:
            return
        text = os.fsdecode(redirect)
        if text.startswith("/"):
            source = text.strip("/")
        elif below is not None:
            source = join(below, text)
        else:
            raise LayerError(f"`{node.real}` is moved from nowhere")
        parts = source.split("/")
        if not source or "" in parts or "." in parts or ".." in parts:
            raise LayerError(f"`{node.real}` is moved from `{text}`")
        if source in self.sources:
            raise LayerError(f"`{source}` was moved to two places")
        self.sources.add(source)
        node.source = source


def _is_compiled(name: str, node: Node) -> bool:
    """Whether something in a cache of Python's was made there, and not moved there."""
    if not stat.S_ISREG(node.status.st_mode) or not _COMPILED.fullmatch(name):
        return False
    try:
        return fs.origin(node.real) is None
    except OSError:
        return False


def _is_bare(node: Node) -> bool:
    """Whether a cache that was not moved holds nothing else than what is left out.

    Where it stands for another one that was removed first, that one stays as it was.
    """
    return node.source is None and not node.held


def lies_in(path: str, places: Collection[str]) -> bool:
    """Whether a path is one of `places`, or lies in one."""
    parts = path.split("/")
    return any("/".join(parts[: n + 1]) in places for n in range(len(parts)))


def above(path: str) -> Iterator[str]:
    """Give the folders above a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def join(directory: str, name: str) -> str:
    """Join a relative directory (`""` is the root) and a name."""
    return directory + "/" + name if directory else name
