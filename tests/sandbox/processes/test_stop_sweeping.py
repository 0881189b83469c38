# SPDX-License-Identifier: Apache-2.0
"""The sweep over processes: freeze, kill, look again. A world of made-up processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping

import pytest

from sandbox.processes.sweep import Swept, sweep
from sandbox.processes.table import Known, Proc, Sent, Table
from sandbox.processes.targets import Tree

MARK = "a:token"
ROOT = Known(200, 1000)
TREE = Tree("a", MARK, ROOT)


class World:
    """Processes that fork, die and refuse as a test wants; time passes by itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: dict[int, Proc] = {}
        self.marks: dict[int, str] = {}
        self.stopped: set[int] = set()
        self.log: list[tuple[str, int]] = []
        self.foreign: set[int] = set()
        self.sleeping: set[int] = set()
        self.quick: set[int] = set()
        """Processes that are listed, and have ended before they are looked at."""
        self.on_pass: list[Callable[[World], None]] = []
        """What happens at each pass, one after the other; the last one goes on."""
        self.add(1, 0, 1, 1)
        self.add(100, 1, 100, 500)
        self.add(200, 100, 200, 1000, MARK)

    def add(self, pid: int, ppid: int, session: int, created: int, mark: str = "") -> None:
        """Start a process."""
        self.processes[pid] = Proc(pid, ppid, session, created, "S", 1, f"p{pid}")
        if mark:
            self.marks[pid] = mark

    def fork(self, parent: int, pid: int) -> None:
        """Let a process fork, if it can."""
        one = self.processes.get(parent)
        if one is not None and parent not in self.stopped:
            self.add(pid, parent, one.session, one.created + 100, self.marks.get(parent, ""))

    def complete(self, table: Table, pids: Iterable[int]) -> None:
        """Add processes that came later."""
        table.update({pid: self.processes[pid] for pid in pids if pid in self.processes})

    def table(self) -> Table:
        """Look; something may happen first."""
        self.now += 0.001
        if self.on_pass:
            happens = self.on_pass.pop(0) if len(self.on_pass) > 1 else self.on_pass[0]
            happens(self)
        table = Table({pid: one for pid, one in self.processes.items() if pid not in self.quick})
        table.missed = frozenset(self.quick)
        return table

    def markers(
        self, table: Mapping[int, Proc], *, since: int, known: dict[Known, str] | None = None
    ) -> dict[int, str]:
        """Return marks."""
        if known is not None:
            known.update({table[pid].known: self.marks.get(pid, "") for pid in table})
        return {p: m for p, m in self.marks.items() if p in table and table[p].created >= since}

    def send(self, one: Known, number: signal.Signals) -> Sent:
        """Deliver a signal."""
        there = self.processes.get(one.pid)
        if there is None or there.known != one:
            return Sent.GONE
        if one.pid in self.foreign:
            return Sent.FORBIDDEN
        self.log.append((number.name, one.pid))
        if number is signal.SIGSTOP:
            self.stopped.add(one.pid)
        elif one.pid in self.sleeping:
            self.processes[one.pid] = there._replace(state="D")
        else:
            del self.processes[one.pid]
        return Sent.SENT

    def owner(self, pid: int) -> int | None:
        """Say whose it is."""
        if pid not in self.processes:
            return None
        return 12_345 if pid in self.foreign else 1000

    def sweep(self, **options: object) -> Swept:
        """Sweep."""

        def sleep(seconds: float) -> None:
            self.now += seconds

        return sweep(self, [TREE], clock=lambda: self.now, sleep=sleep, **options)  # type: ignore[arg-type]

    def kills(self) -> set[int]:
        """Return whom SIGKILL went to."""
        return {pid for name, pid in self.log if name == "SIGKILL"}


def nothing(_: World) -> None:
    """Let nothing happen."""


def test_who_forks_and_ends_all_the_time_is_looked_for_again() -> None:
    """Passes that find none count only where each process that was listed was looked at."""
    world = World()
    del world.processes[200], world.marks[200]
    world.quick = {300}
    world.add(300, 1, 200, 1200, MARK)
    world.on_pass = [nothing, nothing, nothing, lambda world: world.quick.clear()]
    assert world.sweep().killed.keys() == {Known(300, 1200)}
    other = World()  # the control: somebody else's programs come and go for ever
    other.quick = {300}
    assert other.sweep().killed.keys() == {ROOT}


def test_all_are_frozen_before_the_first_is_killed() -> None:
    world = World()
    for pid in range(201, 220):
        world.add(pid, 200, 200, 1100)
    swept = world.sweep()
    names = [name for name, _ in world.log]
    assert names == ["SIGSTOP"] * 20 + ["SIGKILL"] * 20
    assert (set(world.processes), swept.left) == ({1, 100}, [])
    assert len(swept.killed) == 20


def test_a_child_that_appears_during_the_sweep_is_found() -> None:
    world = World()
    world.on_pass = [lambda w: w.fork(200, 300), lambda w: w.add(301, 1, 301, 1200, MARK), nothing]
    assert world.sweep().left == []
    assert world.processes.keys() == {1, 100}
    assert world.kills() == {200, 300, 301}


def test_a_child_that_appears_while_the_others_are_killed_is_found() -> None:
    world = World()
    late = [nothing] * 3 + [lambda w: w.add(300, 1, 300, 1200, MARK), nothing]
    world.on_pass = late
    assert world.sweep().left == []
    assert 300 in world.kills()


def test_a_process_that_hops_is_caught() -> None:
    world = World()
    hop = iter(range(400, 500))

    def hops(one: World) -> None:
        for pid in [p for p in one.marks if p in one.processes and p not in one.stopped]:
            one.fork(pid, next(hop))
            del one.processes[pid]

    world.on_pass = [hops, hops, nothing]
    assert world.sweep().left == []
    assert world.processes.keys() == {1, 100}


def test_endless_forks_do_not_keep_the_kill_from_coming() -> None:
    world = World()
    number = iter(range(1000, 1_000_000))

    def forks(one: World) -> None:
        if one.now < 3:
            one.now += 0.5
            one.add(next(number), 1, 7, 1200, MARK)

    world.on_pass = [forks]
    assert world.sweep().left == []
    assert world.processes.keys() == {1, 100}


def test_another_users_process_is_reported_and_not_waited_for() -> None:
    world = World()
    world.add(300, 200, 200, 1100)
    world.foreign = {300}
    swept = world.sweep()
    assert swept.left == ["process 300 (p300) of agent a belongs to uid 12345, and goes on"]
    assert (set(world.processes), world.now < 0.1) == ({1, 100, 300}, True)


def test_uninterruptible_sleep_is_reported_after_a_while() -> None:
    world = World()
    world.add(300, 200, 200, 1100)
    world.sleeping = {300}
    swept = world.sweep()
    assert swept.left == [
        "process 300 (p300) of agent a is in uninterruptible sleep, and goes when that ends"
    ]
    assert Known(300, 1100) not in swept.killed
    assert 1 < world.now < 2


def test_a_number_that_is_taken_anew_between_look_and_signal_gets_no_signal() -> None:
    world = World()

    def taken(one: World) -> None:
        table = one.table

        def look() -> Table:
            found = table()
            one.processes[200] = Proc(200, 100, 100, 5000, "S", 1, "somebody's")
            one.marks.pop(200, None)
            return found

        one.table = look  # type: ignore[method-assign]

    taken(world)
    swept = world.sweep()
    assert world.log == []
    assert swept.killed == {}
    assert world.processes[200].created == 5000


def test_what_is_spared_gets_no_signal() -> None:
    world = World()
    world.add(300, 200, 200, 1100)
    swept = world.sweep(spared={ROOT, Known(100, 500)})
    assert (swept.left, set(swept.spared)) == ([], {ROOT})  # the other is no part of the agent
    assert world.log == [("SIGSTOP", 300), ("SIGKILL", 300)]


def test_without_agents_nothing_is_even_looked_at() -> None:
    world = World()
    assert sweep(world, []) == Swept()
    assert (world.now, world.log) == (0.0, [])


def test_a_failure_while_freezing_still_kills() -> None:
    world = World()
    send = world.send

    def fails(one: Known, number: signal.Signals) -> Sent:
        if number is signal.SIGSTOP:
            raise OSError("a test")
        return send(one, number)

    world.send = fails  # type: ignore[method-assign]
    with pytest.raises(OSError, match="a test"):
        world.sweep()
    assert world.processes.keys() == {1, 100}
