# SPDX-License-Identifier: Apache-2.0
"""The keeper of a cell as the supervisor talks to it: requests, answers, alarms."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.cells.pair.link import Link
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.work import Work, current


@dataclass(slots=True)
class KeeperRequest:
    """A request of which the keeper has not answered."""

    op: str
    seconds: float
    """How long it may take, once those before it are answered."""
    work: Work | None
    answer: asyncio.Future[dict[str, Any]]


class KeeperSide:
    """The requests of a cell that its keeper has not answered, and what it says unasked."""

    role = "keeper"

    def __init__(self, fail: Callable[[str], None], end_running: Callable[[str], None]) -> None:
        """`fail` ends the cell for a reason, `end_running` what runs in it."""
        self.link = Link(self.on_frame, lambda why: fail(f"the keeper ended: {why}"))
        self.hello = asyncio.Event()
        """Set once the program has said that it is there, or never will."""
        self.alarmed: str | None = None
        """Why commands are ended at once; None while nothing speaks against them."""
        self._end_running = end_running
        self._numbers = itertools.count(1)
        self._asked: dict[int, KeeperRequest] = {}
        """What the keeper has not answered, in the order in which it does."""
        self._parts: dict[int, list[dict[str, Any]]] = {}
        """What came ahead of an answer, by the number of its request."""
        self._writing: str | None = None
        """The writing transaction that is open, by name."""

    @property
    def busy(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self._asked)

    @property
    def unanswered(self) -> tuple[KeeperRequest, ...]:
        """The requests that the keeper has not answered, in the order in which it does."""
        return tuple(self._asked.values())

    def send(self, request: dict[str, Any], op: str, seconds: float) -> KeeperRequest:
        """Send a request that may take so long, and return what will hold its answer."""
        if op == "open" and request["access"] == "write":
            self._writing, self.alarmed = request["tx"], None
        elif op in ("close", "drop") and request["tx"] == self._writing:
            self._writing = self.alarmed = None
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asked = self._asked[number] = KeeperRequest(op, seconds, current(), answer)
        self.link.send({**request, "op": op, "n": number})
        return asked

    def on_frame(self, _kind: int, frame: Any) -> None:
        """Take in what the keeper says."""
        if frame["op"] == "hello":
            self.hello.set()
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
        self.alarmed = "unwatched" if "lost" in frame else "protected"
        self._end_running(self.alarmed)

    def lose(self, lost: CellLost) -> None:
        """Close the connection, and let every request fail."""
        self.link.close()
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(lost)
        self._asked.clear()
        self.hello.set()
