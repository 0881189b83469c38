# SPDX-License-Identifier: Apache-2.0
"""What became of calls, landings and undos under which a supervisor, a cell or a keeper died.

A keeper's journal decides: what was written there is brought to its end by the next keeper (see
cell/landing), the rest never happened. Here the record is told which, so that what it says is what
the files say. INVARIANT (P11, Aftermath): a call that is recorded without an end belongs to a
living supervisor, or gets its end before the next call in its workspaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from policy.model import Judgement, Outcome, Verdict
from policy.protected.paths import PathPolicy
from sandbox.calls.recorder import Recorder, recorded
from sandbox.cells.cell import Cell, CellLost
from sandbox.errors import BadInput, SandboxError
from sandbox.gates.gate2 import Effects, Shown, shown_of
from sandbox.host.process_owner import lives, owner_label
from sandbox.results import ChangeView, Ending

MOST_RECORDS = 5_000
"""Newest records of the log that are looked through for what has no end."""
GIVEN_UP = "given-up"
ENDS = {
    "decided": ("ended",),
    "undoing": ("undone", GIVEN_UP),
    "landing": ("landed", GIVEN_UP),
    "discarding": ("discarded", GIVEN_UP),
}
"""What begins something -> what says how it ended; first, that it was done."""
PARTING = "parting"
"""Stands for a part of a held call whose landing is recorded, while what is left of it is not."""
_JUDGED = ("outcome", "reason")
"""What gate 2 said of a change."""
_SHOWN = ("protected", "mode", "sha256")
"""What a person was shown of a change: of what is left, nobody was shown anything else."""
GetCell = Callable[[], Any]


class Unsure(SandboxError):
    """Whether a call landed is not known yet; the record learns it later."""


class Aftermath:
    """Finds out and records what nobody heard. One per supervisor."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._unsure: set[str] = set()
        """Names of this very process about which no keeper could be asked yet."""

    async def begin(self, event: str, name: str, **fields: Any) -> None:
        """Record that an undo or a landing by a person begins; on disk when this returns."""
        await self._record.event(
            {"event": event, "call": name, "supervisor": owner_label(), **fields}
        )

    async def given_up(self, name: str, why: str) -> None:
        """Record that what `begin` announced was not done."""
        await self._record.event({"event": GIVEN_UP, "call": name, "because": why})

    async def settle(self, cell: Cell) -> None:
        """Record what became of all that has no end, in the workspaces of a cell that started."""
        await self._record.flush()
        open_ends = self._open_ends(cell.spec.workspaces)
        if not open_ends:
            return
        fates = await self._ask(cell, [record["call"] for record in open_ends])
        for record in open_ends:
            name, fate = record["call"], fates[record["call"]]
            if record["event"] != PARTING:
                shown = await self._left(cell, name, fate["changes"])
                stands = fate.get("stands") or {}
                await self._record.event(_told(record, fate["state"], shown.views, stands))
            if fate["state"] == "landed" and of_part(record):
                await self._settle_parts(cell, record["of"])
            self._unsure.discard(name)

    async def _left(self, cell: Cell, name: str, changes: Sequence[Any]) -> Shown:
        """Return what something changed, with digests of what protected files hold since."""
        shown = await asyncio.to_thread(_shown, cell, changes)
        if not shown.wanted:
            return shown
        wanted = shown.per_workspace(len(cell.spec.workspaces))
        answer = await cell.ask({"call": name, "digests": wanted}, op="left")
        return shown.with_digests(answer["digests"])

    async def _settle_parts(self, cell: Cell, call: str) -> None:
        """Record what is still held of a call, after a part of it landed and nobody said so."""
        await self._record.flush()
        parts = [
            record["call"]
            for record in islice(self._record.store.records(), MOST_RECORDS)
            if record["event"] == "landed" and record.get("of") == call
        ]
        await self.parted(call, parts[::-1], *await self.rest(cell, call))

    async def rest(self, cell: Cell, call: str) -> tuple[Shown, str]:
        """Return what is still held of a call, and its diff; nothing where all has landed."""
        answer = await cell.ask({"tx": call, "names": [], "shown": True}, op="look_held")
        shown = await asyncio.to_thread(_shown, cell, answer.get("changes", ()))
        return shown, str(answer.get("diff", ""))

    async def parted(self, call: str, parts: Sequence[str], rest: Shown, diff: str) -> None:
        """Record what of a call is still held after a part of it has landed, and still why."""
        over = not rest.total
        before = self._judged_before(call)
        views = [
            view.model_copy(
                update={
                    **{key: before.get((view.path, ""), {}).get(key) for key in _JUDGED},
                    **{key: before.get((view.path, view.kind), {}).get(key) for key in _SHOWN},
                }
            )
            for view in rest.views
        ]
        await self._record.event(
            {
                "event": "parted",
                "call": call,
                "parts": list(parts),
                "judgement": (Outcome.LAND if over else Outcome.HOLD).value,
                "landed": over,
                "changes": recorded(views),
                "changes_total": rest.total,
                "size": rest.size,
                **({"outcome": "landed in parts by a person"} if over else {}),
            }
        )
        if not over:
            await self._record.keep_diff(call, diff, rest=True)

    def _judged_before(self, call: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        try:
            changes = self._record.store.call(call)["changes"] or ()
        except BadInput:  # its records went away with an old file of the log
            return {}
        found = {(str(one["path"]), ""): one for one in changes}
        return found | {(str(one["path"]), str(one["kind"])): one for one in changes}

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
                said = f"its keeper ended; it landed {_only_there(fate['stands'])}"
            return replace(effects, judgement=_judged(effects, Outcome.LAND, said)), True
        if state == "held":
            said = effects.judgement.message or "held: its keeper ended before it could land"
            return replace(effects, judgement=_judged(effects, Outcome.HOLD, said)), False
        raise lost

    async def _ask(self, cell: Cell, names: Sequence[str]) -> Mapping[str, Any]:
        answer = await cell.ask({"calls": list(names)}, op="fate")
        return dict(answer["fates"])

    def _open_ends(self, workspaces: tuple[str, ...]) -> list[dict[str, Any]]:
        records = islice(self._record.store.records(), MOST_RECORDS)
        found = open_ends(records, self._unsure)
        return [one for one in found if _workspaces(one) == workspaces]


def open_ends(
    records: Iterable[dict[str, Any]], unsure: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the records, newest first, that begin something of which no end is recorded.

    What belongs to a process that lives is left out, unless its name is in `unsure`.
    """
    ended: set[tuple[str, str]] = set()
    found = []
    for record in records:
        event, name = record["event"], str(record.get("call", ""))
        ended.update(("parted", str(part)) for part in record.get("parts") or ())
        if event not in ENDS:
            ended.add((event, name))
            continue
        over = any((end, name) in ended for end in ENDS[event])
        if over and (not of_part(record) or {("parted", name), (GIVEN_UP, name)} & ended):
            continue
        mine = name in unsure or not lives(str(record.get("supervisor", "")))
        if mine and "workspace" in record:
            found.append({**record, "event": PARTING} if over else record)
    return found


def of_part(record: Mapping[str, Any]) -> bool:
    """Whether a record is of the landing of a part; an undo names the call it is `of` as well."""
    return record["event"] in ("landing", PARTING) and "of" in record


def _workspaces(record: Mapping[str, Any]) -> tuple[str, ...]:
    return (record["workspace"], *(record.get("also") or ()))


def _told(
    begun: Mapping[str, Any], state: str, views: Sequence[ChangeView], stands: Mapping[str, str]
) -> dict[str, Any]:
    """Return the record that says how something ended; `stands` is where alone it did, and why."""
    if begun["event"] == "decided":
        return {
            "event": "ended",
            "call": begun["call"],
            **_end_of_call(begun, state, views, stands),
        }
    if begun["event"] == "discarding" and state == "nothing":
        fields = {"landed": False, "judgement": Outcome.DISCARD.value}
        return {"event": "discarded", "call": begun["call"], **fields}
    if state != "landed" or begun["event"] == "discarding":
        why = "the supervisor or its keeper died; it was not done"
        return {"event": GIVEN_UP, "call": begun["call"], "because": why}
    told = {k: v for k, v in begun.items() if k not in _NOT_TOLD}
    if begun["event"] == "landing":
        told["judgement"] = Outcome.LAND.value
    if stands:
        told["outcome"] = _only_there(stands)
    return {**told, "event": ENDS[begun["event"]][0], "landed": True, "changes": recorded(views)}


def _only_there(stands: Mapping[str, str]) -> str:
    """Say in which of several workspaces something stands."""
    named = "; ".join(f"`{path}`: {why}" for path, why in stands.items())
    return f"only where it could not be taken back after a crash: {named}"


_NOT_TOLD = ("n", "ts", "prev", "event", "supervisor")
"""Fields of a record that are its own."""


def _end_of_call(
    begun: Mapping[str, Any], state: str, views: Sequence[ChangeView], stands: Mapping[str, str]
) -> dict[str, Any]:
    ms = _ms_since(begun)
    if state == "nothing":
        denied = begun.get("verdict") == Verdict.DENY.value
        ending = Ending.DENIED.value if denied else "failed"
        outcome = "the supervisor died in the middle; nothing landed"
        return {"ending": ending, "landed": False, "outcome": outcome, "ms": ms}
    landed = state == "landed"
    after = "its changes had landed" if landed else "its changes are held"
    if stands:
        after += f" {_only_there(stands)}"
    return {
        "ending": Ending.RAN.value,
        "judgement": (Outcome.LAND if landed else Outcome.HOLD).value,
        "landed": landed,
        "changes": recorded(views),
        "changes_total": len(views),
        "outcome": f"the supervisor died before it could record the end; {after}",
        "ms": ms,
    }


def _shown(cell: Cell, changes: Sequence[Any]) -> Shown:
    """Return a keeper's changes, per workspace, for people."""
    return shown_of(changes, cell.spec.workspaces, PathPolicy.default())


def _ms_since(record: Mapping[str, Any]) -> float:
    begun = datetime.fromisoformat(str(record["ts"]))
    return round((datetime.now(UTC) - begun).total_seconds() * 1000, 2)


def _judged(effects: Effects, outcome: Outcome, message: str) -> Judgement:
    return Judgement(outcome, effects.judgement.reasons, message)
