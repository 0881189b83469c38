# SPDX-License-Identifier: Apache-2.0
"""What becomes of a closed transaction: it lands, waits for a person, or is thrown away."""

from __future__ import annotations

from policy.model import Outcome
from sandbox.cells import CellLost
from sandbox.effects import Effects
from sandbox.errors import SandboxError
from sandbox.transactions import Transaction


async def settle(transaction: Transaction, effects: Effects) -> tuple[Effects, bool]:
    """Land, hold, or (by leaving it alone) throw away.

    Returns the effects as they turned out, and whether anything landed. Raises CellLost.
    """
    match effects.judgement.outcome:
        case Outcome.LAND if transaction.empty:
            return effects, False
        case Outcome.LAND:
            try:
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
        case Outcome.HOLD:
            await transaction.hold()
        case Outcome.DISCARD:
            pass
    return effects, False
