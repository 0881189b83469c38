# SPDX-License-Identifier: Apache-2.0
"""Agents named before they run: their role, within their parent's, counts wherever they call."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.autonomy.roles import Roles
from sandbox.agents.declared import Declarations, declaration, narrowed, within
from sandbox.agents.peer import Peer
from sandbox.agents.registering import register
from sandbox.errors import BadInput, Unavailable
from sandbox.host.dirs import Dirs

ROLES = Roles.default()


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders of our own."""
    return Dirs.under(tmp_path).create()


@pytest.fixture
def known(dirs: Dirs) -> Declarations:
    """Return `lead` (a coder), its child `reviewer` (a critic), and `free` without a role."""
    found = Declarations(dirs)
    for name, parent, role in (
        ("lead", None, "coder"),
        ("reviewer", "lead", "critic"),
        ("free", None, None),
    ):
        found.add(declaration(found, name, parent=parent, role=role, roles=ROLES))
    return found


CASES: dict[str, tuple[dict[str, Any], tuple[str | None, str | None]]] = {
    "by its name": ({"agent": "lead"}, ("lead", "coder")),
    "a child by its name": ({"agent": "reviewer"}, ("lead:reviewer", "coder/critic")),
    "a child by its path": ({"agent": "lead:reviewer"}, ("lead:reviewer", "coder/critic")),
    "a sub-agent of one": ({"agent": "lead:sub:1"}, ("lead:sub:1", "coder")),
    "with a role of its own": ({"agent": "lead", "role": "deployer"}, ("lead", "coder/deployer")),
    "with the same role": ({"agent": "lead", "role": "coder"}, ("lead", "coder")),
    "with a role within it": ({"agent": "lead", "role": "coder/critic"}, ("lead", "coder/critic")),
    "one without a role": ({"agent": "free", "role": "critic"}, ("free", "critic")),
    "nobody declared": ({"agent": "x", "role": "coder"}, ("x", "coder")),
    "nobody named": ({}, (None, None)),
}


@pytest.mark.parametrize(("plan", "counts"), CASES.values(), ids=CASES)
def test_a_call_has_the_role_that_was_declared(
    known: Declarations, plan: dict[str, Any], counts: tuple[str | None, str | None]
) -> None:
    found = narrowed(plan, known)
    assert (found.get("agent"), found.get("role")) == counts


def test_the_default_agent_may_be_declared(known: Declarations) -> None:
    assert narrowed({}, known) == {}  # the control
    known.add(declaration(known, "main", parent=None, role="researcher", roles=ROLES))
    assert narrowed({}, known) == {"agent": "main", "role": "researcher"}
    assert narrowed({"agent": "main:codex-2"}, known)["role"] == "researcher"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a name that cannot be": ({"name": "a:b"}, "cannot name an agent"),
    "a role that is not there": ({"name": "x", "role": "king"}, "no role `king`"),
    "a parent that is not there": ({"name": "x", "parent": "y"}, "no agent `y` is declared"),
    "one that is there": ({"name": "lead"}, "agent `lead` is there already"),
}


@pytest.mark.parametrize(("asked", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_declared(known: Declarations, asked: dict[str, Any], says: str) -> None:
    asked = {"parent": None, "role": None, **asked}
    before = known.all()
    with pytest.raises(BadInput, match=says):
        known.add(declaration(known, asked.pop("name"), **asked, roles=ROLES))
    assert known.all() == before


def test_children_go_first(known: Declarations) -> None:
    lead, reviewer = known.find("lead"), known.find("reviewer")
    assert lead is not None
    assert reviewer is not None
    with pytest.raises(BadInput, match="agents work for `lead`: reviewer"):
        known.remove(lead)
    known.remove(reviewer)
    known.remove(lead)
    assert [one.id for one in known.all()] == ["free"]


def test_a_damaged_file_lets_no_call_through(dirs: Dirs, known: Declarations) -> None:
    (dirs.state / "declared-agents.json").write_text("[{")
    with pytest.raises(Unavailable, match="damaged"):
        narrowed({"agent": "lead"}, known)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as one:
        yield one
        one.kill()


def test_a_program_under_the_name_has_its_role_and_place(
    dirs: Dirs, known: Declarations, process: subprocess.Popen[bytes]
) -> None:
    one = register(dirs, process.pid, name="reviewer", role="deployer", source="test")
    assert (one.path, one.role) == ("lead:reviewer", "coder/critic/deployer")
    role = ROLES.find(one.role or "")
    assert role is not None
    assert role == role.meet(ROLES.find("coder/critic") or role)


def test_a_connection_brings_it_in(dirs: Dirs, known: Declarations) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(dirs, ours)
        assert peer.pid == os.getpid()
        found = asyncio.run(peer.caller()).attributed({"agent": "reviewer", "role": "deployer"})
    assert found == {"agent": "lead:reviewer", "role": "coder/critic/deployer"}


def test_a_role_within_another() -> None:
    assert within(None, "a") == "a"
    assert within("a", None) == "a"
    assert within("a", "a/b") == "a/b"
    assert within("a", "ab") == "a/ab"
    assert within("a/b", "a") == "a/b/a"
