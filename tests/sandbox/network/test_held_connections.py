# SPDX-License-Identifier: Apache-2.0
"""Connections to names without right: held, one question each, and carried by a word on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from policy.hosts import MOST_ASKED, askable
from sandbox.network.book import ASKED_NAMES, Book, Reach
from sandbox.network.carrier import Carrier
from sandbox.network.gateway import AskHost, Gateway, HostWord
from sandbox.network.holding import MOST_QUESTIONS, Holding
from tests.sandbox.network.test_gateway_carrier import ANSWER, FAIR, Far, plain, run
from tests.sandbox.network.test_gateway_readers import CARRYING, PLAIN_LABELS, hello

NAME, OTHER = "api.example", "other.example"


class Held:
    """A carrier whose names have no right, between a listener for the cell's and a far server."""

    def __init__(self, book: Book, carrier: Carrier, holding: Holding, far: Far) -> None:
        self.book, self.carrier, self.holding, self.far = book, carrier, holding, far
        self.asked: list[tuple[str, int]] = []
        self.told: list[dict[str, Any]] = []

    async def connect(self, name: str, data: bytes) -> asyncio.Task[bytes]:
        """Connect to where a name stands and send; return what comes, once it comes."""
        address = self.book.address(name)
        assert address is not None
        reader, writer = await asyncio.open_connection(address, self.far.port)
        writer.write(data)

        async def rest() -> bytes:
            try:
                return await reader.read(len(ANSWER))
            except OSError:
                return b""
            finally:
                writer.close()

        return asyncio.create_task(rest())

    async def until(self, count: int) -> None:
        """Wait until so many questions were asked."""
        while len(self.asked) < count:
            await asyncio.sleep(0.01)

    def say(self, name: str, reach: Reach | None, why: str = "a person said no") -> None:
        """Give the supervisor's answer."""
        said = None if reach is None else reach.as_json()
        self.holding.hear({"host": name, "port": self.far.port, "reach": said, "why": why})

    def opened(self, name: str) -> Reach:
        """Return a yes to a name, as a person says who has it on this host."""
        return Reach(name, (self.far.port,), address="127.0.0.1")


@contextlib.asynccontextmanager
async def held() -> AsyncIterator[Held]:
    far = Far()
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    far.port = server.sockets[0].getsockname()[1]
    book = Book([], spare=ASKED_NAMES, ports=(far.port,))
    asked: list[tuple[str, int]] = []
    told: list[dict[str, Any]] = []
    holding = Holding(lambda host, port: asked.append((host, port)))
    carrier = Carrier(book, FAIR, told.append, lambda _: None, None, holding)
    near = [
        await asyncio.start_server(carrier.take, address, port)
        for kind, address, port in book.listeners()
        if kind == "tcp"
    ]
    one = Held(book, carrier, holding, far)
    one.asked, one.told = asked, told
    try:
        yield one
    finally:
        for each in near:
            each.close()
        await carrier.close()
        server.close()


def test_one_question_holds_all_connections_to_a_host_and_its_yes_lets_them_on() -> None:
    async def go() -> None:
        async with held() as one:
            first = await one.connect(NAME, plain(NAME))
            second = await one.connect(NAME, hello(NAME))
            await one.until(1)
            other = await one.connect(OTHER, plain(OTHER))
            await one.until(2)
            assert one.asked == [(NAME, one.far.port), (OTHER, one.far.port)]
            assert one.far.heard == []
            one.say(NAME, one.opened(NAME))
            assert [await first, await second] == [ANSWER] * 2
            assert not other.done()  # a yes for the one is none for the other
            one.say(OTHER, None)
            assert await other == b""
            third = await one.connect(NAME, plain(NAME))
            fourth = await one.connect(OTHER, plain(OTHER))
            assert (await third, await fourth) == (ANSWER, b"")
            assert len(one.asked) == 2
            assert not any(OTHER.encode() in heard for heard in one.far.heard)

    run(go())


def test_after_a_yes_each_connection_must_name_the_very_host() -> None:
    async def go() -> None:
        async with held() as one:
            first = await one.connect(NAME, plain(NAME))
            await one.until(1)
            one.say(NAME, one.opened(NAME))
            assert await first == ANSWER
            for data in (hello(OTHER), plain(OTHER), hello(None)):
                assert await (await one.connect(NAME, data)) == b""
            assert (len(one.asked), len(one.far.heard)) == (1, 1)

    run(go())


def test_what_names_no_host_or_another_one_is_no_question() -> None:
    async def go() -> None:
        async with held() as one:
            for data in (hello(OTHER), plain(OTHER), hello(None), b"SECRET\r\n\r\n"):
                assert await (await one.connect(NAME, data)) == b""
            assert one.asked == []

    run(go())


ODD_ANSWERS = {
    "another name": lambda one: Reach(OTHER, (one.far.port,), address="127.0.0.1"),
    "another port": lambda one: Reach(NAME, (one.far.port + 1,), address="127.0.0.1"),
    "more ports": lambda one: Reach(NAME, (one.far.port, 22), address="127.0.0.1"),
}


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_an_answer_that_opens_another_place_is_none(answer: Any) -> None:
    async def go() -> None:
        async with held() as one:
            waits = await one.connect(NAME, plain(NAME))
            await one.until(1)
            with pytest.raises(ValueError, match="another place"):
                one.say(NAME, answer(one))
            with pytest.raises(KeyError):
                one.say(OTHER, one.opened(OTHER))  # nobody asked about it
            assert (waits.done(), one.far.heard) == (False, [])
            one.say(NAME, None)
            one.say(NAME, one.opened(NAME))  # what was said first counts
            assert await waits == b""
            assert one.far.heard == []

    run(go())


def test_a_yes_leads_to_no_address_of_this_host_or_its_network() -> None:
    async def go() -> None:
        async with held() as one:
            waits = await one.connect("localtest.example", plain("localtest.example"))
            await one.until(1)
            one.say("localtest.example", Reach("localtest.example", (one.far.port,)))
            assert await waits == b""
            assert one.told[-1]["end"].startswith("refused: ")
            assert one.far.heard == []

    real = asyncio.BaseEventLoop.getaddrinfo

    async def resolve(self: Any, host: Any, port: Any, **named: Any) -> Any:
        found = "127.0.0.1" if host == "localtest.example" else host
        return await real(self, found, port, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
        run(go())


def test_a_client_that_gives_up_leaves_the_question_for_its_next_try() -> None:
    async def go() -> None:
        async with held() as one:
            address = one.book.address(NAME)
            _, writer = await asyncio.open_connection(address, one.far.port)
            writer.write(plain(NAME))
            await one.until(1)
            writer.close()
            while not one.told:
                await asyncio.sleep(0.01)
            assert one.told[0]["end"] == "refused: its program gave up before a person answered"
            again = await one.connect(NAME, plain(NAME))
            one.say(NAME, one.opened(NAME))
            assert await again == ANSWER
            assert (len(one.asked), len(one.far.heard)) == (1, 1)

    run(go())


def test_a_body_that_comes_while_it_is_held_is_carried_and_no_second_request() -> None:
    async def go() -> None:
        async with held() as one:
            head = f"POST /x HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 4\r\n\r\n".encode()
            address = one.book.address(NAME)
            reader, writer = await asyncio.open_connection(address, one.far.port)
            writer.write(head)
            await one.until(1)
            writer.write(b"body" + plain(OTHER))
            await writer.drain()
            one.say(NAME, one.opened(NAME))
            assert await reader.read(len(ANSWER)) == ANSWER
            writer.close()
            while not one.told:
                await asyncio.sleep(0.01)
            assert one.far.heard[0].endswith(b"\r\n\r\nbody")

    run(go())


def test_questions_and_names_have_an_end() -> None:
    async def go() -> None:
        async with held() as one:
            names = [f"n{number}.example" for number in range(ASKED_NAMES + 3)]
            addresses = [one.book.address(name) for name in names]
            assert [address is None for address in addresses] == [False] * ASKED_NAMES + [True] * 3
            for number, name in enumerate(names[:MOST_QUESTIONS]):
                waits = await one.connect(name, plain(name))
                await one.until(number + 1)
                one.say(name, None)
                assert await waits == b""
            more = names[MOST_QUESTIONS]
            assert await (await one.connect(more, plain(more))) == b""
            while len(one.told) <= MOST_QUESTIONS:
                await asyncio.sleep(0.01)
            assert len(one.asked) == MOST_QUESTIONS
            assert sum("was asked about" in each["end"] for each in one.told) == 1

    run(go())


UNASKED = (
    *("localhost", "db", "printer.local", "x.internal", "a.test", "nosuch.invalid", "1.2.3.4"),
    *("4.3.2.1.in-addr.arpa", "API.example", "a..example", "ex ample.com", "a.example\n", ""),
    *("\u0430pi.example", "a" * 41 + ".example", "x.example\u202e", "a.example.", "-a.example"),
    *(f"{label}.corp.example" for label in CARRYING),
    *(".".join(["word"] * (MOST_ASKED // 5)) + ".example",),
)


def test_only_names_that_a_person_can_judge_are_asked_about() -> None:
    assert [name for name in UNASKED if askable(name)] == []
    plain_names = [f"{label}.corp.example" for label in PLAIN_LABELS]
    assert all(map(askable, ("api.example", *plain_names)))
    book = Book([], spare=4)
    assert [name for name in UNASKED if book.address(name)] == []


LIES = {
    "a name that nobody can be asked about": {"host": "x.internal", "port": 443},
    "text in a name": {"host": "a.example\nYou may: yes", "port": 443},
    "a port that is held nowhere": {"host": "a.example", "port": 22},
    "no name": {"host": None, "port": 443},
    "no port": {"host": "a.example"},
    "no question": 7,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_gateway_that_was_taken_over_asks_nothing_else(lie: Any) -> None:
    """The positive control is the last line that it says."""
    asked = heard_of([lie, {"host": "a.example", "port": 443}, {"host": "a.example", "port": 443}])
    assert asked == [("a.example", 443)]


def test_a_gateway_that_was_taken_over_asks_so_often_and_not_more() -> None:
    wishes = [{"host": f"n{number}.example", "port": 443} for number in range(MOST_QUESTIONS * 2)]
    assert len(heard_of(wishes)) == MOST_QUESTIONS


@pytest.mark.parametrize("killed", [True, False], ids=["it is killed", "its call ends"])
def test_no_question_outlives_its_gateway(killed: bool) -> None:
    ended: list[str] = []

    async def ask(host: str, port: int) -> HostWord:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(host)
        raise AssertionError("nobody answers")

    async def go() -> None:
        async with saying([{"host": "a.example", "port": 443}], ask) as gateway:
            assert gateway._process is not None
            if killed:
                gateway._process.kill()
                while not ended:
                    await asyncio.sleep(0.01)
                assert "ended before the call" in gateway.traffic.lost
        assert ended == ["a.example"]

    run(go())


def heard_of(wishes: list[Any]) -> list[tuple[str, int]]:
    """Return what a person is asked when a gateway says these lines."""
    asked: list[tuple[str, int]] = []

    async def ask(host: str, port: int) -> HostWord:
        asked.append((host, port))
        return HostWord(None)

    async def go() -> None:
        async with saying(wishes, ask):
            pass

    run(go())
    return asked


@contextlib.asynccontextmanager
async def saying(wishes: list[Any], ask: AskHost) -> AsyncIterator[Gateway]:
    """Give a gateway whose process has said these lines, and no other ones."""
    gateway = Gateway([], FAIR, lambda: None, ask_host=ask)
    script = "import sys; sys.stdout.write(sys.argv[1]); sys.stdout.flush(); sys.stdin.read()"
    lines = "".join(json.dumps({"asks": one}) + "\n" for one in wishes)
    process = await asyncio.create_subprocess_exec(
        "python3", "-c", script, lines + json.dumps({"over": "all is said"}) + "\n",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    gateway._process = process
    gateway._hearing = asyncio.create_task(gateway._hear(process))
    try:
        while not gateway.traffic.over:
            await asyncio.sleep(0.01)
        yield gateway
    finally:
        await gateway.end()
