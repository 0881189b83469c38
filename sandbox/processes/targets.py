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

from sandbox.processes.table import Known, Proc

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
    apart: Known | None = None
    """The supervisor, which an agent's call may have started: no part, with all that it started."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process that is an agent's, and by what proof."""

    process: Proc
    agent: str
    why: str


class Index:
    """A table of processes, looked up by parent, session and mark; made once for all agents."""

    def __init__(self, table: Mapping[int, Proc], markers: Mapping[int, str]) -> None:
        self.table = table
        self.children: dict[int, list[Proc]] = {}
        self.sessions: dict[int, list[Proc]] = {}
        self.marked: dict[str, list[Proc]] = {}
        for pid, one in table.items():
            if pid > KERNEL and one.ppid != KERNEL:
                self.children.setdefault(one.ppid, []).append(one)
                self.sessions.setdefault(one.session, []).append(one)
        for pid, mark in markers.items():
            if pid in table:
                self.marked.setdefault(mark, []).append(table[pid])

    def below(self, top: Known) -> frozenset[int]:
        """Return the numbers of a process and of all that descend from it now."""
        first = self.table.get(top.pid)
        fresh = [first] if first is not None and first.known == top else []
        found: set[int] = set()
        while fresh:
            proc = fresh.pop()
            if proc.pid not in found:
                found.add(proc.pid)
                fresh += [
                    child
                    for child in self.children.get(proc.pid, ())
                    if child.created >= proc.created
                ]
        return frozenset(found)


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
    return _Membership(Index(table, markers), tree, grouped).found


def targets(
    table: Mapping[int, Proc],
    trees: Iterable[Tree],
    *,
    markers: Mapping[int, str],
    grouped: Mapping[str, Collection[int]],
) -> dict[int, Target]:
    """Return the processes of several agents."""
    index = Index(table, markers)
    found: dict[int, Target] = {}
    for tree in trees:
        own = _Membership(index, tree, grouped.get(tree.agent, ())).found
        for pid, target in own.items():
            found.setdefault(pid, target)
    return found


class _Membership:
    """One agent's processes: what is proven by itself first, then what follows from that."""

    def __init__(self, index: Index, tree: Tree, grouped: Collection[int]) -> None:
        self.found: dict[int, Target] = {}
        self._index = index
        self._tree = tree
        self._fresh: list[Proc] = []
        self._joined = {0, tree.foreign}
        """Sessions that are settled; these two are never the agent's."""
        self._apart = index.below(tree.apart) if tree.apart is not None else frozenset()
        table = index.table
        root = table.get(tree.root.pid)
        self._add([root] if root and root.known == tree.root else [], "registered")
        self._add(index.marked.get(tree.mark, ()), "marked")
        self._add([table[pid] for pid in grouped if pid in table], "in its control group")
        seen = [one for pid, created in tree.seen if (one := table.get(pid)) is not None
                and one.created == created]  # fmt: skip
        self._add(seen, "seen as a descendant")
        starter = table.get(tree.starter.pid) if tree.starter is not None else None
        if starter is not None and starter.known == tree.starter:
            self._add(index.children.get(starter.pid, ()), "adopted")
        while self._fresh:
            self._follow(self._fresh.pop())

    def _add(self, some: Iterable[Proc], why: str) -> None:
        for one in some:
            if (
                one.pid > KERNEL
                and one.ppid != KERNEL
                and one.created >= self._tree.root.created
                and one.known != self._tree.starter
                and one.pid not in self.found
                and one.pid not in self._apart
            ):
                self.found[one.pid] = Target(one, self._tree.agent, why)
                self._fresh.append(one)

    def _follow(self, proc: Proc) -> None:
        """Add the children of a process, and what is in the session that is the agent's.

        A session is joined by being born in it only, so all of one whose leader is the agent's is
        the agent's. Where the leader has ended, its number is taken by nobody while the session
        lives.
        """
        children = self._index.children.get(proc.pid, ())
        self._add([child for child in children if child.created >= proc.created], "a descendant")
        session = proc.session
        if session in self._joined:
            return
        if session in self.found or session not in self._index.table:
            self._joined.add(session)
            self._add(self._index.sessions.get(session, ()), "in its session")
