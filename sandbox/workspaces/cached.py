# SPDX-License-Identifier: Apache-2.0
"""Which workspaces a supervisor may use now, without reading the registry anew for each call.

The list is read again when its file changed; a path is checked in full again when another folder
than the one that was checked stands at it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy.model import Workspace
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput
from sandbox.workspaces.registry import Registry

Identity = tuple[int, int]


class KnownWorkspaces:
    """The registered workspaces, or a fixed list of them."""

    def __init__(self, dirs: Dirs, fixed: Sequence[Workspace] | None) -> None:
        self._registry = Registry(dirs)
        self._file = dirs.state / "workspaces.json"
        self._fixed = fixed is not None
        self._list = tuple(fixed or ())
        self._read_at: tuple[int, ...] | None = None
        self._checked: dict[str, Identity] = {}

    @property
    def home(self) -> str:
        """The home directory on the host."""
        return self._registry.home

    def all(self) -> tuple[Workspace, ...]:
        """Return the workspaces. Raises BadInput when the list cannot be read."""
        if self._fixed:
            return self._list
        try:
            info = self._file.stat()
            state: tuple[int, ...] = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        except OSError:
            state = ()
        if state != self._read_at:
            self._list = self._registry.list()
            self._read_at = state
        return self._list

    def check(self, path: str) -> None:
        """Raise BadInput unless a path is a registered workspace that can be used now."""
        if all(workspace.path != path for workspace in self.all()):
            raise BadInput(
                f"`{path}` is not a registered workspace; `lockgate workspace add` registers it"
            )
        try:
            info = os.lstat(path)
        except OSError as error:
            raise BadInput(f"workspace `{path}`: {error.strerror}") from None
        identity = (info.st_dev, info.st_ino)
        if self._checked.get(path) != identity:
            self._registry.check(path)
            self._checked[path] = identity
