# SPDX-License-Identifier: Apache-2.0
"""What an agent's own tools made on the host is that agent's: it deletes it, and runs it after a
look, without a question. Each way to pass another's content off for one's own is tried as well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy
from policy.model import ActionPlan, Params, Verdict
from sandbox.approvals.approver import nobody
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.calls.supervisor import Supervisor
from sandbox.calls.tickets import Tickets
from sandbox.cells.turns import Turns
from sandbox.config.settings import Dirs, HookSettings, Settings
from sandbox.gates.host_made import HostMade
from sandbox.hooks.service import HookDoor
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.governance.tools import Governance
from sandbox.questions.offline import OfflineGate, decide_offline
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import Registry

ASK, DENY, REPORT = Verdict.ASK, Verdict.DENY, Verdict.REPORT


class Session:
    """An agent whose hooks are answered by a real supervisor without cells."""

    def __init__(self, root: Path) -> None:
        self.place = root / "home" / "work"
        self.place.mkdir(parents=True)
        self.dirs = Dirs.under(root / "l").create()
        Registry(self.dirs, home=root / "home").add(str(self.place))

    def run(self, work: Callable[[Agent], Any]) -> None:
        """Run one supervisor, and the work of an agent before it."""

        async def session() -> None:
            async with asyncio.timeout(60):
                supervisor = Supervisor(self.dirs, policy=Policy.default(), settings=Settings())
                async with supervisor:
                    await work(Agent(self, supervisor))

        asyncio.run(session())


class Agent:
    """Claude Code, as its hooks tell of it."""

    def __init__(self, session: Session, supervisor: Supervisor) -> None:
        self.place = session.place
        self._supervisor = supervisor
        settings = HookSettings(wait_seconds=0.2, unattended_seconds=0.1)
        self._door = HookDoor(session.dirs, supervisor, Tickets(), settings)
        self._uses = 0

    async def begins(self, tool: str, **params: Any) -> Callable[..., Any]:
        """Ask about a call; return what tells how it went."""
        self._uses += 1
        said = {
            "session_id": "s",
            "cwd": str(self.place),
            "tool_name": tool,
            "tool_input": {**params, "file_path": str(self.place / params["file_path"])},
            "tool_use_id": f"t{self._uses}",
        }
        before = {**said, "hook_event_name": "PreToolUse"}
        answer = await self._door.answer("claude-code", json.dumps(before), peer=0, environment={})
        assert json.loads(answer.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"

        async def ended(*, failed: bool = False) -> None:
            name = "PostToolUseFailure" if failed else "PostToolUse"
            after = {**said, "hook_event_name": name, "tool_response": {}}
            await self._door.answer("claude-code", json.dumps(after), peer=0, environment={})

        return ended

    async def write(self, name: str, text: str) -> None:
        """Write a file as its tool does."""
        ended = await self.begins("Write", file_path=name, content=text)
        (self.place / name).write_text(text)
        await ended()

    async def verdict(self, command: str, agent: str = "main") -> Verdict:
        """Return what gate 1 says of a command."""
        plan = ActionPlan(
            tool="Bash", workspace=str(self.place), params=Params(command=command), agent=agent
        )
        found = await self._supervisor.admit(plan, approver=nobody)
        return found.decision.verdict


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_an_agent_deletes_and_runs_what_its_tools_made(session: Session) -> None:
    async def work(agent: Agent) -> None:
        await agent.write("reproduce.py", "print(1)\n")
        await agent.write("run.sh", "echo hi\n")
        await agent.write("bad.sh", "rm -rf src\n")
        assert await agent.verdict("rm reproduce.py") is REPORT
        assert await agent.verdict("rm reproduce.py", agent="other") is ASK
        assert await agent.verdict("bash run.sh") is REPORT
        assert await agent.verdict("bash bad.sh") is DENY

    session.run(work)

    async def later(agent: Agent) -> None:
        assert await agent.verdict("rm reproduce.py") is REPORT  # known from the record
        (agent.place / "reproduce.py").write_text("a person's\n")
        assert await agent.verdict("rm reproduce.py") is ASK

    session.run(later)


def test_what_stood_there_before_is_a_persons(session: Session) -> None:
    async def work(agent: Agent) -> None:
        (agent.place / "notes.txt").write_text("a person's\n")
        await agent.write("notes.txt", "an agent's\n")
        assert await agent.verdict("rm notes.txt") is ASK

    session.run(work)


def test_an_agents_word_makes_no_file_its_own(session: Session) -> None:
    async def work(agent: Agent) -> None:
        ended = await agent.begins("Write", file_path="a.txt", content="x\n")
        (agent.place / "a.txt").write_text("a person's\n")  # another content than it said
        await ended()
        assert await agent.verdict("rm a.txt") is ASK
        ended = await agent.begins("Write", file_path="b.txt", content="x\n")
        (agent.place / "b.txt").write_text("x\n")
        await ended(failed=True)
        assert await agent.verdict("rm b.txt") is ASK
        await agent.write("c.txt", "x\n")
        assert await agent.verdict("rm c.txt") is REPORT  # the control

    session.run(work)


def test_who_asks_beforehand_knows_it_from_the_record(session: Session) -> None:
    governance = Governance(session.dirs)
    who = Who(workspace=str(session.place))

    def foretold(name: str) -> tuple[Verdict, bool]:
        plan = ActionPlan(
            tool="Bash", workspace=str(session.place), params=Params(command=f"rm {name}")
        )
        said = asyncio.run(governance.permissions.can_execute(who, "Bash", f"rm {name}"))
        return decide_offline(session.dirs, plan)[0].decision.verdict, bool(said["can_execute"])

    async def work(agent: Agent) -> None:
        await agent.write("a.txt", "x\n")
        assert await agent.verdict("rm a.txt") is REPORT

    (session.place / "b.txt").write_text("a person's\n")
    assert foretold("b.txt") == (ASK, False)
    session.run(work)
    assert foretold("a.txt") == (REPORT, True)
    assert foretold("b.txt") == (ASK, False)
    (session.place / "a.txt").write_text("a person's\n")
    assert foretold("a.txt") == (ASK, False)


class Host:
    """The calls of agents' tools, let through one by one, without hooks."""

    def __init__(self, root: Path) -> None:
        self.place = root / "home" / "work"
        self.place.mkdir(parents=True)
        dirs = Dirs.under(root / "l").create()
        Registry(dirs, home=root / "home").add(str(self.place))
        self.turns = Turns()
        self._made = HostMade(ProjectFiles(), self.turns.count)
        self._gate = OfflineGate(dirs)

    def begins(self, call: str, tool: str = "Write", **params: Any) -> None:
        """Let a call through."""
        plan = ActionPlan(tool=tool, workspace=str(self.place), params=Params(**params))
        with self._gate as gate:
            answer, context = gate.answer(plan)
        self._made.expect(call, plan, answer, context, (str(self.place),))

    def writes(self, call: str, name: str = "a") -> None:
        """Let the writing of a file through."""
        self.begins(call, file_path=str(self.place / name), content="x\n")

    def made(self, call: str) -> list[str]:
        """Return the files that count as made once a call has ended."""
        found = self._made.settle(OutcomeRecord(call=call, agent="main")).made
        return [Path(one).name for one in found["files"]] if found else []


def test_what_lands_meanwhile_is_not_taken_for_the_tools(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def work() -> None:
        for name, landing in {"a": False, "b": True, "c": False}.items():
            host.writes(name, name)
            if landing:
                async with host.turns.take([str(host.place)]):
                    pass
            (host.place / name).write_text("x\n")
            assert host.made(name) == ([] if landing else [name])
        async with host.turns.take([str(host.place)]):  # it began before and has not ended
            host.writes("d", "d")
            (host.place / "d").write_text("x\n")
            assert host.made("d") == []

    asyncio.run(work())


def test_what_another_call_of_a_tool_put_there_is_not_its_own(tmp_path: Path) -> None:
    host = Host(tmp_path)
    patch = "*** Begin Patch\n*** Update File: {}\n*** Move to: {}\n@@\n-x\n+x\n*** End Patch"
    (host.place / "p").write_text("x\n")
    host.begins("move", "apply_patch", command=patch.format("p", "a"))
    host.writes("write")
    (host.place / "p").rename(host.place / "a")
    assert host.made("write") == []
    host.writes("first", "b")
    host.writes("second", "b")
    (host.place / "b").write_text("x\n")
    assert host.made("first") == []
    assert host.made("second") == ["b"]


def test_an_edit_keeps_a_file_whose_it_was(tmp_path: Path) -> None:
    host = Host(tmp_path)

    def edits(name: str) -> list[str]:
        path = host.place / name
        host.begins("edit", "Edit", file_path=str(path), old_string="x", new_string="y")
        path.write_text("y\n")
        return host.made("edit")

    host.writes("write", "own")
    (host.place / "own").write_text("x\n")
    (host.place / "person").write_text("x\n")
    assert (host.made("write"), edits("own"), edits("person")) == (["own"], ["own"], [])


def test_a_link_is_nothing_that_a_tool_made(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (host.place / "person").write_text("x\n")
    host.writes("soft", "soft")
    (host.place / "soft").symlink_to(host.place / "person")
    assert host.made("soft") == []
    host.writes("hard", "hard")
    (host.place / "hard").hardlink_to(host.place / "person")
    assert host.made("hard") == []
