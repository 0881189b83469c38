# SPDX-License-Identifier: Apache-2.0
"""Changes that wait for a person: the list, one as it stands now, landing some of it, throwing it
away."""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from sandbox.page.asking import CHANGED, Fields, PageRequest, shown_digest
from sandbox.results import ChangeView
from sandbox.web.problems import HttpRefusal
from sandbox.web.taken import MOST_ROWS


async def show_held(page: PageRequest) -> Response:
    """Show what waits."""
    held, calls = await asyncio.gather(
        page.ask("Held"), page.ask("ListCalls", query={"held": "true", "limit": str(MOST_ROWS)})
    )
    return page.show("held.html", held=held, known={call.id: call for call in calls.calls})


async def show_one(page: PageRequest) -> Response:
    """Show one as things stand now; from then on that is what was shown."""
    named = {"call": page.named("call")}
    look = await page.ask("LookHeld", named=named, body={})
    call = await page.ask("ShowCall", named=named)
    ticked = ticked_at_first(look.changes)
    return page.show("held_one.html", call=call, look=look, digest=_of(look), ticked=ticked)


async def land(page: PageRequest, fields: Fields) -> Response:
    """Land what is ticked, if it is still what was shown."""
    named = {"call": page.named("call")}
    look = await page.ask("LookHeld", named=named, body={})
    if _of(look) != dict(fields).get("digest"):  # P8
        return page.go(f"/held/{named['call']}", CHANGED)
    ticked = [value for name, value in fields if name == "path"]
    every = [change.path for change in look.changes]
    paths = chosen_paths(ticked, every)
    in_part = set(ticked) != set(every)
    body: dict[str, Any] = {"digest": look.digest, "paths": paths if in_part else ()}
    if in_part and look.changes_total > len(every):
        raise HttpRefusal(
            400, "BadInput", "it has more changes than the page lists",
            "land all of it, or a part at a terminal: `lockgate land CALL PATH ...`",
        )  # fmt: skip
    landed = await page.ask("Land", named=named, body=body)
    what = f"{len(paths)} of {len(every)} paths" if in_part else "all of it"
    return page.go(f"/calls/{named['call']}", f"landed {what}. {landed.message}".strip())


async def discard(page: PageRequest, _fields: Fields) -> Response:
    """Throw it away."""
    call = page.named("call")
    await page.ask("Discard", named={"call": call}, body={})
    return page.go("/held", f"{call} is thrown away; none of it landed")


def ticked_at_first(changes: Sequence[ChangeView]) -> list[str]:
    """Return the paths that are ticked before a person has chosen: all but what gate 2 objects to,
    and but folders in which nothing is left.

    INVARIANT (P8, "nobody lands unawares"): what caused the hold lands only if a person ticks it.
    """
    left = {change.path for change in changes if not change.outcome}
    inside = {
        change.path: {each.path for each in changes if each.path.startswith(f"{change.path}/")}
        for change in changes
    }
    fine = {path for path in left if not inside[path]}
    kept = {path for path in left if path in fine or inside[path] & fine}
    return [change.path for change in changes if change.path in kept]


def chosen_paths(ticked: list[str], every: list[str]) -> list[str]:
    """Return the names that stand for just the ticked paths. Raises HttpRefusal.

    A folder's name stands for all in it, and what looks like a pattern for all that fits it.
    """
    wanted, known = set(ticked), set(every)
    if not wanted or not wanted <= known:
        raise HttpRefusal(400, "BadInput", "nothing is ticked", "tick what is to land")
    names = []
    for path in ticked:
        inside = {one for one in known if one.startswith(f"{path}/")}
        if inside <= wanted:
            names.append(glob.escape(path))
        elif not inside & wanted:
            raise HttpRefusal(
                400, "BadInput", f"`{path}` is ticked, and nothing of what is in it",
                "tick something in it too, or not the folder",
            )  # fmt: skip
    return names


def _of(look: Any) -> str:
    return shown_digest((look.changes, look.changes_total, look.diff, look.digest))
