# SPDX-License-Identifier: Apache-2.0
"""Both clients against the same server: typed results, output, input, questions, cancelling."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from policy.model import ActionPlan, Decision, Params, Tier, Verdict
from sandbox.client.blocking import BlockingClient, Client
from sandbox.errors import BadInput, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.login import login
from sandbox.results import CallResult, Ending, StopReport, UndoResult
from tests.fakes import Served, served

ROOT = Path(__file__).parents[3]


@pytest.fixture
def running() -> Iterator[Served]:
    with TemporaryDirectory(prefix="lg-") as folder, served(Dirs.under(Path(folder))) as one:
        yield one


def plan(command: str) -> ActionPlan:
    return ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")


def with_async(dirs: Dirs, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(dirs) as client:
            return await asyncio.wait_for(work(client), 120)

    return asyncio.run(main())


def test_a_call_gives_a_typed_result(running: Served) -> None:
    with BlockingClient(running.dirs) as client:
        result = client.call(plan("exit 3"), env={"A": "1"}, call_id="mine")
    assert result == CallResult(
        id="mine", tool="Bash", verdict=Verdict.ALLOW, tier=Tier.CAUTION, rules=("a-rule",),
        message="", ending=Ending.RAN, exit_status=3, ms=1.5,
    )  # fmt: skip
    assert with_async(running.dirs, lambda c: c.call(plan("exit 3"), call_id="mine")) == result
    assert running.fake.environments == [{"A": "1"}, None]
    mine = plan("exit 3").model_copy(update={"user": login()})
    assert running.fake.plans == [mine, mine]


def test_all_else_is_typed_too(running: Served) -> None:
    with BlockingClient(running.dirs) as client:
        client.warm("/w")
        assert isinstance(client.undo("c9"), UndoResult)
        for settle in (client.land, client.discard, client.end):
            assert isinstance(settle("c9"), CallResult)
        assert isinstance(client.stop("because"), StopReport)
        assert client.cells() == [{"name": "cell-1"}]
        assert client.running() == []
    expected = ["warm /w", "undo c9", "undone c9", "land c9", "discard c9", "end c9"]
    assert running.fake.done == expected

    async def again(client: Client) -> None:
        await client.warm("/w")
        assert isinstance(await client.undo("c9"), UndoResult)
        for settle in (client.land, client.discard, client.end):
            assert isinstance(await settle("c9"), CallResult)
        assert isinstance(await client.stop("because"), StopReport)
        assert await client.cells() == [{"name": "cell-1"}]
        assert await client.running() == []
        assert (await client.ping())["pid"] == os.getpid()
        with pytest.raises(BadInput, match="no call `nosuch`"):
            await client.land("nosuch")

    with_async(running.dirs, again)
    assert running.fake.done == expected * 2


def test_output_comes_as_it_is_written(running: Served) -> None:
    seen: list[tuple[str, bytes]] = []
    with BlockingClient(running.dirs) as client:
        client.call(plan("say hello"), on_output=lambda stream, data: seen.append((stream, data)))
    assert seen == [("stdout", b"hello"), ("stderr", b"to stderr\n")]
    seen.clear()
    note = seen.append
    with_async(running.dirs, lambda c: c.call(plan("say hello"), on_output=lambda *a: note(a)))
    assert seen == [("stdout", b"hello"), ("stderr", b"to stderr\n")]


def test_much_output_comes_whole(running: Served) -> None:
    count = 0

    def take(stream: str, data: bytes) -> None:
        nonlocal count
        count += len(data)

    with BlockingClient(running.dirs) as client:
        client.call(plan("flood 20"), on_output=take)
    assert count == 20_000_000


def test_a_result_longer_than_a_line_comes_whole(running: Served) -> None:
    with BlockingClient(running.dirs) as client:
        assert client.call(plan("long 1000000")).stdout == "é" * 1_000_000
    found = with_async(running.dirs, lambda c: c.call(plan("long 1000000")))
    assert found.stdout == "é" * 1_000_000


def test_a_long_command_arrives_whole(running: Served) -> None:
    with BlockingClient(running.dirs) as client:
        client.call(plan("say " + "é" * 1_000_000))
    assert len(running.fake.plans[0].params.command or "") == 1_000_004


def test_input_of_bytes_is_passed_on(running: Served) -> None:
    data = bytes(range(256)) * 4096
    pieces = []
    with BlockingClient(running.dirs) as client:
        result = client.call(plan("cat"), stdin=data, on_output=lambda _, d: pieces.append(d))
    assert (b"".join(pieces), result.stdout) == (data, str(len(data)))


def test_input_of_a_pipe_is_passed_on_as_it_comes(running: Served) -> None:
    reading, writing = os.pipe()
    first = threading.Event()

    def write() -> None:
        os.write(writing, b"one\n")
        assert first.wait(20)  # the next piece is written only after the first was echoed
        os.write(writing, b"two\n")
        os.close(writing)

    pieces: list[bytes] = []

    def take(stream: str, data: bytes) -> None:
        pieces.append(data)
        first.set()

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb") as file, BlockingClient(running.dirs) as client:
        client.call(plan("cat"), stdin=file, on_output=take)
    thread.join()
    assert pieces == [b"one\n", b"two\n"]


def test_input_that_never_comes_does_not_hold_a_call_up(running: Served) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file, BlockingClient(running.dirs) as client:
        assert client.call(plan("exit 0"), stdin=file).exit_status == 0
    os.close(writing)


def test_input_of_an_iterator_is_passed_on(running: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b""
        yield b"two"

    found = with_async(running.dirs, lambda c: c.call(plan("cat"), stdin=pieces()))
    assert found.stdout == "7"


def test_a_question_is_answered(running: Served) -> None:
    asked: list[tuple[str, ActionPlan, Decision]] = []

    def approve(call_id: str, about: ActionPlan, decision: Decision) -> bool:
        asked.append((call_id, about, decision))
        return about.params.command == "ask yes"

    with BlockingClient(running.dirs) as client:
        assert client.call(plan("ask yes"), approver=approve).exit_status == 0
        refused = client.call(plan("ask no"), approver=approve)
        unasked = client.call(plan("ask nobody"))
    assert refused.ending is unasked.ending is Ending.NOT_APPROVED
    assert [one[0] for one in asked] == ["c1", "c2"]
    assert asked[0][1] == plan("ask yes").model_copy(update={"user": login()})
    assert asked[0][2].message == "deleting needs a yes"

    async def later(call_id: str, about: ActionPlan, decision: Decision) -> bool:
        return True

    found = with_async(running.dirs, lambda c: c.call(plan("ask later"), approver=later))
    assert found.exit_status == 0


def test_ctrl_c_cancels_and_waits(running: Served) -> None:
    def interrupt(stream: str, data: bytes) -> None:
        signal.raise_signal(signal.SIGINT)

    with BlockingClient(running.dirs) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call(plan("wait"), on_output=interrupt)
        assert running.fake.cancelled == ["c1"]
        assert client.call(plan("exit 0")).exit_status == 0


def test_cancelling_the_task_cancels_and_waits(running: Served) -> None:
    async def work(client: Client) -> None:
        task = asyncio.create_task(client.call(plan("wait")))
        await asyncio.to_thread(running.fake.started.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.fake.cancelled == ["c1"]
        assert (await client.call(plan("exit 0"))).exit_status == 0

    with_async(running.dirs, work)


def test_many_calls_go_on_over_one_connection(running: Served) -> None:
    async def work(client: Client) -> None:
        waiting = asyncio.create_task(client.call(plan("wait")))
        others = await asyncio.gather(*(client.call(plan(f"exit {n}")) for n in range(20)))
        assert [one.exit_status for one in others] == list(range(20))
        running.fake.release.set()
        assert (await waiting).exit_status == 0

    with_async(running.dirs, work)


def test_a_supervisor_that_goes_away_is_said(running: Served) -> None:
    def leave(stream: str, data: bytes) -> None:
        assert running.server is not None
        running.stop()

    with BlockingClient(running.dirs) as client, pytest.raises(Unavailable) as caught:
        client.call(plan("wait"), on_output=leave)
    assert str(caught.value) in (
        "the supervisor went away in the middle; `lockgate log` says what landed",
        "the call was cancelled; nothing of it landed",
    )


def test_shutdown_without_a_supervisor_is_done(tmp_path: Path) -> None:
    with BlockingClient(Dirs.under(tmp_path)) as client:
        assert client.shutdown() is True


def test_the_thin_client_imports_nothing_heavy() -> None:
    heavy = ("pydantic", "docker", "tree_sitter", "rich", "asyncio", "yaml", "subprocess")
    script = (
        "import sys, sandbox.client.blocking, sandbox.cli.main, sandbox.cli.calls.run\n"
        f"print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == []
