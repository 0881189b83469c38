# SPDX-License-Identifier: Apache-2.0
"""Which processes are an agent's: pure, over a table of processes.

A process is an agent's by proof alone: it is registered, was seen before as a descendant, carries
the agent's mark, is in the agent's control group, is a child of one that is, or is in a session
that one of them made. INVARIANT (P10, "never another's"): nothing else is ever a target, and
nothing is that is older than the agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sandbox.sweeping_table import Known, Proc

KERNEL = 2
"""The kernel's own processes are children of this one; it and process 1 are never anybody's."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of one agent's processes."""

    agent: str
    mark: str
    """`ID:TOKEN`, as it stands in the environment of its processes."""
    root: Known
    """The agent's own process. Nothing of an agent is older than it."""
    seen: frozenset[Known] = field(default_factory=frozenset)
    """Descendants that were seen before."""
    starter: Known | None = None
    """The process of `lockgate agent run` that waits for it and adopts its orphans; not a part."""
    foreign: int = 0
    """The session that the agent was started in, where that is somebody else's; 0: none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process that is an agent's, and by what proof."""

    process: Proc
    agent: str
    why: str


def members(
    table: Mapping[int, Proc],
    tree: Tree,
    *,
    markers: Mapping[int, str],
    grouped: Collection[int] = (),
) -> dict[int, Target]:
    """Return the processes of one agent by number.

    `markers`: the mark of each process that shows one; `grouped`: the processes in the agent's
    control group. Whoever calls keeps itself out.
    """
    found: dict[int, Target] = {}
    possible = {
        pid: one
        for pid, one in table.items()
        if pid > KERNEL and one.ppid != KERNEL and one.created >= tree.root.created
    }

    def add(one: Proc, why: str) -> None:
        if tree.starter != one.known:
            found.setdefault(one.pid, Target(one, tree.agent, why))

    for pid, one in possible.items():
        if one.known == tree.root:
            add(one, "registered")
        elif markers.get(pid) == tree.mark:
            add(one, "marked")
        elif pid in grouped:
            add(one, "in its control group")
        elif one.known in tree.seen:
            add(one, "seen as a descendant")
        elif tree.starter is not None and _is_child(one, table.get(tree.starter.pid), tree.starter):
            add(one, "adopted")
    count = -1
    while count != len(found):
        count = len(found)
        sessions = _sessions(found, table, tree)
        for pid, one in possible.items():
            if pid in found:
                continue
            parent = found.get(one.ppid)
            if parent is not None and parent.process.created <= one.created:
                add(one, "a descendant")
            elif one.session in sessions:
                add(one, "in its session")
    return found


def targets(
    table: Mapping[int, Proc],
    trees: Iterable[Tree],
    *,
    markers: Mapping[int, str],
    grouped: Mapping[str, Collection[int]],
    spared: Collection[Known] = (),
) -> dict[int, Target]:
    """Return the processes of several agents, without those that are spared."""
    found: dict[int, Target] = {}
    for tree in trees:
        own = members(table, tree, markers=markers, grouped=grouped.get(tree.agent, ()))
        for pid, target in own.items():
            if target.process.known not in spared:
                found.setdefault(pid, target)
    return found


def _is_child(one: Proc, parent: Proc | None, wanted: Known) -> bool:
    return parent is not None and parent.known == wanted and one.ppid == wanted.pid


def _sessions(found: Mapping[int, Target], table: Mapping[int, Proc], tree: Tree) -> set[int]:
    """Return the sessions that the agent's processes made themselves.

    A session is joined by being born in it only, so all of one whose leader is the agent's is the
    agent's. Where the leader has ended, its number is taken by nobody while the session lives.
    """
    own = set()
    for target in found.values():
        session = target.process.session
        if session in (0, tree.foreign):
            continue
        leader = table.get(session)
        if leader is None or leader.pid in found:
            own.add(session)
    return own
