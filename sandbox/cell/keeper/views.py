# SPDX-License-Identifier: Apache-2.0
"""Views of workspaces for a cell whose runtime sees no mount that is moved in later.

The keeper mounts them in its own namespace, in a folder that it shares with the engine; the cell is
created over them afterwards. Takes the place of a Placer, or of nothing at all.
"""

from __future__ import annotations

import os

from .. import mounts
from .placer import pin

VIEWS = "/views"


class Views:
    """One folder per workspace, on which its view is mounted. Raises OSError."""

    def __init__(self, count: int) -> None:
        self._points = []
        for index in range(count):
            os.makedirs(f"{VIEWS}/{index}", 0o700, exist_ok=True)
            self._points.append(os.open(f"{VIEWS}/{index}", os.O_PATH | os.O_DIRECTORY))

    def place(self, index: int, mount: int, pins: list[str]) -> None:
        """Attach a mount as a workspace's view; make the pinned paths in it read-only."""
        mounts.move(mount, self._points[index])
        for path in pins:
            pin(mount, path)

    def remove(self, index: int) -> None:
        """Detach a workspace's view. A cell over it keeps its own copy: it must have ended."""
        mounts.detach(f"{VIEWS}/{index}")


class Nowhere:
    """For a keeper that only lands, undoes and discards: it shows nothing to anybody."""

    def place(self, index: int, mount: int, pins: list[str]) -> None:
        """Refuse."""
        raise OSError(95, "this keeper has no cell", "place")

    def remove(self, index: int) -> None:
        """Do nothing: nothing was placed."""
