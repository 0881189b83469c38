# SPDX-License-Identifier: Apache-2.0
"""Which paths git ignores, by the .gitignore files that stand on the host now.

An ignored file counts as rebuildable: deleting it needs no person. Files that cannot be read
ignore nothing (absence means less).
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pathspec import GitIgnoreSpec

_MOST_BYTES = 1 << 20


class Ignored:
    """The ignore rules of one workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def __contains__(self, path: str) -> bool:
        """Whether git ignores a path (relative to the workspace, joined with `/`).

        A tracked file is never ignored, whatever a .gitignore says that a call may have written.
        """
        if self._tracked(path):
            return False
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            if self._matches(part, is_directory=depth < len(parts)):
                return True
        return False

    def _tracked(self, path: str) -> bool:
        """Whether the index may list a path; one that cannot be read lists everything."""
        if self._index is None:
            return False
        compressed = self._index[4:8] == b"\0\0\0\x04"
        return compressed or path.encode("utf-8", "surrogateescape") + b"\0" in self._index

    @cached_property
    def _index(self) -> bytes | None:
        try:
            return (self._root / ".git" / "index").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            return b"\0\0\0\0\0\0\0\x04"

    def _matches(self, path: str, *, is_directory: bool) -> bool:
        answer: bool | None = self._exclude_answer(path, is_directory=is_directory)
        parts = path.split("/")
        for depth in range(len(parts)):
            folder = "/".join(parts[:depth])
            spec = self._spec(folder)
            if spec is None:
                continue
            below = "/".join(parts[depth:]) + ("/" if is_directory else "")
            found = spec.check_file(below).include
            answer = answer if found is None else found
        return bool(answer)

    def _exclude_answer(self, path: str, *, is_directory: bool) -> bool | None:
        if self._exclude is None:
            return None
        return self._exclude.check_file(path + ("/" if is_directory else "")).include

    @cached_property
    def _exclude(self) -> GitIgnoreSpec | None:
        return _read(self._root / ".git" / "info" / "exclude")

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = _read(self._root / folder / ".gitignore")
        return self._specs[folder]


def _read(path: Path) -> GitIgnoreSpec | None:
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return None
        return GitIgnoreSpec.from_lines(path.read_text("utf-8", "surrogateescape").split("\n"))
    except (OSError, ValueError):
        return None
