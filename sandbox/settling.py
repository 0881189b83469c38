# SPDX-License-Identifier: Apache-2.0
"""What becomes of a closed transaction: it lands, waits for a person, or is thrown away.

Gate 2 says what may land; how far the agent is trusted says how (policy/trust).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from policy.model import Landing, Outcome
from sandbox.cells import CellLost
from sandbox.effects import Effects
from sandbox.errors import SandboxError
from sandbox.people.objections import Objection
from sandbox.transactions import Transaction

Window = Callable[[Effects], Awaitable[Objection | None]]
"""Gives a person time to object to effects that are about to land."""
Note = Callable[[Effects], Awaitable[None]]
"""Notes what must be known of effects before they land."""


async def settle(
    transaction: Transaction,
    effects: Effects,
    landing: Landing,
    seconds: float,
    window: Window,
    workspaces: int = 1,
    *,
    note: Note,
) -> tuple[Effects, bool]:
    """Land, hold, or (by leaving it alone) throw away.

    `seconds` is how long `window` waits where landing is delayed; `note` is done before anything
    lands. Returns the effects as they
    turned out, and whether anything landed. Raises CellLost.
    """
    outcome = effects.judgement.outcome
    if outcome is Outcome.DISCARD or (outcome is Outcome.LAND and transaction.empty):
        return effects, False
    if effects.shown.wanted:
        digests = await transaction.digests(effects.shown.per_workspace(workspaces))
        effects = effects.with_digests(digests)
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
            effects = effects.waited(seconds)
        case Landing.DELAYED | Landing.AT_ONCE | Landing.APPROVED:
            pass
    return await _land(transaction, effects, note)


async def _land(transaction: Transaction, effects: Effects, note: Note) -> tuple[Effects, bool]:
    """Land; hold what cannot land now."""
    try:
        await note(effects)
        conflicts = await transaction.land()
    except CellLost:
        raise
    except SandboxError as error:  # nothing was changed (a full disk, say)
        effects = effects.kept(str(error))
    else:
        if not conflicts:
            return effects, effects.total > 0
        effects = effects.conflicted(conflicts)
    await transaction.hold()
    return effects, False
