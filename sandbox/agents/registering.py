# SPDX-License-Identifier: Apache-2.0
"""Put an agent into the registry: its name, its parent and its role."""

from __future__ import annotations

import os
import re
import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.agents.allowed import check_name, child_role
from sandbox.agents.declared import within
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.processes.cgroup import ControlGroup
from sandbox.processes.table import boot
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:  # a stop needs no policy, and must be quick
    from policy.autonomy.roles import Roles
from sandbox.agents.registry import MOST_PASSES, TOKEN_BYTES, Agent, Registry, is_below_agent


def register(
    dirs: Dirs,
    peer_pid: int,
    *,
    name: str | None = None,
    role: str | None = None,
    parent: str | None = None,
    source: str,
    roles: Roles | None = None,
) -> Agent:
    """Put a process that came in through a front door under watch, and return its agent.

    `peer_pid` is the process at the other end, as the kernel says it. A process that belongs to a
    registered agent stays that agent's: without a new name its agent is returned, with one it
    becomes a child of it. Raises Stopped, BadInput (no such process, another user's, a name or a
    role that cannot be), Unavailable.
    """
    registry = Registry(dirs)
    registry.drop_ended()
    around = registry.of_process(peer_pid)
    if around is not None and (name in (None, around.id) or around.pid == peer_pid):
        if role is not None and role != around.role and around.pid != peer_pid:
            raise BadInput(f"agent `{around.id}` has its role already; give a name of its own")
        return around
    agent = describe(
        registry, peer_pid, name=name, role=role, parent=parent, source=source, roles=roles
    )
    Latch(dirs).check(agent.path)
    group = ControlGroup.make_beside(agent.token, agent.id)
    agent = replace(agent, group=str(group.path)) if group is not None else agent
    registry.add(agent)
    if group is not None:
        _gather(registry, agent, group)
    registry.note_seen()
    Latch(dirs).check(agent.path)
    return agent


def _gather(registry: Registry, agent: Agent, group: ControlGroup) -> None:
    """Put what an agent has started already into its group; what it starts from now on is born
    there, and cannot get away by cutting its other ties."""
    for _ in range(MOST_PASSES):
        known = group.members()
        fresh = [pid for pid in (agent.pid, *registry.members(agent)) if pid not in known]
        if not sum(group.add(pid) for pid in fresh):
            return


def describe(
    registry: Registry,
    pid: int,
    *,
    name: str | None,
    role: str | None,
    parent: str | None,
    source: str,
    roles: Roles | None = None,
    program: str = "",
) -> Agent:
    """Return the entry of a running process, not registered yet. Raises BadInput.

    `program`: its command line, where the process does not show it yet.
    """
    host = registry.host
    process = host.process(pid) if pid > 0 else None
    if process is None or process.ended:
        raise BadInput(f"there is no process {pid}")
    if pid == 1 or process.ppid == 2 or pid == 2:
        raise BadInput(f"process {pid} is the system's own, and no agent")
    if host.inside(pid):
        raise BadInput(f"process {pid} is in a container; its engine ends it")
    if host.owner(pid) != os.geteuid():
        raise BadInput(f"process {pid} belongs to another user")
    declared = registry.declared.find(name) if name else None
    if parent is None and declared is not None and declared.parent is not None:
        parent = declared.parent if registry.find(declared.parent) is not None else None
    above = parent_of(registry, pid, parent)
    words = program or host.command(pid) or process.name
    made = Agent(
        id=check_name(name) if name else _new_name(Path(words.split(" ")[0]).name),
        parent=above.id if above else None,
        path="",
        role=child_role(above.role if above else None, role, roles),
        pid=pid,
        created=process.created,
        boot=boot(),
        token=secrets.token_hex(TOKEN_BYTES),
        foreign=0 if process.session == pid else process.session,
        starter=None,
        group=None,
        program=safe_line(words)[:200],
        source=source,
        started=time.time(),
    ).placed(above)
    if declared is None:
        return made
    made = replace(made, role=within(declared.role, made.role))
    return made if above else replace(made, parent=declared.parent, path=declared.path)


def parent_of(registry: Registry, pid: int, wanted: str | None) -> Agent | None:
    """Return the parent of an agent that `pid` is, or starts. Raises BadInput.

    Whatever belongs to an agent can only become a child of that agent or of one below it.
    """
    around = registry.of_process(pid)
    if wanted is None:
        return around
    named = registry.find(wanted)
    if named is None:
        raise BadInput(f"there is no agent `{safe_line(wanted)}`; see `lockgate agent list`")
    if around is not None and named != around and not is_below_agent(named, around):
        raise BadInput(f"agent `{around.id}` cannot start a child of `{named.id}`")
    return named


def _new_name(program: str) -> str:
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", program).strip("-.") or "agent"
    return f"{words[:40]}-{secrets.token_hex(2)}"
