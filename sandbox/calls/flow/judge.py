# SPDX-License-Identifier: Apache-2.0
"""After a call ran: gate 2 judges what it changed, and what may land does (`landing`).

Also keeps in the ledgers what later calls are judged by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.approvals.objections import ON_WAIT, Objection
from sandbox.approvals.rehearsal import as_shown
from sandbox.approvals.script_capture import touched_scripts
from sandbox.approvals.seen_content import approved
from sandbox.calls.flow.call import Call
from sandbox.calls.flow.landing import settle
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.parts import Parts
from sandbox.calls.ignore_noting import note, note_agents
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.transaction import Transaction
from sandbox.gates.gate2 import Effects, all_ignored, weigh
from sandbox.gates.host_edits import touched_rules, written_paths
from sandbox.gates.masked_diff import masked_diff

Raw = Sequence[Sequence[Mapping[str, Any]]]
"""Changes as the keeper lists them, per workspace."""


class Judging:
    """Judges what the calls of one supervisor changed, and lands it."""

    def __init__(self, parts: Parts, live: LiveState) -> None:
        self._parts = parts
        self._live = live

    async def judge(self, call: Call, transaction: Transaction) -> Effects:
        """Close a call's transaction and return its effects with gate 2's judgement; its diff is
        kept, secrets masked."""
        raw, diff = await transaction.close()

        def weigh_and_mask() -> tuple[Effects, str]:
            return self._weigh(call, raw), masked_diff(diff)

        if any(raw):
            effects, masked = await self._parts.off_loop.do(call.plan.agent, weigh_and_mask)
        else:  # nothing was changed
            effects, masked = weigh_and_mask()
        self._parts.record.keep_masked(call.id, masked)
        return await self._as_seen(call, transaction, raw, effects)

    async def land(
        self, call: Call, transaction: Transaction, effects: Effects
    ) -> tuple[Effects, bool]:
        """Land what may, hold what waits for a person; return what became of the effects, and
        whether anything landed."""
        try:
            turned_out = await settle(
                transaction,
                effects,
                call.decision.landing,
                call.decision.objection_seconds,
                lambda late: self._window(call, late),
                lambda raw: self._judge_anew(call, transaction, raw),
                len(call.workspaces),
                note=lambda late: self._note(call, transaction, late),
                rebuildable=lambda paths: asyncio.to_thread(
                    all_ignored, paths, call.workspaces, self._parts.ledger
                ),
                turn=self._parts.turns.take(call.workspaces),
            )
        except CellLost as lost:  # in the middle of the landing, perhaps
            turned_out = await self._find_out(call, effects, lost)
        self._parts.record.forgotten(transaction.evicted)
        return turned_out

    async def written_under(self, call: Call) -> str:
        """Say why a call on the host may not write yet: a running call of a person's yes runs a
        file that it names; empty where none does (P8)."""
        if not self._live.binds:
            return ""
        context = self._parts.contexts.of(call.plan)
        paths = await self._parts.off_loop.do(
            call.plan.agent, lambda: written_paths(call.answer, call.plan, context)
        )
        return self._live.bound(paths)

    async def note_host_call(self, call: Call) -> None:
        """Note what an agent is about to do on the host: to files of ignore rules, and what files
        it makes."""
        context = self._parts.contexts.of(call.plan)
        rules = await self._parts.off_loop.do(
            call.plan.agent, lambda: touched_rules(call.answer, call.plan, context)
        )
        for root, what in rules:
            await note(self._parts.ledger, (what,), ({},), (root,), person=False)
        made = self._parts.host_made
        await self._parts.off_loop.do(
            call.plan.agent,
            lambda: made.expect(call.id, call.plan, call.answer, context, call.workspaces),
        )

    def _weigh(self, call: Call, raw: Raw) -> Effects:
        """Return what gate 2 says of a call's changes."""
        takes = any(change.get("replaced") for changes in raw for change in changes)
        replaced = self._parts.replaced
        earlier = replaced.earlier(call.plan.agent, call.workspaces) if takes else ()
        indexes = call.network.indexes if call.network is not None else frozenset[str]()
        return weigh(
            call.decision, raw, call.workspaces, call.paths, self._parts.ledger, earlier, indexes
        )

    async def _judge_anew(
        self, call: Call, transaction: Transaction, raw: list[list[dict[str, Any]]]
    ) -> Effects:
        """Return the effects of a closed transaction with gate 2's judgement."""
        effects = await self._parts.off_loop.do(call.plan.agent, lambda: self._weigh(call, raw))
        return await self._as_seen(call, transaction, raw, effects)

    @staticmethod
    async def _as_seen(
        call: Call,
        transaction: Transaction,
        raw: list[list[dict[str, Any]]],
        effects: Effects,
    ) -> Effects:
        """Return the effects that gate 2 has judged, after what watched them and people saw."""
        effects = transaction.watched.over(effects, call.paths)
        effects = await as_shown(call.preview, transaction, raw, effects)  # P8
        if call.scripts and (names := await asyncio.to_thread(touched_scripts, call.scripts)):
            effects = effects.not_as_approved(names)  # P8
        return await approved(call.plan, call.preview, call.paths, transaction, effects)

    async def _window(self, call: Call, effects: Effects) -> Objection | None:
        """Give a person time to object to what is about to land."""
        seconds = call.decision.objection_seconds
        waiting_record = await self._parts.record.waiting(call.id, effects, seconds)
        if told := ON_WAIT.get(None):
            told(call.id, seconds)
        if call.answer.effective is not None:
            levels = call.answer.effective.policy.autonomy.levels
            self._parts.people.tell(waiting_record, call.plan.user, levels)
        return await self._parts.objections.wait(call.id, seconds)

    async def _note(self, call: Call, transaction: Transaction, effects: Effects) -> None:
        """Note of effects that are about to land what later calls are judged by."""
        await note_agents(self._parts.ledger, transaction, effects, call.workspaces)
        replaced = self._parts.replaced
        for workspace, paths in zip(call.workspaces, effects.replaced, strict=False):
            if paths:
                await asyncio.to_thread(replaced.note, call.plan.agent, workspace, paths)

    async def _find_out(self, call: Call, effects: Effects, lost: CellLost) -> tuple[Effects, bool]:
        """Return the effects of a call whose keeper died over them, and whether they landed."""
        pool = await self._live.connected()

        async def again() -> Cell:
            return await pool.get(call.plan.agent, call.workspaces)

        return await self._parts.recovery.effects(call.id, effects, lost, again)
