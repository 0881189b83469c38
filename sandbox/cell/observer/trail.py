# SPDX-License-Identifier: Apache-2.0
"""The last events in a layer, and which of them led to a path.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT = 200
"""Events that are remembered of one layer."""
TOLD = 12
"""Events that are told of one path: the first and the last of them."""
CREATED, COPIED, MOVED, DELETED = "created", "copied", "moved", "deleted"
LINKED = "linked"


class Event(NamedTuple):
    """Something that happened at a path of the layer.

    `copied` is an object of the workspace that was about to be written; `linked` is a link or a
    further name; `source` is where a moved object was, or what a symbolic link points at.
    """

    kind: str
    path: str
    source: str = ""

    def told(self) -> dict[str, str]:
        """Return it in a form fit for JSON."""
        return {k: v for k, v in zip(self._fields, self) if v}


class Trail:
    """The last events of one layer, in order."""

    def __init__(self, kept: int = KEPT) -> None:
        self._events: deque[Event] = deque(maxlen=kept)

    def add(self, event: Event) -> None:
        """Remember an event; the oldest is forgotten."""
        self._events.append(event)

    def leading_to(self, path: str) -> list[Event]:
        """Return the events, in order, by which something came to stand at `path`."""
        wanted = {path}
        found: list[Event] = []
        for event in reversed(self._events):
            below = [one for one in wanted if _within(one, event.path)]
            if not below:
                continue
            found.append(event)
            if event.kind == MOVED:
                wanted |= {event.source + one[len(event.path) :] for one in below}
        found.reverse()
        return found if len(found) <= TOLD else [found[0], *found[1 - TOLD :]]


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
