# SPDX-License-Identifier: Apache-2.0
"""The runner of a cell as the supervisor talks to it: commands, their input and output."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from sandbox.cell import protocol
from sandbox.cells.pair.clock import CallClock
from sandbox.cells.pair.link import Link
from sandbox.cells.pair.outcomes import CellLost, Exit

END_SECONDS = 10.0
"""A runner that has not ended a call this long after it was told to is taken for lost."""
STDIN_WINDOW = 1 << 20

OnOutput = Callable[[int, bytes], None]
Room = Callable[[], Awaitable[None] | None]
"""Returns what is to be awaited before more output is read; None: nothing."""


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


class RunnerSide:
    """The commands of a cell."""

    role = "runner"

    def __init__(self, fail: Callable[[str], None]) -> None:
        """`fail` ends the cell for a reason."""
        self.link = Link(self.on_frame, lambda why: fail(f"the runner ended: {why}"))
        self.hello = asyncio.Event()
        """Set once the program has said that it is there, or never will."""
        self.spare_end = -1
        """The number under which the runner holds the other end of a connection of our own."""
        self._fail = fail
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._paused: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return bool(self._running)

    async def run(
        self,
        request: dict[str, Any],
        *,
        on_output: OnOutput,
        clock: CallClock,
        most_bytes: int,
        stdin: AsyncIterator[bytes] | None,
        room: Room | None,
        end_at_once: str | None,
    ) -> Exit:
        """Run one command or file tool to its end. Cancelling ends its processes first.

        `clock` says how long it may take. `room` is asked after each piece of output.
        `end_at_once`: why it is ended before it has begun.
        """
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        running = self._running[number] = _Running(on_output, most_bytes, room)
        self.link.send({**request, "op": "run", "call": number, "stdin": stdin is not None})
        if end_at_once is not None:
            self._end_call(number, end_at_once)
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

    def end_running(self, why: str) -> None:
        """End every command that runs."""
        for number in list(self._running):
            self._end_call(number, why)

    def _end_call(self, number: int, why: str) -> None:
        running = self._running.get(number)
        if running is None or running.ended is not None:
            return
        running.ended = why
        self.link.send({"op": "kill", "call": number})
        asyncio.get_running_loop().call_later(END_SECONDS, self._expect_end, number)

    def _expect_end(self, number: int) -> None:
        if number in self._running:
            self._fail("the runner did not end a call in time")

    async def _feed(self, number: int, running: _Running, stdin: AsyncIterator[bytes]) -> None:
        sent = 0
        async for data in stdin:
            for start in range(0, len(data), 65_536):
                part = data[start : start + 65_536]
                self.link.send_data(number, protocol.STDIN, part)
                sent += len(part)
                while sent - running.stdin_taken > STDIN_WINDOW:
                    running.stdin_moved.clear()
                    await running.stdin_moved.wait()
        self.link.send_data(number, protocol.STDIN, b"")

    def on_frame(self, kind: int, frame: Any) -> None:
        """Take in what the runner says."""
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
            self.spare_end = int(frame["spare"])
            self.hello.set()
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
                self.link.read(go_on=True)

        self.link.read(go_on=False)
        self._paused = asyncio.get_running_loop().create_task(resume())

    def lose(self, lost: CellLost) -> None:
        """Close the connection, and let every command fail."""
        self.link.close()
        for running in self._running.values():
            if not running.done.done():
                running.done.set_exception(lost)
        self.hello.set()
