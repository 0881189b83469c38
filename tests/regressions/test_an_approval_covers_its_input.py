# SPDX-License-Identifier: Apache-2.0
"""A yes to `sh` with one script on standard input let `sh` run with another.

What was piped into a call was no part of what an approval is bound to, and the card did not show
it; neither did a call that a hook had admitted stay without input that nobody was asked about.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policy.model import ActionPlan, Context, Params, Workspace
from policy.people.approval import Scope
from sandbox.approvals import stdin_capture as given
from sandbox.approvals.approver import nobody
from sandbox.approvals.desk import Desk, Permission
from sandbox.approvals.stdin_capture import MOST_BYTES, Given, NotWhole, pieces, taken
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Terms
from sandbox.audit.events.calls import AskedRecord
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from sandbox.gates.gate1 import Gate1
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.gates.policy_files import BuiltIn
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.present.card import card
from sandbox.results import CallResult, Ending
from sandbox.text.redaction import MASK

CONTEXT = Context((Workspace("/w"),), home="/home/me")
PLAN = ActionPlan(tool="Bash", params=Params(command="sh; rm a.txt"), workspace="/w")
SCRIPT = b"echo build\n"
OTHERS = {"another script": b"echo other\n", "more of it": SCRIPT + b"\n", "none": b""}


def ask(dirs: Dirs, call: str, data: bytes) -> Permission:
    """Ask about the call where nobody sits: only a grant lets it run."""

    async def told(question: AskedRecord, plan: ActionPlan) -> None:
        """Tell nobody."""

    async def run() -> Permission:
        gate = Gate1(BuiltIn(), SecondOpinion())

        async def again() -> GateAnswer:
            return await gate.decide(PLAN, CONTEXT, ("/w",))

        desk = Desk(Grants(dirs), seconds=60, notify=told)
        first, whole = await again(), Given(data)
        return await desk.permission(call, PLAN, first, CONTEXT, nobody, again=again, given=whole)

    return asyncio.run(run())


def approve(dirs: Dirs, call: str, terms: Terms | None = None) -> None:
    grants, now = Grants(dirs), time.time()
    grants.approve(grants.asked(call).request, terms or Terms(), by="me", reason="", now=now)


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_yes_covers_no_other_input(tmp_path: Path, other: bytes, scope: Scope) -> None:
    dirs = Dirs.under(tmp_path).create()
    assert not ask(dirs, "c1", SCRIPT).approved
    approve(dirs, "c1", Terms(scope=scope))
    assert not ask(dirs, "c2", other).approved
    if scope is Scope.EXACT:  # with the one that was shown it runs
        assert ask(dirs, "c3", SCRIPT).approved


def test_a_yes_without_input_covers_none(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    assert not ask(dirs, "c1", b"").approved
    approve(dirs, "c1")
    assert not ask(dirs, "c2", SCRIPT).approved
    assert ask(dirs, "c3", b"").approved


def test_the_card_shows_it_whole_and_the_answer_masks_what_is_kept(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    script = b"true\n" * 500 + b"DB_PASSWORD=hunter2 ./deploy\n"
    ask(dirs, "c1", script)
    request = Grants(dirs).asked("c1").request
    plan = request.plan.model_dump(mode="json", by_alias=True)
    shown = card(plan, request.decision.model_dump(mode="json"), stdin=request.stdin)
    assert f"  input        | {len(script)} bytes, SHA-256 " in shown
    assert "| DB_PASSWORD=hunter2 ./deploy" in shown
    assert all(line[15:16] == "|" for line in shown.split("\n")[1:])
    approve(dirs, "c1")
    assert f"DB_PASSWORD={MASK}" in Grants(dirs).asked("c1").request.stdin
    assert "which are no text" in Given(b"\xff\x00").shown()


def test_it_is_taken_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "BEGIN_SECONDS", 0.05)
    monkeypatch.setattr(given, "WHOLE_SECONDS", 0.1)

    async def endless(*first: bytes) -> AsyncIterator[bytes]:
        for one in first:
            yield one
        await asyncio.Event().wait()

    async def long() -> AsyncIterator[bytes]:
        for _ in range(MOST_BYTES // 1000 + 2):
            yield b"x" * 1000

    assert asyncio.run(taken(pieces(SCRIPT))) == Given(SCRIPT)
    assert asyncio.run(taken(None)) == Given(b"")
    assert asyncio.run(taken(endless())) == Given(b"", silent=True)
    with pytest.raises(NotWhole, match="did not end within"):
        asyncio.run(taken(endless(b"rm ")))
    with pytest.raises(NotWhole, match="longer than 4 MiB"):
        asyncio.run(taken(long()))


@pytest.mark.docker
def test_a_call_runs_with_the_very_input_that_was_approved(
    images: Images, tmp_path: Path, run_id: str
) -> None:
    place = tmp_path / "work"
    place.mkdir()
    dirs = Dirs.under(tmp_path / "lockgate").create()
    plan = ActionPlan(tool="Bash", params=Params(command="rm -f x; sh"), workspace=str(place))

    async def run() -> tuple[CallResult, ...]:
        workspaces = [Workspace(str(place))]
        async with Supervisor(dirs, workspaces=workspaces, labels={LABEL_TEST: run_id}) as one:
            first = await one.call(plan, stdin=b"echo one > made\n")
            approve(dirs, first.id)
            other = await one.call(plan, stdin=b"echo two > made\n")
            same = await one.call(plan, stdin=b"echo one > made\n")
            admission = await one.admit(plan)
            approve(dirs, admission.call)
            admission = await one.admit(plan)
            hook = await one.redeem(admission, stdin=b"echo three > made\n")
            return first, other, same, hook

    first, other, same, hook = asyncio.run(run())
    assert first.ending is other.ending is Ending.NOT_APPROVED
    assert same.landed
    assert hook.ending is Ending.RAN
    assert (place / "made").read_text() == "one\n"
