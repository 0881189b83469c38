# SPDX-License-Identifier: Apache-2.0
"""What was done: the list with its filters, one call whole, and taking one back."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sandbox.errors import SandboxError
from sandbox.page.asking import CHANGED, Fields, PageRequest, shown_digest

FILTERS = ("text", "verdict", "agent", "tool", "rule", "since")
_PER_PAGE = "40"


async def show_history(page: PageRequest) -> Response:
    """Show the calls and undos, newest first."""
    chosen = page.given(*FILTERS, "before")
    found = await page.ask("ListCalls", query={**chosen, "limit": _PER_PAGE})
    older = {**chosen, "before": found.next} if found.next else None
    return page.show(
        "history.html",
        calls=found.calls,
        chosen=chosen,
        older=f"/history?{urlencode(older)}" if older else "",
        newest=f"/history?{urlencode({k: v for k, v in chosen.items() if k != 'before'})}",
    )


async def show_call(page: PageRequest) -> Response:
    """Show one call whole; while it runs, what it writes."""
    named = {"call": page.named("call")}
    call, output, diff = await asyncio.gather(
        page.ask("ShowCall", named=named),
        page.ask("ShowOutput", named=named),
        page.ask("ShowDiff", named=named),
    )
    undoable = bool(call.landed) and not call.undone_by
    return page.show_live(
        "call",
        call=call,
        output=output,
        diff=diff.diff,
        undoable=undoable,
        over=call.ending not in (None, "running"),
    )


async def show_undo(page: PageRequest) -> Response:
    """Show what an undo of a call would change."""
    call = page.named("call")
    foreseen = await page.ask("Undo", named={"call": call}, body={"dry_run": True})
    return page.show("undo.html", call=call, foreseen=foreseen, digest=_of(foreseen))


async def undo(page: PageRequest, fields: Fields) -> Response:
    """Undo a call, if that still changes what was shown."""
    named = {"call": page.named("call")}
    foreseen = await page.ask("Undo", named=named, body={"dry_run": True})
    if _of(foreseen) != dict(fields).get("digest"):  # P8
        return page.go(f"/calls/{named['call']}/undo", CHANGED)
    done = await page.ask("Undo", named=named, body={})
    return page.go(f"/calls/{named['call']}", f"taken back by {done.id}. {done.message}")


async def end(page: PageRequest, _fields: Fields) -> Response:
    """End a call that runs in the background."""
    call = page.named("call")
    try:
        ended = await page.ask("End", named={"call": call}, body={})
    except SandboxError as error:
        return page.go(f"/calls/{call}", str(error))
    return page.go(f"/calls/{call}", f"it has ended: {ended.ending.value}")


def _of(foreseen: Any) -> str:
    return shown_digest((foreseen.changes, foreseen.diff))
