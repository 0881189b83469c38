# SPDX-License-Identifier: Apache-2.0
"""On a full disk every door answers in a line, and once there is room work goes on by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sandbox.audit.events.record import AuditRecord
from sandbox.calls.flow import live
from sandbox.client.blocking import BlockingClient
from sandbox.connect.records import Connections
from sandbox.errors import SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database
from sandbox.operations.requests import HeldRequest, PeekRequest, Request
from sandbox.results import Ending
from sandbox.server.log_stream import LogStream
from tests.fakes import FakeSupervisor, served
from tests.sandbox.calls.test_supervisor import Bench
from tests.sandbox.hooks.test_hook_door import Hooks


def full(*_: object, **__: object) -> Any:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/file")


class FailingSupervisor(FakeSupervisor):
    """Finds the disk full for one request, and a defect in another."""

    async def _answer(self, request: Request[Any], by: str | None) -> Any:
        if isinstance(request, HeldRequest):
            full()
        if isinstance(request, PeekRequest):
            raise RuntimeError("a defect")
        return await super()._answer(request, by)


@pytest.fixture
def full_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have nothing that is written to the log find room."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        os.write(descriptor, b"x")
    monkeypatch.setattr(sys, "stderr", LogStream(descriptor))
    yield
    os.close(descriptor)


def test_a_failure_is_answered_though_the_log_cannot_say_it(full_log: None) -> None:
    with TemporaryDirectory(prefix="lg-") as folder:
        dirs = Dirs.under(Path(folder))
        with served(dirs, FailingSupervisor()), BlockingClient(dirs) as client:
            with pytest.raises(Unavailable, match=r"^`/state/file`: no space left on device$"):
                client.ask(HeldRequest())
            with pytest.raises(SandboxError, match="the supervisor failed: RuntimeError: a defect"):
                client.ask(PeekRequest("c1"))


def test_a_hook_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, others = Hooks(tmp_path / "a"), Hooks(tmp_path / "b")
    monkeypatch.setattr(Connections, "note_fired", full)  # what `doctor` says of it can wait
    assert hooks.claude("Bash", command="ls")["permissionDecision"] == "allow"
    monkeypatch.setattr(others.supervisor, "admit", full)
    answer = others.claude("Bash", command="ls")
    assert answer["permissionDecision"] == "deny"
    why = "the call could not be judged: `/state/file`: no space left on device"
    assert answer["permissionDecisionReason"] == why


def test_work_goes_on_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    append, has_room = bench.store.append, True

    def bounded(record: AuditRecord, *, durable: bool) -> None:
        if not has_room:
            raise Unavailable("the disk is full")
        append(record, durable=durable)

    monkeypatch.setattr(bench.store, "append", bounded)

    def decided(plan: Any, context: Any, policy: Any, *_: Any) -> Any:
        return bench._decide(plan, context, policy)

    monkeypatch.setattr("sandbox.gates.gate1.decide", decided)

    async def scene() -> None:
        nonlocal has_room
        first = asyncio.ensure_future(bench.supervisor.call(bench.plan("wait")))
        while "run wait" not in bench.log:
            await asyncio.sleep(0)
        has_room = False
        bench.cell.release.set()
        assert (await first).ending is Ending.RAN
        with pytest.raises(SandboxError, match="an outcome could not be recorded: the disk is"):
            await bench.supervisor.call(bench.plan("true"))
        assert "run true" not in bench.log
        has_room = True
        assert (await bench.supervisor.call(bench.plan("true"))).ending is Ending.RAN
        await bench.supervisor._record.flush()

    asyncio.run(scene())
    told = [one.event for one in reversed(list(bench.store.records()))]
    assert told == ["decided", "ended", "ended", "decided", "ended"]


def test_what_landed_is_not_recorded_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    monkeypatch.setattr("sandbox.calls.flow.output.Output.finish", full)
    done = bench.sh("echo x > new.txt")
    assert done.landed
    assert "what it wrote is not all kept: `/state/file`: no space left on device" in done.message
    asyncio.run(bench.supervisor._record.flush())
    entry = bench.store.call(done.id)
    assert (entry.ending, entry.landed) == ("ran", True)


def test_cells_are_looked_after_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_REAP_SECONDS", 0.0)
    bench = Bench(tmp_path, monkeypatch)
    looks: list[int] = []

    def look(*_: object) -> None:
        looks.append(1)
        if len(looks) == 1:
            full()

    monkeypatch.setattr(bench.supervisor._live._retention, "look", look)

    async def scene() -> None:
        async with bench.supervisor, asyncio.timeout(60):
            while len(looks) < 2:
                await asyncio.sleep(0.001)

    asyncio.run(scene())


def test_a_database_without_room_is_not_to_be_moved_away(tmp_path: Path) -> None:
    database = Database(tmp_path / "d.sqlite", ("CREATE TABLE t (x)",), loss="all")
    with database.reading():
        pass
    with (
        pytest.raises(Unavailable, match=r"is full; make room there and try again$"),
        database.writing() as db,
    ):
        db.execute("PRAGMA max_page_count = 1")
        db.execute("INSERT INTO t VALUES (zeroblob(1000000))")
    with pytest.raises(Unavailable, match="move the file away: all"), database.reading():
        raise sqlite3.DatabaseError("file is not a database")
