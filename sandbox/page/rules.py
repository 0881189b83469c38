# SPDX-License-Identifier: Apache-2.0
"""Workspaces and the policy that counts there, a box to try a command; the record and the guard."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from sandbox.page.asking import PageRequest
from sandbox.present.guard_line import guard_line


async def show_policy(page: PageRequest) -> Response:
    """Show the workspaces, the policy of one, and what gate 1 answers to a command there."""
    given = page.given("workspace", "command", "agent")
    places = await page.ask("ListWorkspaces")
    place = given.get("workspace") or (places[0].path if places else None)
    policy, explained = None, None
    if place is not None:
        policy = await page.ask("ShowPolicy", query={"workspace": place})
        if command := given.get("command"):
            body: dict[str, Any] = {"command": command, "workspace": place}
            if agent := given.get("agent"):
                body["agent"] = agent
            explained = await page.ask("Explain", body=body)
    return page.show(
        "policy.html",
        places=places,
        place=place,
        policy=policy,
        command=given.get("command", ""),
        agent=given.get("agent", ""),
        explained=explained,
    )


async def show_record(page: PageRequest) -> Response:
    """Show the newest records, whether all are whole, and what was changed around Lockgate."""
    given = page.given("event", "call", "before")
    records, findings, now = await asyncio.gather(
        page.ask("ListRecord", query={**given, "limit": "50"}),
        page.ask("ListFindings"),
        page.ask("ShowAgents"),
    )
    state = await page.ask("CheckRecord") if page.given("check") else None
    guard = guard_line(now.guard) if now.guard else ""
    return page.show(
        "record.html", records=records, findings=findings, guard=guard, state=state, given=given
    )
