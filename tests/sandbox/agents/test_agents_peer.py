# SPDX-License-Identifier: Apache-2.0
"""Whose call it is: an agent's process calls as that agent, whatever name it gives."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.autonomy.reputation import Domain, TrustLevel
from policy.autonomy.roles import Roles
from policy.autonomy.trust import TrustFile
from policy.model import ActionPlan
from sandbox.agents.peer import Peer, attributed, peer_process
from sandbox.agents.registering import register
from sandbox.agents.registry import Agent, Registry
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.processes.peer_process import peer_pid
from sandbox.processes.table import Host, Proc


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders of our own."""
    return Dirs.under(tmp_path).create()


@pytest.fixture
def agents(dirs: Dirs) -> Iterator[dict[str, Agent]]:
    """Return agent `a` (a coder), its child `b` (a critic), and `c`."""
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        a = register(dirs, processes[0].pid, name="a", role="coder", source="test")
        b = register(dirs, processes[1].pid, name="b", role="critic", parent="a", source="test")
        c = register(dirs, processes[2].pid, name="c", source="test")
        yield {"a": a, "b": b, "c": c}
    finally:
        for process in processes:
            process.kill()
            process.wait()


CASES: dict[str, tuple[str | None, dict[str, Any], tuple[str | None, str | None]]] = {
    "a person's call": (None, {}, (None, None)),
    "a person's call as a registered agent": (None, {"agent": "b"}, ("a:b", "coder/critic")),
    "a person's call as somebody": (None, {"agent": "x", "role": "coder"}, ("x", "coder")),
    "an agent that names nobody": ("a", {}, ("a", "coder")),
    "an agent that names the default": ("a", {"agent": "main"}, ("a", "coder")),
    "an agent that names itself": ("a", {"agent": "a"}, ("a", "coder")),
    "an agent that names its child": ("a", {"agent": "b"}, ("a:b", "coder/critic")),
    "an agent that names a sub-agent": ("a", {"agent": "x"}, ("a:x", "coder")),
    "an agent that names a sub-agent whole": ("a", {"agent": "a:x"}, ("a:x", "coder")),
    "an agent with a role of its choice": ("a", {"role": "deployer"}, ("a", "coder/deployer")),
    "a child that names nobody": ("b", {}, ("a:b", "coder/critic")),
    "an agent without a role": ("c", {"role": "critic"}, ("c", "critic")),
}


@pytest.mark.parametrize("around, plan, wanted", CASES.values(), ids=CASES)
def test_whose_call_it_is(
    dirs: Dirs,
    agents: dict[str, Agent],
    around: str | None,
    plan: dict[str, Any],
    wanted: tuple[str | None, str | None],
) -> None:
    found = attributed(plan, agents[around] if around else None, Registry(dirs))
    assert (found.get("agent"), found.get("role")) == wanted


@pytest.mark.parametrize("around, named", [("b", "a"), ("a", "c"), ("c", "b")])
def test_nobody_calls_as_an_agent_that_is_not_its_own(
    dirs: Dirs, agents: dict[str, Agent], around: str, named: str
) -> None:
    with pytest.raises(
        BadInput, match=f"this is agent `{around}`, which cannot call as agent `{named}`"
    ):
        attributed({"agent": named}, agents[around], Registry(dirs))


def test_the_kernel_says_who_is_at_the_other_end(dirs: Dirs) -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert peer_pid(left) == os.getpid()
        plan = {"agent": "x"}
        # Without agents nothing is looked up.
        assert asyncio.run(Peer(dirs, left).caller()).attributed(plan) is plan
        me = register(dirs, os.getpid(), name="me", role="critic", source="test")
        try:
            found = asyncio.run(Peer(dirs, left).caller()).attributed(plan)
            assert found == {"agent": "me:x", "role": "critic"}
        finally:
            Registry(dirs).remove(me)


class NumberTaken(Host):
    """A host where another process has the number of one that has ended."""

    def process(self, pid: int) -> Proc | None:
        """Return a process that lives, whatever the number."""
        one = super().process(os.getpid())
        assert one is not None
        return one._replace(pid=pid)


def test_who_has_the_number_of_the_maker_now_is_not_at_the_other_end(tmp_path: Path) -> None:
    program = "import socket, sys; line = socket.socket(socket.AF_UNIX); line.connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        for more, there in (("; sys.stdin.read()", True), ("", False)):
            words = [sys.executable, "-c", program + more, str(tmp_path / "s")]
            with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
                line = server.accept()[0]
                with line:
                    if not there:
                        process.communicate()
                    assert peer_pid(line) == process.pid
                    found = peer_process(NumberTaken(), line)
                    assert (found is not None) is there
                process.communicate()


def test_a_childs_role_is_never_wider_than_its_parents(agents: dict[str, Agent]) -> None:
    roles = Roles.default()
    parent, child = roles.find(agents["a"].role or ""), roles.find(agents["b"].role or "")
    assert parent is not None
    assert child is not None
    assert child.meet(parent) == child


def test_a_sub_agent_is_trusted_no_more_than_the_agent_above_it() -> None:
    trust = TrustFile(agents={"*": TrustLevel.AUTONOMOUS, "a": TrustLevel.PROPOSE})
    for name in ("a", "a:b", "a:b:c"):
        assert trust.level(name, Domain.CODE_CHANGES) is TrustLevel.PROPOSE
    for name in ("b", "ab", "b:a"):
        assert trust.level(name, Domain.CODE_CHANGES) is TrustLevel.AUTONOMOUS


def test_an_unknown_role_or_parent_is_said(dirs: Dirs, agents: dict[str, Agent]) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(BadInput, match="there is no role `emperor`; roles are researcher"):
                register(dirs, process.pid, role="emperor", source="test")
            with pytest.raises(BadInput, match="there is no agent `zz`; see `lockgate agent list`"):
                register(dirs, process.pid, parent="zz", source="test")
        finally:
            process.kill()


def test_a_plan_takes_what_is_attributed(agents: dict[str, Agent]) -> None:
    plan = ActionPlan(tool="Bash", workspace="/w", agent=agents["b"].path, role=agents["b"].role)
    assert (plan.agent, plan.role) == ("a:b", "coder/critic")
