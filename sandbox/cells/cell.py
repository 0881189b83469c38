# SPDX-License-Identifier: Apache-2.0
"""A cell with its keeper, as the supervisor holds them: start, run, fail closed, end.

Runner and keeper are one unit: when either is lost, both containers are killed, every waiting call
fails, and nothing of it lands. INVARIANT (P2, "fail closed").
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sandbox.cell import protocol
from sandbox.cells.clock import CallClock
from sandbox.cells.direct_socket import Door
from sandbox.cells.link import Link
from sandbox.cells.request import with_programs
from sandbox.cells.rwlock import ReadWriteLock
from sandbox.cells.work import Work, current, say_first, waiting
from sandbox.containers.engine import Engine
from sandbox.containers.plan import HOME, ContainerPlan
from sandbox.errors import NotEnforced, SandboxError, Unavailable
from sandbox.projects.toolchains import Shown

START_SECONDS = 180.0
END_SECONDS = 10.0
"""A runner that has not ended a call this long after it was told to is taken for lost."""
CHANGES = ("setup", "land", "land_held", "undo", "hold")
"""Requests of a keeper that change files, or bring to its end what another one began."""
STDIN_WINDOW = 1 << 20

OnOutput = Callable[[int, bytes], None]
Room = Callable[[], Awaitable[None] | None]
"""Returns what is to be awaited before more output is read; None: nothing."""
T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """Run blocking work in a thread. Cancelled, wait for it first: what it made must be known."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class CellLost(SandboxError):
    """The cell ended under a call: nothing of that call landed."""


class KeeperRefused(SandboxError):
    """The keeper answered a request with an error, and did nothing of it."""

    def __init__(self, op: str, reason: str, *, failed: bool) -> None:
        """`failed`: the system refused it something; else what was asked for cannot be done."""
        super().__init__(f"the keeper could not {op}: {reason}")
        self.reason = reason
        self.failed = failed


MakeRoom = Callable[[], Awaitable[bool]]
"""Ends a cell that nobody needs; False where there is none."""


class Unwatchable(SandboxError):
    """The kernel watches as much for this user as it may, so no call that writes can be begun."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended."""

    status: int
    signal: int | None
    oom: bool
    error: str | None
    ended: str | None
    """Why Lockgate ended it: `timed-out`, `flooded`, `protected` (a protected path appeared),
    `unwatched` (nobody saw any more whether one does), `traffic` (more than it may went over its
    network), `cancelled`; None if it ended by itself."""
    input_read: int | None = None
    """How many bytes of its input it read; None: it was given none, or all to its end."""
    vouched: bool = False
    """Whether the program that it was asked about is the image's, in a home nobody wrote in."""


@dataclass(frozen=True, slots=True)
class CellSpec:
    """What a cell is made of. Plans need what exists only later (the cell's id, its views)."""

    name: str
    agent: str
    workspaces: tuple[str, ...]
    cell: Callable[..., ContainerPlan]
    keeper: Callable[..., ContainerPlan]
    setup: dict[str, Any]
    door: Path | None = None
    """A folder for direct connections; None where the engine is not on this kernel."""
    home: dict[str, str] = field(default_factory=dict)
    """Files of the cell's own home: name -> text."""
    labels: dict[str, str] = field(default_factory=dict)
    network: str = "none"
    look_seconds: float = 300.0
    land_seconds: float = 900.0
    """How long its keeper may take over a request; over one of CHANGES."""
    toolchains: tuple[Shown, ...] = ()
    """Folders of the host that a person has agreed to show in it."""
    programs: tuple[str, ...] = ()
    """Folders of programs among them that stand first in PATH."""


async def _no_room() -> bool:
    return False


def _limit_of(op: str) -> str:
    """Return the setting that says how long a keeper may take over a request."""
    return "land_seconds" if op in CHANGES else "look_seconds"


async def with_room(work: Callable[[], Awaitable[T]], make_room: MakeRoom) -> T:
    """Do something that the kernel must watch; where it watches as much as it may, make room.

    Raises Unwatchable where there is none to be made.
    """
    while True:
        try:
            return await work()
        except Unwatchable:
            if not await make_room():
                raise


class _Running:
    """A command between start and exit."""

    def __init__(self, on_output: OnOutput, most_bytes: int, room: Room | None) -> None:
        self.done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.on_output = on_output
        self.most_bytes = most_bytes
        self.room = room
        self.seen = [0, 0, 0]
        self.ended: str | None = None
        self.stdin_taken = 0
        self.stdin_moved = asyncio.Event()


@dataclass(slots=True)
class _Asked:
    """A request of which the keeper has not answered."""

    op: str
    seconds: float
    """How long it may take, once those before it are answered."""
    work: Work | None
    answer: asyncio.Future[dict[str, Any]]


class Cell:
    """A running pair of containers."""

    def __init__(self, engine: Engine, spec: CellSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.lock = ReadWriteLock()
        self.readers = 0
        self.reading: str | None = None
        self.opening = asyncio.Lock()
        self.started = time.time()
        self.used = time.monotonic()
        self.busy = 0
        self.inside: list[Work] = []
        """What is in it that holds its lock."""
        self.held = 0
        """Transactions of this state folder that waited for a person when the keeper last said."""
        self.identity = ""
        self.hidden: list[list[str]] = []
        self._roots: list[tuple[int, int]] = []
        self._engine = engine
        self._keeper_identity = ""
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._asked: dict[int, _Asked] = {}
        """What the keeper has not answered, in the order in which it does."""
        self._parts: dict[int, list[dict[str, Any]]] = {}
        """What came ahead of an answer, by the number of its request."""
        self._hello: dict[str, asyncio.Event] = {}
        self._failed: str | None = None
        self._writing: str | None = None
        """The writing transaction that is open, by name."""
        self._alarmed: str | None = None
        """Why its commands are ended at once; None while nothing speaks against them."""
        self.once = False
        """Whether it is for one call alone: what ends that call may come before its command."""
        self._over = False
        self.make_room: MakeRoom = _no_room
        """Ends a cell that nobody needs, so that the kernel has room to watch; False for none."""
        self._runner = Link(self._on_runner, lambda why: self._fail(f"the runner ended: {why}"))
        self._keeper = Link(self._on_keeper, lambda why: self._fail(f"the keeper ended: {why}"))
        self._removal: asyncio.Task[None] | None = None
        self._door = Door(spec.door) if spec.door else None
        self._handing = asyncio.Lock()
        """Held while a socket is handed over: they come through one door."""
        self._spare_end = -1
        self._paused: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether calls can run in it."""
        return self._failed is None

    @property
    def idle(self) -> bool:
        """Whether nobody uses it."""
        return not (self.busy or self._asked or self._running)

    async def start(self) -> None:
        """Create, compare and start both containers. Raises SandboxError; then nothing is left."""
        try:
            self.identity = await self._launch(self.spec.cell(), self._runner, "runner")
            plan = self.spec.keeper(self.identity)
            self._keeper_identity = await self._launch(plan, self._keeper, "keeper")
            if self._door is not None:
                await self._go_direct(self._door)
            answer = await self.ask(self.spec.setup, op="setup")
            self.hidden = answer["hidden"]
            self._check_sources(answer)
            self.furnish({})
        except BaseException as error:
            await self.end(f"it did not start: {error}")
            raise

    def furnish(self, files: dict[str, str]) -> None:
        """Put further files into the home of commands that come after this, or other texts."""
        self.spec.home.update(files)
        self._runner.send({"op": "home", "files": self.spec.home, "folders": [HOME]})

    async def end(self, reason: str = "it was ended") -> None:
        """Kill both containers and wait until they are gone."""
        self._fail(reason)
        if self._removal is not None:
            await asyncio.shield(self._removal)

    # -- keeper

    async def ask(self, request: dict[str, Any] | None = None, *, op: str) -> dict[str, Any]:
        """Send the keeper a request and return its answer. Raises SandboxError.

        It answers one after the other: the time of this one begins when those before are answered.
        """
        before = tuple(self._asked.values())
        asked = self._send(request or {}, op)
        try:
            if before:
                await self._come_after(before)
            answer = await self._in_time(asked, asked.answer)
        except BaseException:
            asked.answer.cancel()  # nobody takes it
            raise
        self.held = answer.get("held", self.held)
        self.used = time.monotonic()
        if "lacks" in answer:
            raise Unwatchable(f"{answer['error']}; no cell is idle that could be ended for it")
        if "error" in answer:
            raise KeeperRefused(op, str(answer["error"]), failed="errno" in answer)
        return answer

    def tell(self, request: dict[str, Any], *, op: str) -> None:
        """Send the keeper a request whose answer nobody waits for; if it fails, the cell ends."""

        def look(future: asyncio.Future[dict[str, Any]]) -> None:
            if not future.cancelled() and future.exception() is None and "error" in future.result():
                self._fail(f"the keeper could not {op}: {future.result()['error']}")

        self._send(request, op).answer.add_done_callback(look)

    async def _come_after(self, before: Sequence[_Asked]) -> None:
        """Wait until what was asked before is answered."""
        with waiting(lambda: say_first(asked.work for asked in before if not asked.answer.done())):
            for asked in before:
                await self._in_time(asked, asyncio.wait([asked.answer]))

    async def _in_time(self, asked: _Asked, answered: Awaitable[T]) -> T:
        """Wait for an answer no longer than it may take; else the keeper is lost."""
        try:
            async with asyncio.timeout(asked.seconds):
                return await answered
        except TimeoutError:
            kind = _limit_of(asked.op)
            self._fail(
                f"its keeper did not {asked.op} within {asked.seconds:g} s (`keeper.{kind}`)"
            )
            self._check()
            raise

    def _send(self, request: dict[str, Any], op: str) -> _Asked:
        self._check()
        if op == "open" and request["access"] == "write":
            self._writing, self._alarmed = request["tx"], None
        elif op in ("close", "drop") and request["tx"] == self._writing:
            self._writing = self._alarmed = None
        number = next(self._numbers)
        seconds: float = getattr(self.spec, _limit_of(op))
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asked = self._asked[number] = _Asked(op, seconds, current(), answer)
        self._keeper.send({**request, "op": op, "n": number})
        return asked

    # -- runner

    async def run(
        self,
        request: dict[str, Any],
        *,
        on_output: OnOutput,
        seconds: float | CallClock,
        most_bytes: int,
        stdin: AsyncIterator[bytes] | None = None,
        room: Room | None = None,
    ) -> Exit:
        """Run one command or file tool to its end. Cancelling ends its processes first.

        `seconds`: how long it may take, or a clock that says so. `room` is asked after each piece
        of output.
        """
        self._check()
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        running = self._running[number] = _Running(on_output, most_bytes, room)
        wanted = with_programs(request, self.spec.programs)
        self._runner.send({**wanted, "op": "run", "call": number, "stdin": stdin is not None})
        if self._alarmed is not None or self._over:
            self._end_call(number, self._alarmed or "cancelled")
        clock = seconds if isinstance(seconds, CallClock) else CallClock(seconds)
        clock.start(lambda: self._end_call(number, "timed-out"))
        feeder = loop.create_task(self._feed(number, running, stdin)) if stdin else None
        try:
            answer = await asyncio.shield(running.done)
        except asyncio.CancelledError:
            self._end_call(number, "cancelled")
            await asyncio.wait([running.done])
            raise
        finally:
            clock.stop()
            if feeder is not None:
                feeder.cancel()
            self._running.pop(number, None)
        return Exit(
            status=int(answer["status"]),
            signal=answer.get("signal"),
            oom=bool(answer.get("oom")),
            error=answer.get("error"),
            ended=running.ended,
            input_read=answer.get("read"),
            vouched=bool(answer.get("vouched")),
        )

    def end_running(self, why: str = "cancelled") -> None:
        """End every command that runs in the cell; their calls go on to be judged."""
        self._over = self.once
        for number in list(self._running):
            self._end_call(number, why)

    def _end_call(self, number: int, why: str) -> None:
        running = self._running.get(number)
        if running is None or running.ended is not None:
            return
        running.ended = why
        self._runner.send({"op": "kill", "call": number})
        asyncio.get_running_loop().call_later(END_SECONDS, self._expect_end, number)

    def _expect_end(self, number: int) -> None:
        if number in self._running:
            self._fail("the runner did not end a call in time")

    async def _feed(self, number: int, running: _Running, stdin: AsyncIterator[bytes]) -> None:
        sent = 0
        async for data in stdin:
            for start in range(0, len(data), 65_536):
                part = data[start : start + 65_536]
                self._runner.send_data(number, protocol.STDIN, part)
                sent += len(part)
                while sent - running.stdin_taken > STDIN_WINDOW:
                    running.stdin_moved.clear()
                    await running.stdin_moved.wait()
        self._runner.send_data(number, protocol.STDIN, b"")

    # -- frames

    def _on_runner(self, kind: int, frame: Any) -> None:
        if kind == protocol.DATA:
            number, channel, data = frame
            running = self._running.get(number)
            if running is None:
                return
            running.seen[channel] += len(data)
            if running.seen[channel] > running.most_bytes:
                self._end_call(number, "flooded")
            elif running.ended not in ("flooded", "cancelled"):
                running.on_output(channel, data)
                if self._paused is None and running.room is not None:
                    self._pause(running.room())
        elif frame["op"] == "hello":
            self._spare_end = int(frame["spare"])
            self._hello["runner"].set()
        elif frame["op"] == "taken":
            if (running := self._running.get(frame["call"])) is not None:
                running.stdin_taken += frame["bytes"]
                running.stdin_moved.set()
        elif frame["op"] == "exit":
            running = self._running.get(frame["call"])
            if running is not None and not running.done.done():
                running.done.set_result(frame)

    def _pause(self, until: Awaitable[None] | None) -> None:
        """Read nothing more from the cell until there is room for it."""
        if until is None:
            return

        async def resume() -> None:
            try:
                await until
            finally:
                self._paused = None
                self._runner.read(go_on=True)

        self._runner.read(go_on=False)
        self._paused = asyncio.get_running_loop().create_task(resume())

    def _on_keeper(self, _kind: int, frame: Any) -> None:
        if frame["op"] == "hello":
            self._hello["keeper"].set()
            return
        if frame["op"] == "alarm":
            self._on_alarm(frame)
            return
        if frame["op"] == "part":
            self._parts.setdefault(frame["n"], []).append(frame)
            return
        for part in self._parts.pop(frame["n"], ()):
            frame[part["key"]][part["at"]] += part["items"]
        asked = self._asked.pop(frame["n"], None)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(frame)

    def _on_alarm(self, frame: dict[str, Any]) -> None:
        """End what runs in a transaction where a protected path appeared, or that nobody watches.

        What the observer saw comes again, whole, with the answer to `close`.
        """
        if frame["tx"] != self._writing:
            return  # it came too late for the call that it is about
        self._alarmed = "unwatched" if "lost" in frame else "protected"
        for number in list(self._running):
            self._end_call(number, self._alarmed)

    # -- life

    async def _launch(self, plan: ContainerPlan, link: Link, role: str) -> str:
        self._check()
        self._hello[role] = asyncio.Event()
        identity = await to_its_end(lambda: self._create(plan, role))
        await link.connect(await asyncio.to_thread(self._engine.attach, identity))
        await asyncio.to_thread(self._engine.start, identity)
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._hello[role].wait()
        except TimeoutError:
            raise Unavailable(f"the {role} did not start: {link.tail or 'no word'}") from None
        self._check()
        return identity

    def _create(self, plan: ContainerPlan, role: str) -> str:
        identity = self._engine.create(plan)
        if role == "runner":
            self.identity = identity
        else:
            self._keeper_identity = identity
        return identity

    async def _go_direct(self, door: Door) -> None:
        """Talk to both programs over connections of our own from now on."""
        taken = asyncio.get_running_loop().run_in_executor(None, door.take)
        await self._ask_handing(door, taken, {"fd": self._spare_end}, op="direct")
        keeper, runner = await taken
        self._runner.send({"op": "direct"})
        await self._keeper.go_direct(keeper)
        await self._runner.go_direct(runner)

    async def listen(self, wanted: Sequence[tuple[str, str, int]]) -> list[socket.socket]:
        """Return sockets that listen on the cell's loopback: (kind, address, port) each.

        Raises SandboxError, also where something in the cell holds one of the ports.
        """
        if self._door is None:
            raise NotEnforced(
                "this engine does not run on this kernel, so that a cell cannot be given a network"
            )
        request = {"listeners": [list(one) for one in wanted]}
        async with self._handing:
            return await self._handed(self._door, len(wanted), request, op="listen")

    async def check_port(self, port: int) -> None:
        """Raise KeeperRefused where no process of this cell listens on a port, NotEnforced where
        none can be dialled."""
        if self._door is None:
            raise NotEnforced(
                "this cell's engine or runtime keeps its network apart, so that no port of it can "
                "be reached"
            )
        await self.ask({"port": port}, op="check_port")

    async def dial(self, port: int) -> socket.socket:
        """Return a socket that connects, or has connected, to a port that `check_port` lets
        through. Raises SandboxError.

        Not to be cancelled: what is handed over then would be lost.
        """
        assert self._door is not None
        async with self._handing:
            await self.ask({"port": port}, op="dial")
            (dialled,) = await self._handed(self._door, 1, {}, op="hand")
        return dialled

    async def _handed(
        self, door: Door, count: int, request: dict[str, Any], *, op: str
    ) -> list[socket.socket]:
        """Return so many sockets that the keeper hands over when it is asked to."""
        taking = asyncio.get_running_loop().run_in_executor(None, door.take_sockets, count)
        await self._ask_handing(door, taking, request, op=op)
        return await taking

    async def _ask_handing(
        self, door: Door, taking: asyncio.Future[Any], request: dict[str, Any], *, op: str
    ) -> None:
        """Ask the keeper to hand over what is being taken at the door."""
        try:
            await self.ask(request, op=op)
        except BaseException:
            door.close()  # nobody hands anything over any more
            await asyncio.gather(taking, return_exceptions=True)
            raise

    def _check_sources(self, answer: dict[str, Any]) -> None:
        """Compare what the keeper sees at each workspace with what stands at its path here.

        The engine follows links in the source of a bind mount, and reports the path as asked.
        """
        for path, (device, inode) in zip(self.spec.workspaces, answer["roots"], strict=True):
            here = os.lstat(path)
            self._roots.append((here.st_dev, here.st_ino))
            if self.spec.setup["local"] and (here.st_dev, here.st_ino) != (device, inode):
                raise NotEnforced(f"the engine mounted something else than `{path}`")

    def stands(self) -> bool:
        """Whether its workspaces are still what stands at their paths."""
        try:
            found = [os.lstat(path) for path in self.spec.workspaces]
        except OSError:
            return False
        return [(one.st_dev, one.st_ino) for one in found] == self._roots

    def _check(self) -> None:
        if self._failed is not None:
            raise CellLost(f"cell `{self.name}` is gone: {self._failed}; nothing landed")

    def _fail(self, reason: str) -> None:
        """Kill the pair and fail whatever waits."""
        if self._failed is not None:
            return
        self._failed = reason
        self._runner.close()
        self._keeper.close()
        lost = CellLost(f"cell `{self.name}` is gone: {reason}; nothing landed")
        for running in self._running.values():
            if not running.done.done():
                running.done.set_exception(lost)
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(lost)
        self._asked.clear()
        for event in self._hello.values():
            event.set()
        self._removal = asyncio.get_running_loop().create_task(self._remove())

    async def _remove(self) -> None:
        if self._door is not None:
            self._door.close()
        for identity in (self.identity, self._keeper_identity):
            if identity:
                await asyncio.to_thread(self._engine.remove, identity)
