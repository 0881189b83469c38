# SPDX-License-Identifier: Apache-2.0
"""What a person does after a call: land or discard what is held, undo what has landed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from policy.model import ActionPlan, Tier, Verdict
from sandbox.aftermath import Aftermath
from sandbox.cells import Cell, CellLost
from sandbox.effects import changes_of, show
from sandbox.errors import BadInput, SandboxError
from sandbox.pool import CellPool
from sandbox.records import Recorder
from sandbox.results import CallResult, ChangeView, Ending, UndoResult


class Held:
    """Acts through the keeper of the agent's own cell, which has the workspaces mounted."""

    def __init__(
        self,
        record: Recorder,
        pool: CellPool,
        workspaces: Callable[[ActionPlan], tuple[str, ...]],
        aftermath: Aftermath,
    ) -> None:
        self._record = record
        self._pool = pool
        self._workspaces = workspaces
        self._aftermath = aftermath

    async def undo(self, call_id: str, new_id: str) -> UndoResult:
        """Undo a landed call, as a landing of its own that can be undone in turn."""
        store = self._record.store
        entry = store.last_landed() if call_id == "last" else store.call(call_id)
        if not entry["landed"]:
            raise BadInput(f"call `{entry['id']}` has landed nothing that could be undone")
        if entry["undone_by"]:
            raise BadInput(f"call `{entry['id']}` is undone already, by `{entry['undone_by']}`")
        cell, workspaces = await self._cell(entry)
        about = {
            "undone": entry["id"],
            "agent": entry["agent"],
            "tool": "undo",
            "workspace": workspaces[0],
            "also": list(workspaces[1:]),
        }
        await self._aftermath.begin("undoing", new_id, **about)
        request = {"call": entry["id"], "as": new_id}
        answer = await self._asked(new_id, entry, cell, request, op="undo")
        if answer["refused"]:
            await self._aftermath.given_up(new_id, "a later change would be lost")
            raise BadInput(
                f"call `{entry['id']}` cannot be undone without losing later changes of "
                + ", ".join(f"`{path}`" for path in answer["refused"][:10])
            )
        views = _views(answer["changes"], workspaces)
        await self._record.event(
            {
                "event": "undone",
                "call": new_id,
                **about,
                "landed": True,
                "changes": [v.model_dump(mode="json", exclude_none=True) for v in views[:200]],
            }
        )
        return UndoResult(id=new_id, undone=entry["id"], changes=views)

    async def land(self, call_id: str, *, force: bool = False) -> CallResult:
        """Land a held transaction. Raises BadInput where files changed meanwhile."""
        entry = self._held(call_id)
        cell, workspaces = await self._cell(entry)
        about = {"workspace": workspaces[0], "also": list(workspaces[1:])}
        await self._aftermath.begin("landing", entry["id"], **about)
        request = {"tx": entry["id"], "force": force}
        answer = await self._asked(entry["id"], entry, cell, request, op="land_held")
        if answer["conflicts"]:
            await self._aftermath.given_up(entry["id"], "files changed meanwhile")
            raise BadInput(
                f"call `{entry['id']}` was not landed; changed meanwhile: "
                + ", ".join(f"`{path}`" for path in answer["conflicts"][:10])
            )
        views = _views(answer["changes"], workspaces)
        await self._record.event(
            {"event": "landed", "call": entry["id"], "landed": True, "judgement": "land"}
        )
        return _result(entry, "landed by a person", views, landed=True)

    async def discard(self, call_id: str) -> CallResult:
        """Throw a held transaction away."""
        entry = self._held(call_id)
        cell, _ = await self._cell(entry)
        await cell.ask({"tx": entry["id"]}, op="drop")
        await self._record.event(
            {"event": "discarded", "call": entry["id"], "landed": False, "judgement": "discard"}
        )
        return _result(entry, "discarded by a person", (), landed=False)

    async def _asked(
        self, name: str, entry: dict[str, Any], cell: Cell, request: dict[str, Any], *, op: str
    ) -> dict[str, Any]:
        """Ask a keeper to land or undo `name`; where it dies over that, find out what became."""
        try:
            return await cell.ask(request, op=op)
        except CellLost as lost:

            async def again() -> Cell:
                return (await self._cell(entry))[0]

            state, changes = await self._aftermath.after_loss(name, lost, again)
            if state != "landed":
                await self._aftermath.given_up(name, str(lost))
                raise
            return {"changes": changes, "refused": [], "conflicts": []}
        except SandboxError as error:
            await self._aftermath.given_up(name, str(error))
            raise

    def _held(self, call_id: str) -> dict[str, Any]:
        entry = self._record.store.call(call_id)
        if entry["judgement"] != "hold" or entry["landed"]:
            raise BadInput(f"call `{entry['id']}` is not held")
        return entry

    async def _cell(self, entry: dict[str, Any]) -> tuple[Cell, tuple[str, ...]]:
        plan = ActionPlan(
            tool="undo",
            agent=entry["agent"] or "main",
            workspace=entry["workspace"],
            also=tuple(entry["also"] or ()),
        )
        workspaces = self._workspaces(plan)
        return await self._pool.get(plan.agent, workspaces), workspaces


def _views(
    raw: Sequence[Sequence[dict[str, Any]]], workspaces: Sequence[str]
) -> tuple[ChangeView, ...]:
    out: list[ChangeView] = []
    for index, (items, root) in enumerate(zip(raw, workspaces, strict=False)):
        out += show(changes_of(items, root), (), "" if index == 0 else root + "/")
    return tuple(out)


def _result(
    entry: dict[str, Any], message: str, views: tuple[ChangeView, ...], *, landed: bool
) -> CallResult:
    return CallResult(
        id=entry["id"],
        tool=entry["tool"],
        verdict=Verdict(entry["verdict"]),
        tier=Tier(entry["tier"]),
        rules=tuple(entry["rules"]),
        message=message,
        ending=Ending(entry["ending"]),
        judgement="land" if landed else "discard",
        landed=landed,
        changes=views,
        exit_status=entry["exit_status"],
        ms=entry["ms"] or 0.0,
    )
