# SPDX-License-Identifier: Apache-2.0
"""Whenever a supervisor started, each undo before counted as the landing of a part that was not
told to its end: the record then said of the undone call that it had just landed, with no change,
and `lockgate undo --last 1` took that call for the newest.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from policy.protected.paths import PathPolicy
from sandbox.audit.events.reading import record_of
from sandbox.calls.open_ends import open_ends
from sandbox.calls.recorder import Recorder
from sandbox.calls.recovery import Recovery
from sandbox.cells.cell import Cell
from sandbox.config.settings import Dirs
from tests.fakes import lines_of

DEAD = "1:1.00"
DECIDED = {
    "event": "decided", "call": "c", "workspace": "/w", "also": [], "supervisor": DEAD,
    "agent": "main", "tool": "Bash", "params": {"command": "rm a"}, "verdict": "allow",
}  # fmt: skip
ENDED = {
    "event": "ended", "call": "c", "ending": "ran", "judgement": "land", "landed": True,
    "changes": [{"path": "a", "kind": "deleted", "type": "file"}],
}  # fmt: skip
UNDOING = {
    "event": "undoing", "call": "u", "undone": "c", "of": "c", "agent": "main", "tool": "undo",
    "workspace": "/w", "also": [], "supervisor": DEAD,
}  # fmt: skip
UNDONE = {**UNDOING, "event": "undone", "landed": True, "changes": []}
PART = {**UNDOING, "event": "landing", "call": "c-1"}
LOGS = {
    "an undo that ended": ([DECIDED, ENDED, UNDOING, UNDONE], []),
    "an undo that did not": ([DECIDED, ENDED, UNDOING], ["undone"]),
    "a part that landed": ([DECIDED, ENDED, PART, {**PART, "event": "landed"}], ["parted"]),
}


class Keeper:
    """A cell whose keeper says that all of it was done, and that nothing is held."""

    spec = SimpleNamespace(workspaces=("/w",))

    async def ask(self, request: dict[str, Any], *, op: str) -> dict[str, Any]:
        """Answer."""
        if op == "fate":
            return {"fates": {one: {"state": "landed", "changes": []} for one in request["calls"]}}
        return {}


@pytest.mark.parametrize("log, told", LOGS.values(), ids=LOGS)
def test_what_the_next_supervisor_tells(
    tmp_path: Path, log: list[dict[str, Any]], told: list[str]
) -> None:
    recorder = Recorder(Dirs.under(tmp_path).create())
    for record in log:
        recorder.store.append(record_of(record), durable=False)

    async def start() -> None:
        for _ in range(2):
            await Recovery(recorder, lambda _: PathPolicy.default()).settle(cast(Cell, Keeper()))

    asyncio.run(start())
    records = list(lines_of(recorder.store))
    assert [one["event"] for one in records[: -len(log)]] == told
    if told != ["parted"]:
        assert recorder.store.landed(5) == []  # it is undone
        changes = recorder.store.call("c").changes
        assert [one["path"] for one in changes or ()] == [
            "a"
        ]  # and the record still says what it did
    assert open_ends(recorder.store.records()) == []
