# SPDX-License-Identifier: Apache-2.0
"""Questions: the list, the whole card of one, a person's yes and no; what was granted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.responses import Response

from sandbox.page.asking import Fields, PageRequest


async def show_approvals(page: PageRequest) -> Response:
    """Show what waits: one card whole, the others as a list; what was asked twice stands once."""
    questions, grants = await asyncio.gather(
        page.ask("ListQuestions"), page.ask("ListGrants", query={})
    )
    newest = {question.digest: question for question in questions}
    waiting = sorted(newest.values(), key=lambda one: one.asked)
    chosen = page.request.path_params.get("call") or (waiting[0].call if waiting else None)
    shown: dict[str, Any] = {"card": None}
    if chosen is not None and page.request.query_params.get("part") is None:
        shown["card"] = await page.ask("ShowCard", named={"call": str(chosen)})
    return page.show_live(
        "approvals",
        waiting=waiting,
        times=Counter(question.digest for question in questions),
        chosen=chosen,
        grants=grants,
        **shown,
    )


async def approve(page: PageRequest, fields: Fields) -> Response:
    """Say yes, as far as the chosen offer goes, to the card whose digest the form bears."""
    form = dict(fields)
    made = await page.ask(
        "Approve",
        named={"call": page.named("call")},
        body={
            "digest": form.get("digest", ""),
            "offer": form.get("offer") or "once",
            "reason": form.get("reason", ""),
        },
    )
    return page.go("/approvals", f"approved: {made.covers}")


async def deny(page: PageRequest, fields: Fields) -> Response:
    """Say no; the agent is told, with the reason."""
    refused = await page.ask(
        "Deny",
        named={"call": page.named("call")},
        body={"reason": dict(fields).get("reason", "")},
    )
    return page.go("/approvals", f"denied: {refused.action}")


async def revoke(page: PageRequest, _fields: Fields) -> Response:
    """Take a grant back."""
    found = await page.ask("Revoke", named={"grant": page.named("grant")})
    return page.go("/approvals", f"taken back: {found.covers}")
