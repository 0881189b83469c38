# SPDX-License-Identifier: Apache-2.0
"""A cell with its keeper, as the supervisor holds them: start, run, fail closed, end.

Runner and keeper are one unit: when either is lost, both containers are killed, every waiting call
fails, and nothing of it lands. INVARIANT (P2, "fail closed").
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sandbox.cells.cell_spec import CellSpec
from sandbox.cells.pair.clock import CallClock
from sandbox.cells.pair.handing import Handing
from sandbox.cells.pair.keeper_side import KeeperRequest, KeeperSide
from sandbox.cells.pair.outcomes import CellLost, Exit, KeeperRefused, Unwatchable
from sandbox.cells.pair.runner_side import OnOutput, Room, RunnerSide
from sandbox.cells.request import with_programs
from sandbox.cells.room import MakeRoom, make_no_room
from sandbox.cells.rwlock import ReadWriteLock
from sandbox.cells.work import Work, say_first, waiting
from sandbox.containers.engine import Engine
from sandbox.containers.plan import HOME, ContainerPlan
from sandbox.errors import NotEnforced, Unavailable

START_SECONDS = 180.0
CHANGES = ("setup", "land", "land_held", "undo", "hold")
"""Requests of a keeper that change files, or bring to its end what another one began."""
T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """Run blocking work in a thread. Cancelled, wait for it first: what it made must be known."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _limit_of(op: str) -> str:
    """Return the setting that says how long a keeper may take over a request."""
    return "land_seconds" if op in CHANGES else "look_seconds"


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
        self.once = False
        """Whether it is for one call alone: what ends that call may come before its command."""
        self.make_room: MakeRoom = make_no_room
        """Ends a cell that nobody needs, so that the kernel has room to watch; False for none."""
        self.sockets = Handing(spec.door, self.ask)
        """Sockets of the cell's network that its keeper hands over."""
        self._roots: list[tuple[int, int]] = []
        self._engine = engine
        self._keeper_identity = ""
        self._failed: str | None = None
        self._over = False
        self._runner = RunnerSide(self._fail)
        self._keeper = KeeperSide(self._fail, self._runner.end_running)
        self._removal: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether calls can run in it."""
        return self._failed is None

    @property
    def idle(self) -> bool:
        """Whether nobody uses it."""
        return not (self.busy or self._keeper.busy or self._runner.busy)

    async def start(self) -> None:
        """Create, compare and start both containers. Raises SandboxError; then nothing is left."""
        try:
            self.identity = await self._launch(self.spec.cell(), self._runner)
            plan = self.spec.keeper(self.identity)
            self._keeper_identity = await self._launch(plan, self._keeper)
            await self._go_direct()
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
        self._runner.link.send({"op": "home", "files": self.spec.home, "folders": [HOME]})

    async def end(self, reason: str = "it was ended") -> None:
        """Kill both containers and wait until they are gone."""
        self._fail(reason)
        if self._removal is not None:
            await asyncio.shield(self._removal)

    # -- keeper

    async def ask(self, request: dict[str, Any] | None = None, *, op: str) -> dict[str, Any]:
        """Send the keeper a request and return its answer. Raises SandboxError.

        It answers one after the other: the time of this one begins when those before are answered,
        also those that nobody waits for any more.
        """
        before = self._keeper.unanswered
        asked = self._send(request or {}, op)
        try:
            if before:
                await self._come_after(before)
            answer = await self._in_time(asked, asyncio.shield(asked.answer))
        except BaseException:
            asked.answer.add_done_callback(_let_go)  # the keeper is at it still
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

    async def _come_after(self, before: Sequence[KeeperRequest]) -> None:
        """Wait until what was asked before is answered."""
        with waiting(lambda: say_first(asked.work for asked in before if not asked.answer.done())):
            for asked in before:
                await self._in_time(asked, asyncio.wait([asked.answer]))

    async def _in_time(self, asked: KeeperRequest, answered: Awaitable[T]) -> T:
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

    def _send(self, request: dict[str, Any], op: str) -> KeeperRequest:
        self._check()
        return self._keeper.send(request, op, getattr(self.spec, _limit_of(op)))

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
        return await self._runner.run(
            with_programs(request, self.spec.programs),
            on_output=on_output,
            clock=seconds if isinstance(seconds, CallClock) else CallClock(seconds),
            most_bytes=most_bytes,
            stdin=stdin,
            room=room,
            end_at_once=self._keeper.alarmed or ("cancelled" if self._over else None),
        )

    def end_running(self, why: str = "cancelled") -> None:
        """End every command that runs in the cell; their calls go on to be judged."""
        self._over = self.once
        self._runner.end_running(why)

    # -- life

    async def _launch(self, plan: ContainerPlan, program: RunnerSide | KeeperSide) -> str:
        self._check()
        identity = await to_its_end(lambda: self._create(plan, program.role))
        await program.link.connect(await asyncio.to_thread(self._engine.attach, identity))
        await asyncio.to_thread(self._engine.start, identity)
        try:
            async with asyncio.timeout(START_SECONDS):
                await program.hello.wait()
        except TimeoutError:
            said = program.link.tail or "no word"
            raise Unavailable(f"the {program.role} did not start: {said}") from None
        self._check()
        return identity

    def _create(self, plan: ContainerPlan, role: str) -> str:
        identity = self._engine.create(plan)
        if role == "runner":
            self.identity = identity
        else:
            self._keeper_identity = identity
        return identity

    async def _go_direct(self) -> None:
        """Talk to both programs over connections of our own from now on, if there is a door."""
        taken = await self.sockets.take_direct(self._runner.spare_end)
        if taken is not None:
            keeper, runner = taken
            self._runner.link.send({"op": "direct"})
            await self._keeper.link.go_direct(keeper)
            await self._runner.link.go_direct(runner)

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
            infos = [os.lstat(path) for path in self.spec.workspaces]
        except OSError:
            return False
        return [(info.st_dev, info.st_ino) for info in infos] == self._roots

    def _check(self) -> None:
        if self._failed is not None:
            raise CellLost(f"cell `{self.name}` is gone: {self._failed}; nothing landed")

    def _fail(self, reason: str) -> None:
        """Kill the pair and fail whatever waits."""
        if self._failed is not None:
            return
        self._failed = reason
        lost = CellLost(f"cell `{self.name}` is gone: {reason}; nothing landed")
        self._runner.lose(lost)
        self._keeper.lose(lost)
        self._removal = asyncio.get_running_loop().create_task(self._remove())

    async def _remove(self) -> None:
        self.sockets.close()
        for identity in (self.identity, self._keeper_identity):
            if identity:
                await asyncio.to_thread(self._engine.remove, identity)


def _let_go(answer: asyncio.Future[dict[str, Any]]) -> None:
    """Take an answer that nobody waits for any more, whatever it is."""
    if not answer.cancelled():
        answer.exception()
