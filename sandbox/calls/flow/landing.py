# SPDX-License-Identifier: Apache-2.0
"""What becomes of a closed transaction: it lands, waits for a person, or is thrown away.

Gate 2 says what may land; how far the agent is trusted says how (policy/autonomy/trust).
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from policy.model import Landing, Outcome
from sandbox.approvals.objections import Objection
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.transaction import Transaction
from sandbox.errors import SandboxError
from sandbox.gates.gate2 import Effects

Again = Callable[[list[list[dict[str, Any]]]], Awaitable[Effects]]
"""Judges changes as they were listed anew."""
TRIES = 8
"""How often a call is judged anew since others landed meanwhile, before it is held."""

Window = Callable[[Effects], Awaitable[Objection | None]]
"""Gives a person time to object to effects that are about to land."""
Note = Callable[[Effects], Awaitable[None]]
"""Notes what must be known of effects before they land."""
Rebuildable = Callable[[Sequence[str]], Awaitable[bool]]
"""Says whether all of some paths are ignored by rules that a person made."""
Turn = AbstractAsyncContextManager[None]
"""While it is held no other call lands in the call's workspaces."""


async def settle(
    transaction: Transaction,
    effects: Effects,
    landing: Landing,
    seconds: float,
    window: Window,
    again: Again,
    workspaces: int = 1,
    *,
    note: Note,
    rebuildable: Rebuildable,
    turn: Turn,
) -> tuple[Effects, bool]:
    """Land or hold. What is discarded is left alone: the transaction drops it when it ends.

    `seconds` is how long `window` waits where landing is delayed; `note` is done before anything
    lands. `again` judges anew what others' landings may have made something else meanwhile.
    `rebuildable` says of paths whether all of them are ignored, by a person's rules. `turn` is
    taken for the landing. Returns the effects as they turned out, and whether anything landed.
    Raises CellLost.
    """
    landing_with = functools.partial(_land, transaction, again, workspaces, note, rebuildable)
    outcome = effects.judgement.outcome
    if outcome is Outcome.DISCARD or (outcome is Outcome.LAND and transaction.empty):
        return effects, False
    effects = await _with_digests(transaction, effects, workspaces)
    if outcome is Outcome.HOLD:
        await transaction.hold()
        return effects, False
    match landing:
        case Landing.PROPOSAL:
            await transaction.hold()
            return effects.proposed(), False
        case Landing.DELAYED if effects.total and seconds > 0:  # a new time is no change
            objection = await window(effects)
            if objection is not None:
                return effects.objected(objection.by, objection.reason), False
            late = await again(transaction.changes)  # what is obeyed may be something else by now
            if late.judgement.outcome is not Outcome.LAND:
                return await _kept_back(transaction, late, workspaces)
            effects = effects.waited(seconds)
            async with turn:
                return await landing_with(effects, shown=True)
        case Landing.DELAYED | Landing.AT_ONCE | Landing.APPROVED:
            pass
    async with turn:
        return await landing_with(effects)


async def _land(
    transaction: Transaction,
    again: Again,
    workspaces: int,
    note: Note,
    rebuildable: Rebuildable,
    effects: Effects,
    *,
    shown: bool = False,
) -> tuple[Effects, bool]:
    """Land; hold what cannot land now. What others' landings changed meanwhile is judged anew.

    INVARIANT (P2, anew): what lands was judged when nothing landed any more between that and its
    own landing. `shown`: a person could object to these changes, so no others land in their place.
    """
    plain = False
    for _ in range(TRIES):
        before = transaction.changes
        try:
            await note(effects)
            conflicts = await transaction.land(plain=plain)
        except CellLost:
            raise
        except SandboxError as error:  # nothing was changed (a full disk, say)
            effects = effects.kept(str(error))
            break
        if conflicts:
            effects = effects.conflicted(conflicts)
            break
        if transaction.crowded:
            if not plain and await rebuildable(transaction.own):
                plain = True
                continue
            effects = effects.crowded(transaction.crowded)
            break
        if not transaction.turned:
            return effects.driven_out(transaction.lost, transaction.name), effects.total > 0
        late = await again(transaction.changes)
        if late.judgement.outcome is not Outcome.LAND:
            return await _kept_back(transaction, late, workspaces)
        if shown and transaction.changes != before:
            effects = effects.not_as_shown()
            break
        if not shown:
            effects = await _with_digests(transaction, late, workspaces)
    else:
        effects = effects.kept("others kept landing meanwhile")
    await transaction.hold()
    return effects, False


async def _kept_back(
    transaction: Transaction, effects: Effects, workspaces: int
) -> tuple[Effects, bool]:
    """Hold, or leave to be thrown away, what is judged otherwise by now."""
    effects = await _with_digests(transaction, effects, workspaces)
    if effects.judgement.outcome is Outcome.HOLD:
        await transaction.hold()
    return effects, False


async def _with_digests(transaction: Transaction, effects: Effects, workspaces: int) -> Effects:
    if not effects.shown.wanted:
        return effects
    wanted = effects.shown.per_workspace(workspaces)
    return effects.with_digests(await transaction.digests(wanted))
