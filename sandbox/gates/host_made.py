# SPDX-License-Identifier: Apache-2.0
"""Notice which files an agent's own tools made on the host, so that they count as that agent's.

What the agent says of the outcome is not believed: a file counts where nothing stood before the
call, it holds now exactly what the judged call said that it would, and nothing else can have put
that there meanwhile. An edit keeps a file whose it was.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock

from policy.model import ActionPlan, Context
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.gates.gate1 import Gate1Answer
from sandbox.gates.host_edits import Leaves, leaves
from sandbox.workspaces.project_files import Identity, ProjectFiles, identity_of_content

MOST_CALLS = 1_000
"""Calls of which it is not known yet how they went."""
MOST_MOVED = 10_000
"""Paths to which agents' tools move files; beyond, no file counts as made."""


@dataclass(frozen=True, slots=True)
class _Expected:
    agent: str
    workspaces: tuple[str, ...]
    landings: int
    """How often anything had landed when the call was let through."""
    digests: Mapping[str, str]


class HostMade:
    """What the calls on the host of one supervisor are expected to leave, until they have."""

    def __init__(
        self, files: ProjectFiles, landings: Callable[[tuple[str, ...]], int | None]
    ) -> None:
        """`landings` says how often anything landed in workspaces; None while something does."""
        self._files = files
        self._landings = landings
        self._expected: OrderedDict[str, _Expected] = OrderedDict()
        self._moved: set[str] = set()
        self._lock = Lock()

    def expect(
        self,
        call: str,
        plan: ActionPlan,
        answer: Gate1Answer,
        context: Context,
        places: tuple[str, ...],
    ) -> None:
        """Note what a call that is let through will leave. Looks at files."""
        landings = self._landings(places)
        found = leaves(answer, plan, context)
        with self._lock:
            self._take(call, plan, found, places, landings)

    def _take(
        self,
        call: str,
        plan: ActionPlan,
        found: Leaves,
        places: tuple[str, ...],
        landings: int | None,
    ) -> None:
        if found.moves:  # what comes there is no content of the call's
            self._moved |= found.paths
        for other, kept in list(self._expected.items()):
            if not found.paths.isdisjoint(kept.digests):
                del self._expected[other]
        mine = [path for path in found.texts if self._may(plan, path)]
        digests = {path: digest(found.texts[path]) for path in mine}
        if digests and landings is not None and len(self._moved) < MOST_MOVED:
            self._expected[call] = _Expected(plan.agent, places, landings, digests)
            while len(self._expected) > MOST_CALLS:
                self._expected.popitem(last=False)

    def _may(self, plan: ActionPlan, path: str) -> bool:
        if path in self._moved:
            return False
        if not os.path.lexists(path):
            return True
        seen = self._files.look(plan, [path]).get(path)
        return seen is not None and seen.own

    def settle(self, said: OutcomeRecord) -> OutcomeRecord:
        """Return what is recorded of how a call went, with the files that it made. Looks at files.

        The files count from now on (`ProjectFiles`).
        """
        with self._lock:
            expected = self._expected.pop(said.call, None)
        if expected is None or said.failed or said.agent != expected.agent:
            return said
        made: dict[str, Identity] = {}
        for path, wanted in expected.digests.items():
            found = identity_of_content(path)
            if found is not None and found[1] == wanted:
                made[path] = found[0]
        if not made or self._landings(expected.workspaces) != expected.landings:
            return said
        self._files.adopt(expected.agent, made)
        files = {path: [*one] for path, one in made.items()}
        return said.model_copy(update={"made": {"agent": expected.agent, "files": files}})


def digest(text: str) -> str:
    """Return what tells a file's content from another, of a text that is to be written."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
