# SPDX-License-Identifier: Apache-2.0
"""Events over HTTP: everybody who listens is told everything, and who does not read is dropped."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.log import LogBounds
from sandbox.audit.store import Store
from sandbox.errors import Busy
from sandbox.host.dirs import Dirs
from sandbox.web import app, feed
from sandbox.web.feed import EventListener, Feed
from tests.http_served import HttpServed, http_served


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServed]:
    monkeypatch.setattr(app, "SEND_SECONDS", 1.0)
    with TemporaryDirectory(prefix="lg-") as folder:
        dirs = Dirs.under(Path(folder)).create()
        note(Store(dirs), "c0")
        with http_served(dirs) as one:
            yield one


def note(store: Store, call: str, message: str = "") -> None:
    """Put a call on record."""
    record = {"event": "decided", "call": call, "agent": "a", "tool": "Bash", "verdict": "allow"}
    store.append(record_of({**record, "plan": {}, "message": message}), durable=False)


@contextmanager
def listening(http: HttpServed, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Listen while the block runs; what is yielded gives the records as they come."""
    with (
        http.over_loopback(**headers) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield told(answer)


def told(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_what_is_recorded_is_told(http: HttpServed) -> None:
    store = Store(http.dirs)
    with listening(http, **{"last-event-id": "1"}) as one:
        note(store, "c1")
        assert next(one)["call"] == "c1"
        with listening(http, **{"last-event-id": "1"}) as other:  # it comes again
            assert next(other)["call"] == "c1"
            note(store, "c2")
            assert (next(one)["call"], next(other)["call"]) == ("c2", "c2")


def test_what_is_no_number_of_a_record_is_refused(http: HttpServed) -> None:
    with http.over_loopback(**{"last-event-id": "x"}) as client:
        assert client.get("/v1/events").status_code == 400


def test_who_does_not_read_is_dropped_and_holds_nobody_up(http: HttpServed) -> None:
    host, _, port = http.url.removeprefix("http://").partition(":")
    store = Store(http.dirs)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, int(port)))
        head = f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
        slow.sendall(f"{head}Authorization: Bearer {http.token}\r\n\r\n".encode())
        assert slow.recv(15).startswith(b"HTTP/1.1 200")
        with listening(http, **{"last-event-id": "1"}) as one:
            for number in range(2 * feed.MOST_WAITING):
                note(store, f"m{number}", "x" * 20_000)
                if number % 50 == 49:
                    assert [next(one)["call"] for _ in range(50)] == [
                        f"m{each}" for each in range(number - 49, number + 1)
                    ]
        slow.settimeout(60)
        count = 0
        while data := slow.recv(1 << 20):  # it ends, long before all was sent
            count += len(data)
    assert count < 2 * feed.MOST_WAITING * 20_000


def test_a_listener_that_leaves_too_much_unread_is_told_no_more() -> None:
    one = EventListener()
    for number in range(feed.MOST_WAITING):
        one.tell({"n": number})
    assert not one.dropped
    one.tell({"n": -1})
    assert one.dropped


def test_no_record_is_lost_where_a_file_of_the_log_is_closed(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    store = Store(dirs, bounds=LogBounds(file_bytes=2000))
    note(store, "first")

    async def listen() -> list[int]:
        numbers: list[int] = []
        lines = Feed(dirs).listen(1)
        for round_ in range(5):
            for number in range(12):
                note(store, f"c{round_}-{number}", "x" * 300)
            last = next(int(one.n or 0) for one in store.records())
            while not numbers or numbers[-1] < last:
                numbers.append(int((await anext(lines))["n"]))
        return numbers

    numbers = asyncio.run(asyncio.wait_for(listen(), 60))
    assert numbers == list(range(2, numbers[-1] + 1))
    assert len(list(dirs.state.glob("audit*.jsonl*"))) > 1


def test_only_so_many_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_LISTENERS", 1)
    dirs = Dirs.under(tmp_path).create()
    note(Store(dirs), "c0")

    async def listen() -> None:
        every = Feed(dirs)
        first = every.listen(0)
        await anext(first)
        with pytest.raises(Busy, match="listen to events"):
            every.listen(None)

    asyncio.run(listen())


def test_many_that_come_together_are_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_LISTENERS", 1)
    dirs = Dirs.under(tmp_path).create()
    note(Store(dirs), "c0")

    async def listen() -> None:
        every = Feed(dirs)
        first, second = every.listen(0), every.listen(0)  # neither is asked for anything yet
        assert (await anext(first))["call"] == "c0"
        with pytest.raises(StopAsyncIteration):
            await anext(second)

    asyncio.run(listen())
