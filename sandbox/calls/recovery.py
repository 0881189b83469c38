# SPDX-License-Identifier: Apache-2.0
"""Recovery: how calls, landings and undos ended under which something died.

A keeper's journal decides: what was written there is brought to its end by the next keeper (see
cell/landing), the rest never happened. Here the record is told which, so that what it says is what
the files say. INVARIANT (P11, Recovery): a call that is recorded without an end belongs to a
living supervisor, or gets its end before the next call in its workspaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from policy.model import Judgement, Outcome
from policy.protected.paths import PathPolicy
from sandbox.audit.events.follow_ups import (
    FollowUpRecord,
    GivenUpRecord,
    LandedRecord,
    PartedRecord,
)
from sandbox.audit.events.record import Fields
from sandbox.calls.open_ends import (
    OpenEnd,
    make_end_record,
    only_there,
    open_ends,
    whole_call_of,
    workspaces_of,
)
from sandbox.calls.record_fields import recorded
from sandbox.calls.recorder import Recorder
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.specs import PathsOf
from sandbox.errors import BadInput, SandboxError
from sandbox.gates.gate2 import Effects
from sandbox.gates.shown_changes import Shown, shown_of
from sandbox.host.process_owner import owner_label

MOST_RECORDS = 5_000
"""Newest records of the log that are looked through for what has no end."""
_JUDGED = ("outcome", "reason", "rule")
"""What gate 2 said of a change."""
_SHOWN = ("protected", "mode", "sha256", "leads_to", "leads_state")
"""What a person was shown of a change: of what is left, nobody was shown anything else."""
GetCell = Callable[[], Any]


class Unsure(SandboxError):
    """Whether a call landed is not known yet; the record learns it later."""


class Recovery:
    """Finds out and records how interrupted calls ended. One per supervisor."""

    def __init__(self, record: Recorder, paths: PathsOf) -> None:
        """`paths` gives gate 2's rules for workspaces; it may raise SandboxError."""
        self._record = record
        self._paths = paths
        self._unsure: set[str] = set()
        """Names of this very process about which no keeper could be asked yet."""

    async def begin(self, begun: FollowUpRecord) -> None:
        """Record that an undo or a landing by a person begins; on disk when this returns."""
        await self._record.event(begun.model_copy(update={"supervisor": owner_label()}))

    async def given_up(self, name: str, why: str) -> None:
        """Record that what `begin` announced was not done."""
        await self._record.event(GivenUpRecord(call=name, because=why))

    async def settle(self, cell: Cell) -> None:
        """Record how all ended that has no end yet, in the workspaces of a cell that started."""
        await self._record.flush()
        open_ends = self._open_ends(cell.spec.workspaces)
        if not open_ends:
            return
        fates = await self._ask(cell, [end.begun.call for end in open_ends])
        for one in open_ends:
            begun, name = one.begun, one.begun.call
            fate = fates[name]
            if not one.parting:
                shown = await self._left(cell, name, fate["changes"])
                stands = fate.get("stands") or {}
                await self._record.event(make_end_record(begun, fate["state"], shown.views, stands))
            if fate["state"] == "landed" and (whole := whole_call_of(begun)):
                await self._settle_parts(cell, whole)
            self._unsure.discard(name)

    async def _left(self, cell: Cell, name: str, changes: Sequence[Any]) -> Shown:
        """Return what something changed, with digests of what protected files hold since."""
        shown = await self._shown(cell, changes)
        if not shown.wanted:
            return shown
        wanted = shown.per_workspace(len(cell.spec.workspaces))
        answer = await cell.ask({"call": name, "digests": wanted}, op="left")
        return shown.with_digests(answer["digests"])

    async def _shown(self, cell: Cell, changes: Sequence[Any]) -> Shown:
        """Return a keeper's changes, per workspace, for people."""
        try:
            paths = self._paths(cell.spec.workspaces)
        except SandboxError:  # the policy cannot be read: what has no end is recorded all the same
            paths = PathPolicy.default()
        return await asyncio.to_thread(shown_of, changes, cell.spec.workspaces, paths)

    async def _settle_parts(self, cell: Cell, call: str) -> None:
        """Record what is still held of a call, after a part of it landed and nobody said so."""
        await self._record.flush()
        parts = [
            record.call
            for record in islice(self._record.store.records(), MOST_RECORDS)
            if isinstance(record, LandedRecord) and record.of == call
        ]
        await self.parted(call, parts[::-1], *await self.rest(cell, call))

    async def rest(self, cell: Cell, call: str) -> tuple[Shown, str]:
        """Return what is still held of a call, and its diff; nothing where all has landed."""
        answer = await cell.ask({"tx": call, "names": [], "shown": True}, op="look_held")
        shown = await self._shown(cell, answer.get("changes", ()))
        return shown, str(answer.get("diff", ""))

    async def parted(self, call: str, parts: Sequence[str], rest: Shown, diff: str) -> None:
        """Record what of a call is still held after a part of it has landed, and still why."""
        over = not rest.total
        before = self._judged_before(call)
        views = [
            view.model_copy(
                update={
                    **{key: before.get((view.path, ""), {}).get(key) for key in _JUDGED},
                    **_was_shown(before.get((view.path, view.kind), {})),
                }
            )
            for view in rest.views
        ]
        said: dict[str, Any] = {"outcome": "landed in parts by a person"} if over else {}
        await self._record.event(
            PartedRecord(
                call=call,
                parts=list(parts),
                judgement=(Outcome.LAND if over else Outcome.HOLD).value,
                landed=over,
                changes=recorded(views),
                changes_total=rest.total,
                size=rest.size,
                **said,
            )
        )
        if not over:
            await self._record.keep_diff(call, diff, rest=True)

    def _judged_before(self, call: str) -> dict[tuple[str, str], Fields]:
        try:
            changes = self._record.store.call(call).changes or ()
        except BadInput:  # its records went away with an old file of the log
            return {}
        found = {(str(change["path"]), ""): change for change in changes}
        return found | {(str(change["path"]), str(change["kind"])): change for change in changes}

    async def after_loss(
        self, name: str, lost: CellLost, get_cell: GetCell
    ) -> tuple[str, Sequence[Any]]:
        """Return what became of a landing or undo whose keeper died: (state, raw changes).

        The state is `landed`, `held` or `nothing`. Raises Unsure where no other keeper starts.
        """
        fate = await self._fate(name, lost, get_cell)
        return fate["state"], fate["changes"]

    async def _fate(self, name: str, lost: CellLost, get_cell: GetCell) -> Mapping[str, Any]:
        self._unsure.add(name)
        try:
            cell = await get_cell()
            fate: Mapping[str, Any] = (await self._ask(cell, [name]))[name]
        except SandboxError as error:
            cause = str(lost).removesuffix("; nothing landed")
            raise Unsure(
                f"{cause}; whether `{name}` landed is recorded before the next call here: {error}"
            ) from None
        self._unsure.discard(name)
        return fate

    async def effects(
        self, name: str, effects: Effects, lost: CellLost, get_cell: GetCell
    ) -> tuple[Effects, bool]:
        """Return a call's effects as they turned out, and whether they landed. Raises CellLost."""
        fate = await self._fate(name, lost, get_cell)
        state = fate["state"]
        if state == "landed":
            said = "its keeper ended in the middle of the landing, which was brought to its end"
            if fate.get("stands"):
                said = f"its keeper ended; it landed {only_there(fate['stands'])}"
            return replace(effects, judgement=_judged(effects, Outcome.LAND, said)), True
        if state == "held":
            said = effects.judgement.message or "held: its keeper ended before it could land"
            return replace(effects, judgement=_judged(effects, Outcome.HOLD, said)), False
        raise lost

    async def _ask(self, cell: Cell, names: Sequence[str]) -> Mapping[str, Any]:
        answer = await cell.ask({"calls": list(names)}, op="fate")
        return dict(answer["fates"])

    def _open_ends(self, workspaces: tuple[str, ...]) -> list[OpenEnd]:
        records = islice(self._record.store.records(), MOST_RECORDS)
        found = open_ends(records, self._unsure)
        return [end for end in found if workspaces_of(end.begun) == workspaces]


def _was_shown(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return, out of a recorded change, what a person was shown of it."""
    leads = recorded.get("leads_to")
    return {key: recorded.get(key) for key in _SHOWN} | {
        "leads_to": None if leads is None else tuple(leads)
    }


def _judged(effects: Effects, outcome: Outcome, message: str) -> Judgement:
    return Judgement(outcome, effects.judgement.reasons, message)
