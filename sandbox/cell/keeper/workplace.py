# SPDX-License-Identifier: Apache-2.0
"""What all requests to a keeper share: its workspaces, whose calls run, and what waits.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import re

from ..faults import Faults
from ..git.entries import Contents
from ..landing.held import Waiting
from ..landing.held_actions import Afterwards
from ..landing.spaces import Space
from ..overlay import onward, replaced, shadows, walk
from .notes import note_git

LIVE, HELD = "/tx/live", "/tx/held"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
"""Names of calls and cells become names of folders here."""


class Refused(Exception):
    """A request cannot be done; the message says why."""


def check_name(name: str) -> None:
    """Raise Refused for what cannot be the name of a folder."""
    if not _NAME.fullmatch(name):
        raise Refused("a name that cannot be the name of a folder")


class Workplace:
    """The workspaces of a keeper, and what acts on all of them or on none."""

    def __init__(self) -> None:
        self.spaces: list[Space] = []
        self.cell = ""
        """The folder of the cell's layers."""
        self.agent = ""
        """Whose calls run in the cell."""
        self.fault = Faults()
        self.waiting = Waiting(HELD, LIVE)
        self.after = Afterwards([], self.waiting, self.walk_layer, quota=0, fault=None)

    def keep_undo(self, quota: int) -> None:
        """Act on the workspaces there are from now on; `quota`: bytes that are kept for undoing."""
        self.after = Afterwards(
            self.spaces, self.waiting, self.walk_layer, quota=quota, fault=self.fault
        )

    def walk_layer(self, space: Space, upper: str, since: int) -> walk.Walk:
        """Return what a layer changes in a workspace."""
        walked = walk.walk(
            upper,
            space.root,
            masks=space.hidden,
            since=since,
            owners=space.back,
            reads=space.patterns.reads,
            condenses=space.patterns.condenses,
        )
        replaced.note_replaced(walked, space.root, self.agent)
        onward.note_onward([walked], [space.root])
        onward.note_own(walked, space.root, self.agent)
        shadows.note_shadows(walked, space.root)
        look = space.patterns
        contents = Contents(look.reads, look.condenses)
        note_git(walked.changes, space.root, upper, space.hidden, look.counts, contents=contents)
        return walked
