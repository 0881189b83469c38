# SPDX-License-Identifier: Apache-2.0
"""One call is one question: every door puts the same plan and context to gate 1."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from policy.autonomy.reputation import Domain
from policy.autonomy.trust import TrustFile
from policy.gate1 import decide as gate1
from policy.model import ActionPlan, Context, Decision, Verdict
from sandbox.agents.declared import Declarations, Declared
from sandbox.agents.registering import register
from sandbox.agents.registry import Registry as Agents
from sandbox.agents.reputation import ReputationEvent, Reputations, ReputationSource
from sandbox.approvals.pregrant import of_command
from sandbox.approvals.store.grants import Grants
from sandbox.calls.supervisor import Supervisor
from sandbox.calls.tickets import Admission
from sandbox.cli.calls.check import check, explain
from sandbox.cli.calls.run import run
from sandbox.cli.calls.shell import Shell
from sandbox.client.blocking import BlockingClient
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.self_test import SELF_TEST
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.session import Door
from sandbox.policy_tools.batch import check_batch
from sandbox.questions.plans import read_plan
from sandbox.workspaces.registry import Registry
from tests.fakes import served
from tests.http_served import http_served

ROOT = Path(__file__).parents[3]
COMMAND = "rm a*.txt; ls ../other ../../other"


class Real(Supervisor):
    """The supervisor itself, served as a fake one is."""

    release = threading.Event()


@dataclass
class Bench:
    """A workspace that one stands in, below it a folder, and a supervisor that is served."""

    dirs: Dirs
    workspace: str
    here: str
    asked: list[tuple[ActionPlan, Context, Decision]] = field(default_factory=list)

    def door(self) -> Door:
        """Return an MCP door that waits for nobody."""
        return Door(self.dirs, Who(workspace=self.workspace), ask_seconds=0.05)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    home = tmp_path / "home"
    here = home / "work" / "sub"
    here.mkdir(parents=True)
    for name, folder in (("STATE", "s"), ("CONFIG", "c")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "r"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("LOCKGATE_AGENT_NAME", raising=False)
    monkeypatch.delenv("LOCKGATE_ROLE", raising=False)
    monkeypatch.chdir(here)
    dirs = Dirs.default().create()
    dirs.config.mkdir(parents=True, exist_ok=True)
    (dirs.config / "config.yaml").write_text("hooks: {unattended_seconds: 0.1}\n")
    Registry(dirs).add(here.parent)
    for other in ("other", "other-one"):  # the call names the first
        (home / other).mkdir()
        Registry(dirs).add(home / other)
    reverted = ReputationEvent(
        Domain.CODE_CHANGES, success=False, reverted=True, source=ReputationSource.PERSON
    )
    Reputations(dirs).record("main", reverted, TrustFile())
    monkeypatch.setattr("sandbox.cli.calls.run.PATIENCE", 0.1)
    bench = Bench(dirs, str(here.parent), str(here))
    genuine = gate1.decide

    def decide(plan: ActionPlan, context: Context, *rest: Any) -> Decision:
        found = genuine(plan, context, *rest)
        bench.asked.append((plan, context, found))
        return found

    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
    with served(dirs, Real(dirs)):  # type: ignore[arg-type]
        yield bench


def hook(bench: Bench, agent: str, event: dict[str, Any]) -> None:
    """Send one event of an agent's hook."""
    said = {"session_id": SELF_TEST, "cwd": bench.here, **event}
    with BlockingClient(bench.dirs) as client:
        environment = {"CLAUDE_CODE_SESSION_ATTENDED": "0"}
        client.exchange(
            {"op": "hook", "agent": agent, "said": json.dumps(said), "environment": environment}
        )


def before(bench: Bench, agent: str, name: str, tool: str) -> None:
    """Say with an agent's hook that it is about to run the command."""
    hook(
        bench, agent,
        {"hook_event_name": name, "tool_name": tool, "tool_input": {"command": COMMAND}},
    )  # fmt: skip


def command_line(command: Any) -> Callable[[Bench], None]:
    """Return a door that is a command."""

    def call(bench: Bench) -> None:
        command.main([COMMAND], standalone_mode=False)

    return call


def batch(bench: Bench) -> None:
    """Ask as `lockgate check --batch` does."""
    list(check_batch([json.dumps({"command": COMMAND})], dirs=bench.dirs, here=bench.here))


def grant(bench: Bench) -> None:
    """Ask as `lockgate grant` does."""
    of_command(
        bench.dirs, [COMMAND], workspace=None, agent="main", role=None, cwd=None, here=bench.here
    )


def shell(bench: Bench) -> None:
    """Run it in `lockgate shell`."""
    Shell([], []).run(COMMAND, stdin=False)


def mcp(bench: Bench) -> None:
    """Call the tool of the MCP server."""

    async def call() -> None:
        async with bench.door() as door:
            await door.call("Bash", {"command": COMMAND}, cwd=bench.here)

    asyncio.run(call())


def over_http(path: str) -> Callable[[Bench], None]:
    """Return a door that is an address of the HTTP API."""

    def call(bench: Bench) -> None:
        body = {"command": COMMAND, "workspace": bench.workspace, "cwd": bench.here}
        with http_served(bench.dirs) as http:
            assert http.ask("POST", path, body).status_code == 200

    return call


def governed(ask: Callable[[Door, Who], Any]) -> Callable[[Bench], None]:
    """Return a door that is a governance tool."""

    def call(bench: Bench) -> None:
        async def work() -> None:
            async with bench.door() as door:
                await ask(door, await door.itself())

        asyncio.run(work())

    return call


def ticket(bench: Bench) -> None:
    """Admit it, and make it with its ticket."""

    async def work() -> None:
        async with Supervisor(bench.dirs) as supervisor:
            plan, _, decision = bench.asked[-1]
            await supervisor.redeem(Admission("c0123456789", plan, decision, None))

    before(bench, "claude-code", "PreToolUse", "Bash")
    asyncio.run(work())


DOORS: dict[str, Callable[[Bench], None]] = {
    "run": command_line(run),
    "shell": shell,
    "check": command_line(check),
    "check --batch": batch,
    "explain": command_line(explain),
    "grant": grant,
    "a hook of Claude Code": lambda bench: before(bench, "claude-code", "PreToolUse", "Bash"),
    "a hook of Codex": lambda bench: before(bench, "codex", "PreToolUse", "Bash"),
    "a hook of Gemini CLI": lambda bench: before(
        bench, "gemini", "BeforeTool", "run_shell_command"
    ),
    "a ticket": ticket,
    "MCP": mcp,
    "HTTP": over_http("/v1/calls"),
    "HTTP check": over_http("/v1/check"),
    "HTTP explain": over_http("/v1/explain"),
    "can_execute": governed(
        lambda door, who: door.governance.permissions.can_execute(who, "Bash", COMMAND)
    ),
    "check_permission": governed(
        lambda door, who: door.governance.permissions.check_permission(
            who, "Bash", {"command": COMMAND}
        )
    ),
    "request_approval": governed(
        lambda door, who: door.governance.asking.request_approval(
            who, "Bash", {"command": COMMAND}, "it is old"
        )
    ),
}
AT_THE_ROOT = ("can_execute", "check_permission", "request_approval")
"""Doors that name no folder: such a call starts where its workspace begins."""


def wanted(bench: Bench, agent: str, role: str) -> ActionPlan:
    """Return the plan that the call is."""
    import pwd

    return read_plan(
        {
            "tool": "Bash", "params": {"command": COMMAND}, "agent": agent, "role": role,
            "user": pwd.getpwuid(os.geteuid()).pw_name, "workspace": bench.workspace,
            "also": [str(Path(bench.workspace).with_name("other"))], "cwd": bench.here,
        }
    )  # fmt: skip


def put(bench: Bench, door: str) -> list[tuple[ActionPlan, Context, Decision]]:
    """Put the question through a door; return what gate 1 was asked."""
    bench.asked.clear()
    DOORS[door](bench)
    assert bench.asked, "gate 1 was not asked"
    return [(unsaid(plan), context, decision) for plan, context, decision in bench.asked]


def unsaid(plan: ActionPlan) -> ActionPlan:
    """Return a plan without how the agent itself named the tool and its parameters."""
    said = plan.model_dump(by_alias=True, exclude={"derived_from": True})
    said["params"].pop("given", None)
    return read_plan(said)


def same(bench: Bench, door: str, agent: str, role: str) -> None:
    """Assert that a door puts the question that `lockgate run` puts."""
    if door in AT_THE_ROOT:
        bench.here = bench.workspace
        os.chdir(bench.here)
    [(_, context, decision)] = put(bench, "run")
    assert decision.verdict is Verdict.ASK
    assert context.trust  # what a person took back counts
    for found in put(bench, door):
        assert found == (wanted(bench, agent, role), context, decision)


@pytest.mark.parametrize("door", DOORS)
def test_a_declared_agents_call_is_one_question_through_every_door(bench: Bench, door: str) -> None:
    Declarations(bench.dirs).add(Declared("main", None, "main", "coder"))
    same(bench, door, "main", "coder")


@pytest.mark.parametrize("door", DOORS)
def test_a_registered_agents_call_is_one_question_through_every_door(
    bench: Bench, door: str
) -> None:
    mine = register(bench.dirs, os.getpid(), name="main", role="coder", source="test")
    try:
        same(bench, door, "main", "coder")
    finally:
        Agents(bench.dirs).remove(mine)


def test_a_role_that_may_not_write_counts_at_an_agents_hook(bench: Bench) -> None:
    def verdict() -> Verdict:
        bench.asked.clear()
        hook(bench, "claude-code", {
            "hook_event_name": "PreToolUse", "tool_name": "Write",
            "tool_input": {"file_path": f"{bench.here}/a.py", "content": "x = 1\n"},
        })  # fmt: skip
        return bench.asked[0][2].verdict

    assert verdict() is not Verdict.DENY
    mine = register(bench.dirs, os.getpid(), name="me", role="researcher", source="test")
    try:
        assert verdict() is Verdict.DENY
    finally:
        Agents(bench.dirs).remove(mine)


def test_what_is_granted_beforehand_is_what_runs(bench: Bench) -> None:
    Declarations(bench.dirs).add(Declared("main", None, "main", "coder"))
    grant(bench)
    [beforehand] = Grants(bench.dirs).open_questions(time.time())
    put(bench, "run")
    assert {
        one.request.wanted.digest for one in Grants(bench.dirs).open_questions(time.time())
    } == {beforehand.request.wanted.digest}


def test_nobody_asks_in_another_agents_name(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        other = register(bench.dirs, process.pid, name="other", source="test")
        mine = register(bench.dirs, os.getpid(), name="me", role="coder", source="test")
        try:
            check.main(["--agent", "me:sub", COMMAND], standalone_mode=False)
            assert bench.asked[-1][0].agent == "me:sub"
            with pytest.raises(BadInput, match="which cannot call as agent `other`"):
                check.main(["--agent", "other", COMMAND], standalone_mode=False)
        finally:
            process.kill()
            for agent in (mine, other):
                Agents(bench.dirs).remove(agent)


def made(path: Path) -> set[str]:
    """Return what a module makes of the nouns of a question."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("ActionPlan", "Context", "Use.plan") or called.startswith("ActionPlan."):
            names.add(called)
        if called.endswith(".plan") and node.keywords:
            names.add(called)
    return names


def test_no_other_module_makes_a_plan_or_a_context() -> None:
    makers = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / "sandbox").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] != "cell"  # it knows no calls, and plans landings
        and (found := made(path))
    }
    assert makers == {
        "sandbox/questions/contexts.py": {"Context"},
        "sandbox/questions/plans.py": {"ActionPlan.model_validate", "use.plan"},
    }
