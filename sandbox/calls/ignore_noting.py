# SPDX-License-Identifier: Apache-2.0
"""Note in the ledger what a transaction is about to leave of what git goes by."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sandbox.cells.transaction import Transaction
from sandbox.gates.gate2 import Effects
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.ignore_sources import Touched


async def note_agents(
    ledger: Ledger, transaction: Transaction, effects: Effects, workspaces: Sequence[str]
) -> None:
    """Note a closed transaction that lands by no person's word. Raises SandboxError."""
    if not any(effects.touched):
        return
    wanted = [list(one.written) for one in effects.touched]
    digests = await transaction.digests(wanted) if any(wanted) else [{} for _ in wanted]
    await note(ledger, effects.touched, digests, workspaces, person=False)


async def note(
    ledger: Ledger,
    touched: Sequence[Touched],
    digests: Sequence[Mapping[str, str]],
    workspaces: Sequence[str],
    *,
    person: bool,
) -> None:
    """Note what lands in each workspace, with the digests of what it leaves. Raises Unavailable."""
    for one, found, workspace in zip(touched, digests, workspaces, strict=False):
        if one:
            await asyncio.to_thread(ledger.about_to_land, workspace, one, found, person=person)
