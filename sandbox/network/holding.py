# SPDX-License-Identifier: Apache-2.0
"""Connections to names without right, held while a person is asked: the gateway's end of that.

INVARIANT (P4, held): a connection that is held sends nothing, and goes on only where the answer is
about the very host and port that it was made to. What an answer says counts until the call ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.network.book import Reach
from sandbox.network.ends import CHUNK, Refused

MOST_QUESTIONS = 8
"""Hosts with their ports about which a person is asked in one call."""
TOO_MANY = f"a person was asked about {MOST_QUESTIONS} hosts in this call already"
GIVEN_UP = "its program gave up before a person answered"
ALONE = "nobody is asked about it"

Place = tuple[str, int]


class Holding:
    """The questions of one call."""

    def __init__(self, ask: Callable[[str, int], None]) -> None:
        """`ask` tells the supervisor of a host and a port, once."""
        self._ask = ask
        self._answers: dict[Place, asyncio.Future[Reach | str]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The hosts about which a person was asked."""
        return frozenset(host for host, _ in self._answers)

    def hear(self, word: Mapping[str, Any]) -> None:
        """Take an answer. Raises KeyError, TypeError, ValueError for what is none."""
        place = str(word["host"]), int(word["port"])
        reach = Reach.of(word["reach"]) if word["reach"] is not None else None
        if reach is not None and (reach.name, reach.ports) != (place[0], (place[1],)):
            raise ValueError("the answer opens another place")
        waiting = self._answers[place]
        if not waiting.done():
            waiting.set_result(str(word["why"]) if reach is None else reach)

    async def wait(self, host: str, port: int, reader: asyncio.StreamReader) -> tuple[Reach, bytes]:
        """Wait for the word on a host; return where it may lead, and what its client sent
        meanwhile. Raises Refused."""
        place = host, port
        answer = self._answers.get(place)
        if answer is None:
            if len(self._answers) >= MOST_QUESTIONS:
                raise Refused(TOO_MANY)
            answer = self._answers[place] = asyncio.get_running_loop().create_future()
            self._ask(host, port)
        more = await _while_open(answer, reader)
        found = answer.result()
        if isinstance(found, str):
            raise Refused(found)
        return found, more


async def _while_open(answer: asyncio.Future[Any], reader: asyncio.StreamReader) -> bytes:
    """Wait for an answer as long as the client is there; return what it sent meanwhile, of which
    no more than a piece is taken."""
    if answer.done():
        return b""
    reading = asyncio.ensure_future(reader.read(CHUNK))
    try:
        await asyncio.wait((answer, reading), return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not reading.result():
            raise Refused(GIVEN_UP)
        await asyncio.wait((answer,))
        return reading.result() if reading.done() else b""
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))
