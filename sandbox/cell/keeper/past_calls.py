# SPDX-License-Identifier: Apache-2.0
"""Requests about calls that are over: what waits, what landed, what became of it, undoing it.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
from typing import Any

from ..landing import multi as together
from ..landing.fates import became, digests_of
from ..landing.held_actions import Turned
from .workplace import HELD, Workplace, check_name


class PastCalls:
    """Answers for layers that wait and for what has landed."""

    def __init__(self, work: Workplace) -> None:
        self._work = work

    def waiting(self, _request: dict[str, Any]) -> dict[str, Any]:
        """List the transactions that wait for a person."""
        return {"waiting": self._work.waiting.list()}

    def look_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what a held transaction, or the named part of it, would change now."""
        wanted = request.get("digests", ())
        return self._work.after.look(
            request["tx"], request["names"], wanted, shown=request["shown"]
        )

    def land_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a held transaction, or a part. With `force`, later changes are overwritten.

        Where something else would land than what was looked at, nothing does (`turned`).
        """
        try:
            return self._work.after.land_held(request)
        except Turned:
            return {"turned": True}

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Undo a landed call in every workspace that it changed."""
        marks, agent = request["mark"], request["agent"]
        return self._work.after.undo(
            request["call"], request["as"], request["digests"], marks, agent
        )

    def net(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what undoing several calls would change in all, or what they changed."""
        return self._work.after.net(request["calls"], forward=request["forward"])

    def clear(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make room for before-images of an agent's own edit."""
        return self._work.after.clear(request["bytes"], request["agent"])

    def outlook(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what an undo would do."""
        return self._work.after.outlook(request["call"], shown=request["shown"])

    def fate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what became of calls and undos whose answers nobody heard: `landed`, `held` or not.

        `changes` are those of what landed, per workspace; `stands` says in which alone it did.
        """
        fates = {}
        for name in request["calls"]:
            check_name(name)
            changes_each = [became(space.root, name) for space in self._work.spaces]
            landed = any(changes is not None for changes in changes_each)
            state = "held" if os.path.isdir(f"{HELD}/{name}") else "nothing"
            stands = together.standing(name) if landed else {}
            fates[name] = {
                "state": "landed" if landed else state,
                "changes": [changes or [] for changes in changes_each],
                "stands": stands,
            }
        return {"fates": fates}

    def left(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the SHA-256 of what a landed call or an undo left at some paths, per workspace."""
        name, wanted = request["call"], request["digests"]
        spaces = zip(self._work.spaces, wanted)
        return {"digests": [digests_of(space.root, name, paths) for space, paths in spaces]}

    def count(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Say how many transactions wait for a person (the answer's `held`)."""
        return {}
