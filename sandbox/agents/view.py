# SPDX-License-Identifier: Apache-2.0
"""What runs now, as a tree: agents, their children, their processes, cells and calls.

Reads only. Processor use is the average since a process started, as `ps` gives it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import psutil

from sandbox.agents.declared import DEFAULT
from sandbox.agents.registry import Agent, Registry
from sandbox.containers.ledger import ContainerNotes
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN, Latch, LatchInfo, above, below
from sandbox.processes.table import Host
from sandbox.text.durations import say_duration

Node = dict[str, Any]
"""kind, name, pid, state, cpu (percent), memory (bytes), age (seconds), command, children; of an
agent also `path`, its whole name."""
MOST_SHOWN = 200
"""Processes of one agent that are listed one by one."""


def state(dirs: Dirs, agent: Agent, members: Collection[int]) -> str:
    """Return how an agent is, in a word: running, paused, stopped, left (its own process ended)."""
    held = _held(Latch(dirs), agent.path)
    if held:
        return held
    if agent.pid in members:
        return "running"
    return "left" if members else "ended"


def _held(latch: Latch, path: str) -> str:
    """Return `stopped` or `paused` for an agent (its whole name) that a latch holds, or nothing."""
    infos = [
        latch_info
        for latch_info in (latch.read(), *map(latch.read, above(path)))
        if latch_info is not None
    ]
    if not infos:
        return ""
    return "paused" if all(info.paused for info in infos) else "stopped"


def ended(
    dirs: Dirs,
    stopped: Iterable[LatchInfo],
    running: Sequence[Mapping[str, Any]] = (),
    cells: Sequence[Mapping[str, Any]] = (),
) -> list[LatchInfo]:
    """Return those of the stops that hold agents of which nothing runs and that nobody declared.

    Most were named by chance and never come again; their stops hold all the same until a person
    clears them. A pause ends by itself.
    """
    registry = Registry(dirs)
    registry.drop_ended()
    names = {DEFAULT, *(agent.path for agent in registry.all())}
    names |= {agent.path for agent in registry.declared.all()}
    names |= {_whose(cell) for cell in (*cells, *running)}
    return [
        latch_info
        for latch_info in stopped
        if latch_info.agent
        and not latch_info.paused
        and not any(below(latch_info.agent, name) for name in names)
    ]


def tree(
    dirs: Dirs,
    running: Sequence[Mapping[str, Any]],
    cells: Sequence[Mapping[str, Any]],
    follow_ups: Sequence[Mapping[str, Any]] = (),
) -> list[Node]:
    """Return the tree's roots. The rest is what the supervisor says, if it runs: calls, cells, and
    what is being done to calls that have ended."""
    registry, latch = Registry(dirs), Latch(dirs)
    registry.drop_ended()
    agents = registry.all()
    nodes = {agent.path: _agent(dirs, registry, agent) for agent in agents}
    for path in dict.fromkeys(_whose(cell) for cell in (*cells, *running, *follow_ups)):
        node = _node("agent", path, state=_held(latch, path) or "running")
        nodes.setdefault(path, {**node, "path": path})
    inside = _by_cell(registry.host, dirs) if cells else {}
    for cell in cells:
        node = nodes[_whose(cell)]
        node["children"].append(_cell(cell, running, inside.get(str(cell["name"]), ())))
    for one in running:
        node = nodes[_whose(one)]
        if not any(_has(child, _id(one)) for child in node["children"]):
            node["children"].append(_call(one))
    for work in follow_ups:
        node = _node(str(work["kind"]), f"of {work['call']}", state=str(work["state"]))
        node["age"] = time.time() - float(work["started"])
        nodes[_whose(work)]["children"].append(node)
    roots: list[Node] = []
    for path, node in nodes.items():
        above = path.rpartition(BETWEEN)[0]
        (nodes[above]["children"] if above in nodes else roots).append(node)
    return roots


def lines(nodes: Iterable[Node], indent: int = 0) -> list[tuple[str, ...]]:
    """Return the rows of a table: what, pid, state, cpu, memory, age, command."""
    rows: list[tuple[str, ...]] = []
    for node in nodes:
        rows.append(
            (
                "  " * indent + f"{node['kind']} {node['name']}".strip(),
                str(node["pid"] or ""),
                str(node["state"]),
                "" if node["cpu"] is None else f"{node['cpu']:.0f}%",
                "" if node["memory"] is None else _bytes(node["memory"]),
                "" if node["age"] is None else say_duration(node["age"]),
                str(node["command"])[:80],
            )
        )
        rows += lines(node["children"], indent + 1)
    return rows


def _agent(dirs: Dirs, registry: Registry, agent: Agent) -> Node:
    members = registry.members(agent)
    node = _node("agent", agent.id, pid=agent.pid, state=state(dirs, agent, members))
    node |= {
        "path": agent.path,
        "role": agent.role,
        "command": agent.program,
        "age": time.time() - agent.started,
    }
    processes = _processes(registry.host, sorted(members)[:MOST_SHOWN])
    _add_up(node, processes)
    by_pid = {process["pid"]: process for process in processes}
    for process in processes:
        parent = members[process["pid"]].process.ppid
        by_pid.get(parent, node)["children"].append(process)
    return node


def _cell(
    cell: Mapping[str, Any], running: Sequence[Mapping[str, Any]], pids: Collection[int]
) -> Node:
    node = _node("cell", str(cell["name"]), state="busy" if cell.get("busy") else "idle")
    if "started" in cell:
        node["age"] = time.time() - float(cell["started"])
    _add_up(node, _processes(Host(), sorted(pids)))
    for one in running:
        places = cell.get("workspaces") or ()
        same = _whose(one) == _whose(cell) and one.get("workspace") in places
        if same and not one.get("background"):
            node["children"].append(_call(one))
    return node


def _call(call: Mapping[str, Any]) -> Node:
    state = str(call.get("state", "runs"))
    if call.get("background") and state == "runs":
        state = "background"
    if call.get("lands_in") is not None:
        state = f"lands in {say_duration(call['lands_in'])}"
    node = _node("call", _id(call), state=state)
    node["command"] = str(call.get("command", ""))
    if "started" in call:
        node["age"] = time.time() - float(call["started"])
    for port in call.get("ports") or ():
        name = f"{port['host']}:{port['host_port']} -> {port['port']}"
        node["children"].append(_node("port", name, state="open"))
    return node


def _node(kind: str, name: str, *, state: str, pid: int | None = None) -> Node:
    return {
        "kind": kind,
        "name": name,
        "pid": pid,
        "state": state,
        "cpu": None,
        "memory": None,
        "age": None,
        "command": "",
        "children": [],
    }


def _processes(host: Host, pids: Iterable[int]) -> list[Node]:
    found = []
    for pid in pids:
        try:
            one = psutil.Process(pid)
            with one.oneshot():
                times, age = one.cpu_times(), max(time.time() - one.create_time(), 0.01)
                node = _node("process", one.name(), pid=pid, state=one.status())
                node["cpu"] = 100 * (times.user + times.system) / age
                node["memory"] = one.memory_info().rss
                node["age"] = age
                node["command"] = host.command(pid)
        except psutil.Error:
            continue
        found.append(node)
    return found


def _add_up(node: Node, processes: Sequence[Node]) -> None:
    if processes:
        node["cpu"] = sum(process["cpu"] for process in processes)
        node["memory"] = sum(process["memory"] for process in processes)


def _by_cell(host: Host, dirs: Dirs) -> dict[str, list[int]]:
    """Return the processes of each cell on this host, its keeper's left out."""
    noted = ContainerNotes(dirs).all()
    found: dict[str, list[int]] = {}
    for pid, identity in host.containers(host.table()).items():
        note = noted.get(identity)
        if note is not None and note.role == "cell":
            found.setdefault(note.name, []).append(pid)
    return found


def _whose(one: Mapping[str, Any]) -> str:
    return str(one.get("agent") or DEFAULT)


def _id(call: Mapping[str, Any]) -> str:
    return str(call.get("id") or call.get("call") or "")


def _has(node: Node, call: str) -> bool:
    return node["name"] == call or any(_has(child, call) for child in node["children"])


def _bytes(count: float) -> str:
    for unit in ("B", "K", "M", "G"):
        if count < 1024 or unit == "G":
            return f"{count:.0f}{unit}"
        count /= 1024
    raise AssertionError
