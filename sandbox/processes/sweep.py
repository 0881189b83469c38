# SPDX-License-Identifier: Apache-2.0
"""The sweep over agents' processes on this host: freeze, kill, and look again until none is left.

Freezing comes first, so that what is found cannot start anything behind the sweep's back. What
cannot be ended (another user's, in uninterruptible sleep) is reported, never passed over.
"""

from __future__ import annotations

import pwd
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sandbox.processes.passes import Passes
from sandbox.processes.table import Known, Proc, Sent, Table
from sandbox.processes.targets import Target, Tree, targets

FREEZE_SECONDS = 2.0
"""Freezing goes on no longer than this, however fast new processes come; then killing begins."""
KILL_SECONDS = 8.0
"""What has not gone this long after the first SIGKILL is reported."""
SLEEP_SECONDS = 1.0
"""How long a process in uninterruptible sleep is waited for."""
PAUSE_SECONDS = 0.002
LONGEST_PAUSE = 0.05
EACH_SECONDS = 50e-6
"""What a system needs at least to end one process; a pass before that finds it again."""


class Processes(Protocol):
    """What the sweep needs of a host."""

    def table(self) -> Table: ...
    def complete(self, table: Table, pids: Iterable[int]) -> None: ...
    def markers(
        self, table: Mapping[int, Proc], *, since: int, known: dict[Known, str] | None = None
    ) -> dict[int, str]: ...
    def send(self, one: Known, number: signal.Signals) -> Sent: ...
    def owner(self, pid: int) -> int | None: ...


class Group(Protocol):
    """An agent's control group, where it has one."""

    @property
    def agent(self) -> str: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def members(self) -> Collection[int]: ...


@dataclass(slots=True)
class Swept:
    """What a sweep did."""

    killed: dict[Known, Target] = field(default_factory=dict)
    spared: dict[Known, Target] = field(default_factory=dict)
    """Those of them that were found, and were to be spared."""
    left: list[str] = field(default_factory=list)
    """One line for each process that could not be ended, with the reason."""

    def by_agent(self) -> list[str]:
        """Return what was killed, one line for each agent."""
        found: dict[str, list[Target]] = {}
        for target in self.killed.values():
            found.setdefault(target.agent, []).append(target)
        return [f"agent {name}: {_counted(some)}" for name, some in found.items()]


def sweep(
    host: Processes,
    trees: Sequence[Tree],
    groups: Iterable[Group] = (),
    *,
    spared: Collection[Known] = (),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Swept:
    """End every process of these agents but the spared ones; return what was done.

    Returns when a whole pass over the host finds none, or names what is left.
    """
    if not trees:
        return Swept()
    one = _Sweep(host, trees, tuple(groups), spared, clock, sleep)
    try:
        one.freeze()
    finally:
        one.kill()  # whatever failed before: what is frozen does not stay so
    return one.swept


class _Sweep:
    def __init__(
        self,
        host: Processes,
        trees: Sequence[Tree],
        groups: tuple[Group, ...],
        spared: Collection[Known],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._host = host
        self._trees = list(trees)
        self._groups = groups
        self._spared = spared
        self._clock = clock
        self._sleep = sleep
        self._since = min(tree.root.created for tree in trees)
        self._own = {tree.mark for tree in trees}
        self._passes = Passes(self._since)
        self._again = False
        self._marks: dict[Known, str] = {}
        self._forbidden: dict[Known, Target] = {}
        self.swept = Swept()

    def find(self) -> list[Target]:
        """Return what there is to end, by one pass over the host."""
        table = self._host.table()
        grouped = {group.agent: group.members() for group in self._groups}
        for pids in grouped.values():
            self._host.complete(table, pids)

        def look(markers: Mapping[int, str]) -> dict[int, Target]:
            every = targets(table, self._trees, markers=markers, grouped=grouped)
            own = {pid: one for pid, one in every.items() if one.process.known in self._spared}
            self.swept.spared |= {target.process.known: target for target in own.values()}
            return {pid: one for pid, one in every.items() if pid not in own}

        found = look({})
        rest = {pid: one for pid, one in table.items() if pid not in found}
        marks = self._host.markers(rest, since=self._since, known=self._marks)
        if self._own & set(marks.values()):  # what only its mark gives away, and what it started
            found = look(marks)
        self._remember(found)
        left = [
            target
            for target in found.values()
            if not target.process.ended and target.process.known not in self._forbidden
        ]
        self._again = not left and self._passes.again(table, self._marks, found)
        return left

    def _remember(self, found: Mapping[int, Target]) -> None:
        """Keep what was proven once: a child may lose its proof when its parent is killed."""
        own: dict[str, set[Known]] = {}
        for target in found.values():
            own.setdefault(target.agent, set()).add(target.process.known)
        for index, tree in enumerate(self._trees):
            if not own.get(tree.agent, set()) <= tree.seen:
                self._trees[index] = replace(tree, seen=tree.seen | own[tree.agent])

    def freeze(self) -> None:
        """Freeze all, until a pass finds nothing that runs."""
        started = self._clock()
        for group in self._groups:
            group.freeze()
        frozen: set[Known] = set()
        while True:
            fresh = [target for target in self.find() if target.process.known not in frozen]
            for one in fresh:
                self._send(one, signal.SIGSTOP)
                frozen.add(one.process.known)
            if not fresh or self._clock() - started > FREEZE_SECONDS:
                return

    def kill(self) -> None:
        """Kill all, until a pass finds none."""
        started, pause = self._clock(), PAUSE_SECONDS
        while True:
            found = self.find()
            for one in found:
                self._send(one, signal.SIGKILL)
            for group in self._groups:  # a kill reaches some frozen groups only when they thaw
                group.thaw()
            waited = self._clock() - started
            if not (found or self._again) or waited > KILL_SECONDS:
                break
            if (
                found
                and waited > SLEEP_SECONDS
                and all(target.process.state == "D" for target in found)
            ):
                break
            self._sleep(min(max(pause, len(found) * EACH_SECONDS), LONGEST_PAUSE))
            pause = min(2 * pause, LONGEST_PAUSE)
        found = found and self.find()
        self._report(found)

    def _send(self, one: Target, number: signal.Signals) -> None:
        match self._host.send(one.process.known, number):
            case Sent.FORBIDDEN:
                self._forbidden[one.process.known] = one
            case Sent.SENT if number is signal.SIGKILL:
                self.swept.killed[one.process.known] = one
            case _:
                pass

    def _report(self, found: Sequence[Target]) -> None:
        for target in found:
            self.swept.killed.pop(target.process.known, None)
            asleep = target.process.state == "D"
            why = "is in uninterruptible sleep, and goes when that ends" if asleep else "goes on"
            self.swept.left.append(f"{_named(target)} {why}")
        for target in self._forbidden.values():
            owner = self._host.owner(target.process.pid)
            if owner is not None:
                self.swept.left.append(f"{_named(target)} belongs to {_user(owner)}, and goes on")


def _named(target: Target) -> str:
    return f"process {target.process.pid} ({target.process.name}) of agent {target.agent}"


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"


def _counted(some: Sequence[Target]) -> str:
    count = "1 process" if len(some) == 1 else f"{len(some)} processes"
    names = sorted({target.process.name for target in some})
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f"{count} ({shown})"
