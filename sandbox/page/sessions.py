# SPDX-License-Identifier: Apache-2.0
"""Sessions of agents: what one did, as one list and one diff, and taking all of it back."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from sandbox.errors import SandboxError
from sandbox.page.asking import CHANGED, Fields, PageRequest, shown_digest

_PER_PAGE = "40"


async def show_sessions(page: PageRequest) -> Response:
    """Show the sessions, newest first."""
    listed = await page.ask("ListSessions", query={**page.given("before"), "limit": _PER_PAGE})
    older = f"/sessions?{urlencode({'before': listed.next})}" if listed.next else ""
    return page.show("sessions.html", sessions=listed.sessions, older=older)


async def show_session(page: PageRequest) -> Response:
    """Show what a session did."""
    session = _session(page.given("id"))
    query = {"session": session, "limit": _PER_PAGE, **page.given("before")}
    calls = await page.ask("ListCalls", query=query)
    changed, missing = None, ""
    try:
        changed = await page.ask("Changed", query={"session": session})
    except SandboxError as error:  # no engine, say; the calls are shown all the same
        missing = str(error)
    older = urlencode({"id": session, "before": calls.next}) if calls.next else ""
    return page.show(
        "session.html",
        session=session,
        calls=calls.calls,
        older=f"/session?{older}" if older else "",
        changed=changed,
        missing=missing,
    )


async def show_undo_all(page: PageRequest) -> Response:
    """Show what an undo of a whole session would change."""
    session = _session(page.given("id"))
    foreseen = await page.ask("UndoChosen", body={"session": session, "dry_run": True})
    return page.show("undo_all.html", session=session, foreseen=foreseen, digest=_of(foreseen))


async def undo_all(page: PageRequest, fields: Fields) -> Response:
    """Undo what stands of a session, if that still changes what was shown."""
    form = dict(fields)
    session = _session({"id": form.get("id", "")})
    foreseen = await page.ask("UndoChosen", body={"session": session, "dry_run": True})
    if _of(foreseen) != form.get("digest"):  # P8
        return page.go(f"/session/undo?{urlencode({'id': session})}", CHANGED)
    report = await page.ask("UndoChosen", body={"session": session})
    stay = [f"{one.id} stays: {one.because}" for one in report.stay]
    stopped = [report.stopped] if report.stopped else []
    count = len(report.done)
    news = [f"{count} call{'' if count == 1 else 's'} taken back", *stopped, *stay]
    return page.go(f"/session?{urlencode({'id': session})}", "\n".join(news))


def _session(given: dict[str, str]) -> str:
    return given.get("id", "")


def _of(foreseen: Any) -> str:
    return shown_digest((foreseen.changes, foreseen.diff, foreseen.stay))
