# SPDX-License-Identifier: Apache-2.0
"""Transactions that wait for a person: list them, land them whole or in parts, discard them.

What lands in parts gets an id per part (`CALL-1`, `CALL-2`), so that each can be undone; the rest
stays held under the call's own id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from sandbox.agents.declared import DEFAULT
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.follow_ups import (
    DiscardedRecord,
    DiscardingRecord,
    LandedRecord,
    LandingRecord,
    LookedRecord,
)
from sandbox.calls.held_results import (
    listed_call,
    settled_call,
    unknown_call,
    unrecorded_call,
)
from sandbox.calls.ignore_noting import note
from sandbox.calls.keepers import Keepers, named
from sandbox.calls.record_fields import recorded
from sandbox.cells import work
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import KeeperRefused
from sandbox.errors import BadInput, NotShown, SandboxError
from sandbox.gates import bound
from sandbox.gates.masked_diff import masked_diff
from sandbox.gates.shown_changes import Shown
from sandbox.host.login import login
from sandbox.results import CallResult, HeldCall, HeldLook
from sandbox.workspaces.ignore_sources import touched
from sandbox.workspaces.led_to import show_leads

LANDED = "landed by a person"
LOOKED_AT = 20
"""Held calls, the newest, that a list looks at for files that changed meanwhile."""
TRIES = 5
"""How often what would land is compared with what was shown while others keep landing."""
GONE = (
    "call `{call}` is recorded as held, but its layer is gone with the engine's volume; "
    "`lockgate discard {call}` clears the record"
)

NOT_SHOWN = (
    "call `{call}` was not landed: {paths}: what would land is not what was shown; "
    "`lockgate show {call} --diff` at a terminal shows it as it is now"
)
ANOTHER = "call `{call}` was not landed: it was shown anew since, and is another; look at it again"
MEANWHILE = "call `{call}` was not landed, since something else landed meanwhile; try again"


class Held:
    """Acts through the keeper of the agent's own cell, which has the workspaces mounted."""

    def __init__(self, keepers: Keepers) -> None:
        self._keepers = keepers
        self._record = keepers.record

    async def waiting(self) -> tuple[HeldCall, ...]:
        """Return what waits, newest first, with layers that are gone or not recorded.

        The engine is asked only through a cell that lives or that a held call needs anyway.
        """
        entries = await asyncio.to_thread(self._record.store.held)
        there = await self._there(entries)
        now = time.time()
        found = [listed_call(entry, there, now) for entry in entries]
        for position, entry in enumerate(entries[:LOOKED_AT]):
            if found[position].there and (late := await self._late(entry)):
                note = f"changed meanwhile: {named(late)}"
                found[position] = found[position].model_copy(update={"note": note})
        known = {entry.id for entry in entries}
        for name, row in sorted((there or {}).items()):
            if name not in known:
                found.append(unrecorded_call(name, row, now))
        return tuple(found)

    async def _there(self, entries: Sequence[CallEntry]) -> dict[str, Any] | None:
        """Return the layers that are there; None where no keeper can be asked."""
        cell = self._keepers.any_living()
        if cell is None:
            if not entries:
                return None
            try:
                cell, _ = await self._keepers.of(entries[0])
            except SandboxError:
                return None
        answer = await cell.ask({}, op="waiting")
        return {row["name"]: row for row in answer["waiting"]}

    async def _late(self, entry: CallEntry) -> list[str]:
        """Return the paths of a held call that somebody changed since, if a keeper can be asked."""
        workspaces = entry.workspaces
        cells = self._keepers.pool.living()
        cell = next((one for one in cells if one.spec.workspaces == workspaces), None)
        if cell is None:
            return []
        try:
            request = {"tx": entry.id, "names": [], "shown": False}
            answer = await cell.ask(request, op="look_held")
        except SandboxError:  # landing it will say so
            return []
        return [one["path"] for each in answer["changes"] for one in each if one["conflict"]]

    async def land(
        self,
        call_id: str,
        names: Sequence[str] = (),
        *,
        force: bool = False,
        digest: str | None = None,
    ) -> CallResult:
        """Land a held transaction, or what `names` (paths, folders, globs) stand for.

        With `force`, also over files that changed meanwhile: they are kept for an undo. `digest` is
        that of the look which the person saw. Raises NotShown where something else would land than
        what was shown, BadInput where files changed meanwhile, or where names fit nothing or half
        of a move.
        """
        entry = await asyncio.to_thread(self._held, call_id)
        async with self._keepers.turn(entry, work.Kind.LANDING):
            work.enter(work.Phase.LOOKS)
            for _ in range(TRIES):
                landed = await self._land(call_id, names, force=force, digest=digest)
                if landed is not None:
                    return landed
        raise BadInput(MEANWHILE.format(call=call_id))

    async def _land(
        self, call_id: str, names: Sequence[str], *, force: bool, digest: str | None
    ) -> CallResult | None:
        """Land it as it was shown; None where something else landed after it was compared."""
        entry = await asyncio.to_thread(self._held, call_id)
        if digest is not None and digest != entry.shown_digest:  # P8
            raise NotShown(ANOTHER.format(call=entry.id))
        call, parts = entry.id, list(entry.parts or ())
        cell, workspaces = await self._keepers.of(entry)
        tidy = [_tidy(name) for name in names]
        look, shown = await self._as_it_is(call, cell, workspaces, tidy)
        whole = not names and not force
        if others := bound.unlike(shown, entry.changes or (), whole=whole):
            raise NotShown(NOT_SHOWN.format(call=call, paths=named(others)))
        in_parts = bool(names or parts)
        name = f"{call}-{len(parts) + 1}" if in_parts else call
        about: dict[str, Any] = {
            "call": name,
            "workspace": workspaces[0],
            "also": list(workspaces[1:]),
            "landed_by": {"call": call, "person": login(), "grant": None},
            "asked_by": {"person": login()},
        }
        if in_parts:
            about |= {"of": call, "agent": entry.agent, "tool": "land"}
        await self._keepers.recovery.begin(LandingRecord(**about))
        work.enter(work.Phase.LANDS, changes=shown.total)
        request = {
            "tx": call,
            "as": name,
            "names": tidy,
            "force": force,
            "digests": [
                list(dict.fromkeys((*wanted, *touched(changes).written)))
                for wanted, changes in zip(
                    shown.per_workspace(len(workspaces)), look["changes"], strict=True
                )
            ],
            "agent": entry.agent or "",
            "expected": look["digests"],
            "mark": look["mark"],
        }
        answer = await self._keepers.carry_out(name, entry, cell, request, op="land_held")
        if answer.get("turned"):
            await self._keepers.recovery.given_up(name, "something else landed meanwhile")
            return None
        if conflicts := answer.get("conflicts"):
            await self._keepers.recovery.given_up(name, "files changed meanwhile")
            raise BadInput(
                f"call `{call}` was not landed; changed meanwhile: {named(conflicts)}; `--force` "
                "lands over them and keeps what is there for an undo"
            )
        digests = answer.get("digests", ())
        rules = [touched(changes) for changes in answer["changes"]]
        await note(self._keepers.ledger, rules, digests, workspaces, person=True)
        agent = entry.agent or DEFAULT
        await asyncio.to_thread(self._keepers.replaced.forget, agent, workspaces)
        shown = await self._keepers.shown(answer, workspaces)
        shown = shown.with_digests(digests)
        await self._record.event(
            LandedRecord(
                **about,
                landed=True,
                judgement="land",
                outcome=LANDED,
                changes=recorded(shown.views),
                changes_total=shown.total,
            )
        )
        self._record.forgotten(answer.get("evicted", ()))
        undoable = name not in answer.get("lost", ())
        lost = f"; no longer undoable: {named(answer['lost'])}" if answer.get("lost") else ""
        if not in_parts:
            return settled_call(entry, LANDED + lost, shown, landed=True, undoable=undoable)
        await self._record.keep_diff(name, answer.get("diff", ""))
        if "rest" in answer:
            rest = await self._keepers.shown(answer, workspaces, "rest")
            diff = answer.get("rest_diff", "")
        else:  # its keeper died over the landing, which another one brought to its end
            cell, _ = await self._keepers.of(entry)
            rest, diff = await self._keepers.recovery.rest(cell, call)
        await self._keepers.recovery.parted(call, [*parts, name], rest, diff)
        several = f"; {rest.total} changes stay held"
        left = several if rest.total > 1 else "; 1 change stays held" if rest.total else ""
        said = f"{LANDED}, as `{name}`{left}{lost}"
        return settled_call(entry, said, shown, landed=True, undoable=undoable)

    async def look(self, call_id: str) -> HeldLook:
        """Look at a held transaction as things stand, for a person, who is shown what this gives.

        From then on that is what was shown (P8): the record says so.
        """
        entry = await asyncio.to_thread(self._held, call_id)
        call = entry.id
        cell, workspaces = await self._keepers.of(entry)
        look, shown = await self._as_it_is(call, cell, workspaces, (), text=True)
        others = bound.unlike(shown, entry.changes or (), whole=True)
        if others:
            await self._record.event(
                LookedRecord(
                    call=call,
                    looked_by=login(),
                    changes=recorded(shown.views),
                    changes_total=shown.total,
                    size=shown.size,
                )
            )
            await self._record.keep_diff(call, look["diff"], rest=True)
            await self._record.flush()
        is_secret = self._keepers.paths(workspaces).is_secret
        led_to = await asyncio.to_thread(_show_leads, shown, workspaces, is_secret)
        return HeldLook(
            id=call,
            changes=shown.views,
            changes_total=shown.total,
            diff=await asyncio.to_thread(masked_diff, look["diff"] + led_to),
            differs=tuple(others),
            digest=(await asyncio.to_thread(self._held, call)).shown_digest,
        )

    async def _as_it_is(
        self,
        call: str,
        cell: Cell,
        workspaces: tuple[str, ...],
        names: Sequence[str],
        *,
        text: bool = False,
    ) -> tuple[dict[str, Any], Shown]:
        """Return what a held transaction would change now, with digests of what counts.

        Raises BadInput where it is gone, or where no landing may change what it changes.
        """
        request = {"tx": call, "names": list(names), "shown": False}
        look = await self._look_held(cell, request)
        if look.get("gone"):
            raise BadInput(GONE.format(call=call))
        paths = self._keepers.paths(workspaces)
        effects = await asyncio.to_thread(
            bound.weigh_for_person, look["changes"], workspaces, paths, self._keepers.ledger
        )
        if protected := bound.refusals(effects):
            raise BadInput(
                f"call `{call}` cannot land any more: {named(protected)} is protected; "
                f"`lockgate discard {call}` throws it away"
            )
        wanted = effects.shown.per_workspace(len(workspaces))
        if text or any(wanted):
            request |= {"digests": wanted, "shown": text}
            again = await self._look_held(cell, request)
            if again.get("mark") != look["mark"]:
                raise BadInput(MEANWHILE.format(call=call))
            look = again
        else:
            look["digests"] = [{} for _ in workspaces]
        return look, effects.shown.with_digests(look["digests"])

    async def discard(self, call_id: str) -> CallResult:
        """Throw a held transaction, or what is left of it, away."""
        try:
            entry = self._held(call_id)
        except BadInput:
            if await self._discard_unrecorded(call_id):
                return unknown_call(call_id)
            raise
        cell = await self._keepers.of_layer(entry)
        await self._keepers.recovery.begin(
            DiscardingRecord(call=entry.id, workspace=entry.workspace, also=list(entry.also or ()))
        )
        answer = await cell.ask({"tx": entry.id}, op="drop")
        fate = (await cell.ask({"calls": [entry.id]}, op="fate"))["fates"][entry.id]
        # Of several workspaces it may stand in one where it could not be taken back.
        landed = bool(entry.parts) or fate["state"] == "landed"
        gone = "; its layer was gone already" if answer.get("gone") else ""
        parts = ", ".join(entry.parts or ())
        before = f"; landed before: {parts}" if parts else ""
        said = f"discarded by a person{gone}{before}"
        await self._record.event(
            DiscardedRecord(
                call=entry.id,
                landed=landed,
                judgement="discard",
                outcome=said,
                discarded_by=login(),
            )
        )
        return settled_call(entry, said, None, landed=False)

    async def _discard_unrecorded(self, call_id: str) -> bool:
        """Remove a layer of which the record knows nothing; return whether there was one."""
        cell = self._keepers.any_living()
        if cell is None or any(
            entry.id == call_id for entry in self._record.store.calls(limit=1000)
        ):
            return False
        answer = await cell.ask({}, op="waiting")
        if call_id not in {row["name"] for row in answer["waiting"]}:
            return False
        await cell.ask({"tx": call_id}, op="drop")
        await self._record.event(DiscardedRecord(call=call_id, landed=False, discarded_by=login()))
        return True

    @staticmethod
    async def _look_held(cell: Cell, request: dict[str, Any]) -> dict[str, Any]:
        """Return a keeper's answer; what it refuses about names is the person's input."""
        try:
            return await cell.ask(request, op="look_held")
        except KeeperRefused as error:
            if error.failed:
                raise
            raise BadInput(error.reason) from None

    def _held(self, call_id: str) -> CallEntry:
        entry = self._record.store.call(call_id)
        if not entry.is_held:
            raise BadInput(f"call `{entry.id}` is not held")
        return entry


def _tidy(name: str) -> str:
    """Return a name as the keeper takes it: without `.` and empty parts."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadInput(f"`{name}`: give a path inside of the workspace, without `..`")
    return ("/" if name.startswith("/") else "") + "/".join(parts)


def _show_leads(shown: Shown, workspaces: tuple[str, ...], is_secret: Callable[[str], bool]) -> str:
    """Return what the files hold that come to count by what is shown."""
    texts = []
    for (index, _), view in zip(shown.places, shown.views, strict=True):
        root = workspaces[index]
        leads = [one.removeprefix(f"{root}/") for one in view.leads_to or ()]
        texts.append(
            show_leads(root, ["" if start == "." else start for start in leads], is_secret)
        )
    return "".join(texts)
