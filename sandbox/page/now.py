# SPDX-License-Identifier: Apache-2.0
"""What runs now; what is wrong or waits, on every page; stop and resume."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from sandbox.page.asking import Fields, PageRequest


async def show_now(page: PageRequest) -> Response:
    """Show what runs: agents, their cells and calls as a tree, and the newest calls."""
    running, latest = await asyncio.gather(
        page.ask("ShowAgents"), page.ask("ListCalls", query={"limit": "8"})
    )
    return page.show_live("now", running=running, latest=latest.calls)


async def show_alert(page: PageRequest) -> Response:
    """Show what a person should know on every page: stops in force, questions that wait."""
    stops, count = await asyncio.gather(page.ask("ListStops"), page.ask("CountQuestions"))
    at = page.request.query_params.get("at", "")
    return page.show_live("alert", stops=stops, waiting=count.waiting, at=at)


async def stop(page: PageRequest, fields: Fields) -> Response:
    """Stop everything, or one agent and all below it."""
    form = dict(fields)
    body: dict[str, Any] = {"reason": "asked for on the page"}
    if agent := form.get("agent"):
        body["agent"] = agent
    report = await page.ask("Stop", body=body)
    return page.show("stopped.html", report=report)


async def resume(page: PageRequest, fields: Fields) -> Response:
    """Let everything, or one agent, run again."""
    agent = dict(fields).get("agent") or None
    resumed = await page.ask("Resume", body={"agent": agent})
    whom = f"agent {agent}" if agent else "everything"
    news = f"{whom} may run again" if resumed.resumed else "no such stop was in force"
    return page.go("/", news)
