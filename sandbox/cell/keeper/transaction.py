# SPDX-License-Identifier: Apache-2.0
"""The layers of one call, as the keeper holds them.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

from collections.abc import Collection

from ..overlay import walk


class Transaction:
    """The layers of one call, one per workspace."""

    def __init__(self, name: str, *, writes: bool) -> None:
        self.name = name
        self.writes = writes
        self.layers: list[str] = []
        self.placed = True
        """Whether it still stands in the cell: to detach twice would take the place itself away."""
        self.since: list[int] = []
        self.walks: list[walk.Walk] = []
        """What changed, once the transaction is closed."""
        self.turns: list[int] = []
        """How often something had landed in each workspace when that was listed."""
        self.stands: Collection[str] = ()
        """Paths of workspaces where it has landed, though it could not in all of them."""
        self.unwatched = ""
        """Why nobody watches it any more."""
