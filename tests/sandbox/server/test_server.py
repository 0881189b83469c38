# SPDX-License-Identifier: Apache-2.0
"""The supervisor process: one per state folder, its own user only, exact about disconnects."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from policy.model import ActionPlan, Params
from sandbox.cli.main import status
from sandbox.cli.terminal import FAILED
from sandbox.client import wire
from sandbox.client.blocking import BlockingClient, running_now
from sandbox.client.connect import connect, reach
from sandbox.client.line import Line
from sandbox.errors import BadInput, NotEnforced, SandboxError, Stopped, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.version import VERSION, code_place, digest, settings_digest
from sandbox.results import Ending
from sandbox.server import connection, server
from sandbox.server.server import hold_lock
from sandbox.workspaces.registry import Registry
from tests.fakes import WAIT_SECONDS, FakeSupervisor, Served, served, wait_for


@pytest.fixture
def dirs() -> Iterator[Dirs]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        yield Dirs.under(Path(folder))


@pytest.fixture
def running(dirs: Dirs) -> Iterator[Served]:
    with served(dirs) as one:
        yield one


def plan(command: str, **params: Any) -> ActionPlan:
    return ActionPlan(tool="Bash", params=Params(command=command, **params), workspace="/w")


def raw(dirs: Dirs) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(20)
    made.connect(str(dirs.socket))
    return made


def test_the_socket_is_closed_to_others(running: Served) -> None:
    assert stat.S_IMODE(running.dirs.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(running.dirs.runtime.stat().st_mode) == 0o700


def test_hello_says_version_digest_and_pid(running: Served) -> None:
    line = connect(running.dirs)
    assert line is not None
    assert line.hello == {
        "event": "hello",
        "version": VERSION,
        "digest": digest(str(running.dirs.config)),
        "pid": os.getpid(),
        "busy": 0,
        "code": code_place(),
        "settings": settings_digest(str(running.dirs.config)),
    }
    line.close()


def test_another_user_is_refused(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "peer_uid", lambda connection: os.geteuid() + 1)
    with served(dirs), raw(dirs) as connection:
        assert connection.recv(1) == b""


def test_a_socket_of_another_user_is_refused(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.client.connect.peer_uid", lambda connection: os.geteuid() + 1)
    with pytest.raises(Unavailable, match="is served by another user"):
        connect(running.dirs)


def test_a_stale_socket_is_replaced(dirs: Dirs) -> None:
    dirs.create()
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(dirs.socket))
    stale.close()
    assert connect(dirs) is None
    with served(dirs), BlockingClient(dirs) as client:
        assert client.ping()["pid"] == os.getpid()


def test_the_lock_lets_one_server_run(running: Served) -> None:
    assert hold_lock(running.dirs) is None
    assert json.loads(running.dirs.lock.read_text()) == {
        "pid": os.getpid(),
        "socket": str(running.dirs.socket),
    }


def test_the_lock_is_free_after_a_server(dirs: Dirs) -> None:
    with served(dirs):
        pass
    assert not dirs.socket.exists()
    lock = hold_lock(dirs)
    assert lock is not None
    os.close(lock)


def test_a_client_with_another_runtime_folder_finds_the_server(running: Served) -> None:
    elsewhere = Dirs(running.dirs.state, running.dirs.config, running.dirs.state / "other")
    with BlockingClient(elsewhere) as client:
        assert client.ping()["pid"] == os.getpid()


def test_a_server_without_work_ends_by_itself(dirs: Dirs) -> None:
    fake = FakeSupervisor()
    with served(dirs, fake, idle_seconds=0.1) as one:
        assert one.ended.wait(WAIT_SECONDS)
    assert (fake.entered, fake.exited) == (1, 1)


def test_what_answers_hooks_ends_with_the_server(dirs: Dirs) -> None:
    with served(dirs, FakeSupervisor(), idle_seconds=60) as running:
        assert running.server is not None
        door = running.server.hooks
        assert running.server.hooks is door
        assert door._off_loop._closed is False
        running.stop()
        assert running.ended.wait(WAIT_SECONDS)
        assert door._off_loop._closed is True


def test_a_background_call_keeps_it_alive(dirs: Dirs) -> None:
    fake = FakeSupervisor()
    fake.background = [{"call": "another", "command": "y"}]  # until the client has come
    with served(dirs, fake, idle_seconds=0.2) as one:
        with BlockingClient(dirs) as client:
            result = client.call(plan("background x"))
            assert result.ending is Ending.RUNNING
            del fake.background[0]
        assert not one.ended.wait(1)
        with BlockingClient(dirs) as client:
            assert [one["id"] for one in client.running()] == [result.id]
            client.end(result.id)
        assert one.ended.wait(WAIT_SECONDS)


def test_a_disconnect_cancels_the_call(running: Served) -> None:
    line = reach(running.dirs)
    line.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
    assert running.fake.started.wait(WAIT_SECONDS)
    line.close()
    wait_for(lambda: running.fake.cancelled == ["c1"], "cancelled")


def test_a_client_that_reads_nothing_is_cut_off(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNREAD_BYTES", 5_000_000)

    def flood(line: Line, number: int, megabytes: int) -> None:
        one = plan(f"flood {megabytes}").model_dump(mode="json")
        line.send({"id": number, "op": "call", "plan": one, "output": True})

    patient, deaf = reach(running.dirs), reach(running.dirs)
    deaf.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
    assert running.fake.started.wait(WAIT_SECONDS)
    for number in range(2, 9):  # each of them may be left unread, but not all
        flood(deaf, number, 2)
    wait_for(lambda: running.fake.cancelled == ["c1"], "cut off")
    for number in range(2, 9):
        flood(patient, number, 2)
        while (said := patient.receive()).get("event") != "result":
            assert said["event"] == "output"
    patient.close()
    deaf.close()


def test_a_disconnect_does_not_cut_an_undo_short(running: Served) -> None:
    line = reach(running.dirs)
    line.send({"id": 1, "op": "undo", "call": "slow"})
    assert running.fake.started.wait(WAIT_SECONDS)
    line.close()
    running.fake.release.set()
    wait_for(lambda: "undone slow" in running.fake.done, "undone")


def test_cancel_ends_the_call_alone(running: Served) -> None:
    line = reach(running.dirs)
    line.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
    assert running.fake.started.wait(WAIT_SECONDS)
    line.send({"id": 1, "op": "cancel"})
    assert line.receive() == {"id": 1, "event": "cancelled"}
    line.send({"id": 2, "op": "ping"})
    assert line.receive()["event"] == "result"
    line.close()


def test_shutdown_waits_for_nobody_when_forced(dirs: Dirs) -> None:
    with served(dirs) as one:
        line = reach(dirs)
        line.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
        assert one.fake.started.wait(WAIT_SECONDS)
        with BlockingClient(dirs) as client:
            assert client.shutdown() is False
            assert client.shutdown(force=True) is True
        assert one.ended.wait(WAIT_SECONDS)
        assert one.fake.cancelled == ["c1"]
        line.close()


def test_shutdown_names_what_keeps_a_supervisor_busy(
    running: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Dirs, "default", lambda: running.dirs)
    line = reach(running.dirs)
    line.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
    assert running.fake.started.wait(WAIT_SECONDS)
    running.fake.questions.append({"id": "c2", "agent": "main"})
    assert status(["shutdown"]) == FAILED
    named = "(`c2` of main waits for a person (`lockgate deny c2`))"
    assert f"the supervisor is busy with 1 calls {named}; try" in capsys.readouterr().err
    assert not running.ended.is_set()
    line.close()


def test_shutdown_returns_when_an_idle_supervisor_has_ended(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Dirs, "default", lambda: dirs)
    with BlockingClient(dirs) as client:
        client.ping()
    assert hold_lock(dirs) is None
    assert status(["shutdown"]) == 0
    lock = hold_lock(dirs)
    assert lock is not None
    os.close(lock)
    assert status(["shutdown"]) == 0
    assert capsys.readouterr().out == "the supervisor has ended\nno supervisor runs\n"


def test_another_version_is_replaced_when_idle(running: Served) -> None:
    assert running.server is not None
    running.server.freshness.code = "another"
    line = connect(running.dirs)
    assert line is not None
    from sandbox.client import connect as start

    start._replace(line)
    assert running.ended.wait(WAIT_SECONDS)


def test_a_server_that_ends_before_it_says_hello_is_none(dirs: Dirs) -> None:
    dirs.create()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(dirs.socket))
        listener.listen()

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert connect(dirs) is None
        thread.join()


def test_a_server_is_started_on_demand_and_replaced(dirs: Dirs) -> None:
    with BlockingClient(dirs) as client:
        first = client.ping()["pid"]
    with BlockingClient(dirs) as client:
        assert client.ping()["pid"] == first
    dirs.config.mkdir()
    dirs.settings.write_text("undo_mib: 1\n")
    with BlockingClient(dirs) as client:
        second = client.ping()["pid"]
        assert second != first
        assert client.shutdown(force=True)
    wait_for(lambda: not Path(f"/proc/{second}").exists(), "ended")
    assert not Path(f"/proc/{first}").exists()
    assert dirs.log.read_text() == ""


def test_a_server_that_cannot_start_says_why(dirs: Dirs) -> None:
    dirs.config.mkdir(parents=True)
    dirs.settings.write_text("colour: red\n")
    with BlockingClient(dirs) as client, pytest.raises(BadInput, match="`colour`"):
        client.ping()


def test_another_version_that_is_busy_is_said(running: Served) -> None:
    line = reach(running.dirs)
    line.send({"id": 1, "op": "call", "plan": plan("wait").model_dump(mode="json")})
    assert running.fake.started.wait(WAIT_SECONDS)
    assert running.server is not None
    running.server.freshness.code = "another"
    with pytest.raises(Unavailable) as caught:
        reach(running.dirs)
    assert "is busy with 1 calls; try again when they have ended" in str(caught.value)
    assert "it runs other code than is installed now" in str(caught.value)
    running.fake.background.append({"id": "c1", "agent": "main"})
    running.fake.questions.append({"id": "c2", "agent": "main"})
    with pytest.raises(Unavailable) as caught:
        reach(running.dirs)
    named = "(`c1` of main runs, `c2` of main waits for a person (`lockgate deny c2`))"
    assert f"is busy with 2 calls {named}; try again" in str(caught.value)
    with BlockingClient(running.dirs) as client:
        client.keep_running()  # what `ps`, `held`, `end` and `object` do: they are about that one
        assert client.running() == list(running_now(running.dirs)["running"])
    line.close()


GOES_ON = {
    "how long a hook waits": ("hooks: {unattended_seconds: 5}", "(`hooks`)"),
    "wider limits": ("limits: {seconds: 9000}\ncell: {pids: 2000}", "(`limits`, `cell`)"),
    "how long a span's delivery takes": ("telemetry: {seconds: 9}", "(`telemetry`)"),
    "a collector that is new": (
        "telemetry: {endpoint: 'http://127.0.0.1:4318'}",
        "(`telemetry`)",
    ),
    "a log that is kept less long": ("audit: {rotate_mib: 8, keep: 3}", "(`audit`)"),
    "a comment": ("# nothing", "the new file counts"),
}
MUST_NOT = {
    "masked outputs": ("hooks: {redact: true}", "`hooks` may be stricter now"),
    "a narrower limit": ("limits: {seconds: 9}", "`limits` may be stricter now"),
    "another runtime": ("warm: 1\nruntime: runsc", "`runtime` may be stricter now"),
    "a budget": ("budgets: {everybody: {calls_per_minute: 9}}", "`budgets` may be stricter now"),
    "what nobody can read": ("colour: red", "the settings cannot be read: "),
}


@contextlib.contextmanager
def busy(running: Served, settings: str) -> Iterator[None]:
    """Keep a supervisor busy, and change the settings meanwhile."""
    running.fake.background.append({"id": "c1", "agent": "main"})
    running.dirs.config.mkdir(exist_ok=True)
    running.dirs.settings.write_text(settings + "\n")
    yield
    running.fake.background.clear()


@pytest.mark.parametrize("settings, said", GOES_ON.values(), ids=GOES_ON)
def test_a_busy_supervisor_goes_on_where_it_is_as_strict(
    running: Served, settings: str, said: str
) -> None:
    notes: list[str] = []
    with busy(running, settings), BlockingClient(running.dirs, notify=notes.append) as client:
        assert client.call(plan("exit 3")).exit_status == 3
    [note] = notes
    assert "it is busy with 1 calls (`c1` of main runs)" in note
    assert said in note
    assert not running.ended.is_set()


@pytest.mark.parametrize("settings, said", MUST_NOT.values(), ids=MUST_NOT)
def test_a_busy_supervisor_that_may_be_less_strict_takes_no_call(
    running: Served, settings: str, said: str
) -> None:
    with busy(running, settings), BlockingClient(running.dirs) as client:
        with pytest.raises(Unavailable) as caught:
            client.call(plan("exit 3"))
        assert said in str(caught.value)
        client.keep_running()
        assert client.running()[0]["id"] == "c1"
    assert running.fake.plans == []


def test_a_persons_word_waits_until_a_busy_supervisor_can_be_replaced(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def calls_end(message: str) -> None:
        said.append(message)
        running.fake.background.clear()

    def start(_: Dirs) -> bool:
        assert running.ended.wait(WAIT_SECONDS)
        raise Unavailable("a new one would decide")

    monkeypatch.setattr("sandbox.client.connect._start", start)
    with busy(running, "limits: {seconds: 9}"):
        client = BlockingClient(running.dirs, wait_seconds=WAIT_SECONDS, on_wait=calls_end)
        with client, pytest.raises(Unavailable, match="a new one would decide"):
            client.call(plan("exit 3"))
    [line] = said
    assert line.endswith("s for 1 calls (`c1` of main runs)")
    assert running.fake.plans == []


def test_it_waits_no_longer_than_it_says(running: Served) -> None:
    said: list[str] = []
    with busy(running, "limits: {seconds: 9}"):
        client = BlockingClient(running.dirs, wait_seconds=0.7, on_wait=said.append)
        with client, pytest.raises(Unavailable, match="is busy with 1 calls"):
            client.call(plan("exit 3"))
    assert len(said) == 1
    assert running.fake.plans == []


BROKEN = {
    "not JSON": b"hello\n",
    "not an object": b"[1]\n",
    "nested without end": b"[" * 100_000 + b"\n",
    "no id": b'{"op": "ping"}\n',
    "no op": b'{"id": 1}\n',
    "not UTF-8": b'{"id": "\xff"}\n',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_not_as_agreed_ends_the_connection(running: Served, data: bytes) -> None:
    with raw(running.dirs) as connection:
        connection.sendall(data)
        decoder = wire.Decoder()
        said = []
        while piece := connection.recv(65536):
            said += decoder.feed(piece)
    assert [one["event"] for one in said] == ["hello", "error"]
    with BlockingClient(running.dirs) as client:
        client.ping()


def test_a_line_without_end_ends_the_connection(running: Served) -> None:
    with raw(running.dirs) as connection, pytest.raises(ConnectionError):
        for _ in range(64):
            connection.sendall(b"x" * 1_000_000)
    with BlockingClient(running.dirs) as client:
        client.ping()


FAILURES = {
    "stopped": ("stopped", Stopped, "stopped: a test; `lockgate resume` clears it"),
    "not enforced": ("broken", NotEnforced, "container differs from its plan: network"),
    "a defect": ("crash", SandboxError, "the supervisor failed: ValueError: not ours"),
}


@pytest.mark.parametrize("command, kind, message", FAILURES.values(), ids=FAILURES)
def test_failures_keep_their_kind(
    running: Served, command: str, kind: type[SandboxError], message: str
) -> None:
    with BlockingClient(running.dirs) as client, pytest.raises(SandboxError) as caught:
        client.call(plan(command))
    assert (type(caught.value), str(caught.value)) == (kind, message)


def test_a_wrong_plan_is_bad_input(running: Served) -> None:
    with BlockingClient(running.dirs) as client:
        with pytest.raises(BadInput, match="the plan's `tool`: field required"):
            client.exchange({"op": "call", "plan": {"workspace": "/w"}})
        with pytest.raises(BadInput, match="the plan holds half a character"):
            client.exchange({"op": "call", "plan": {"workspace": "/w", "tool": "\udcff"}})
        with pytest.raises(BadInput, match="`frob` is no request"):
            client.exchange({"op": "frob"})
        with pytest.raises(BadInput, match="`env` is not given as names and texts"):
            client.exchange({"op": "call", "plan": plan("exit 0").model_dump(), "env": {"A": 1}})
        with pytest.raises(BadInput, match="`call` is not given as text"):
            client.exchange({"op": "undo"})


def test_the_workspace_is_found_from_where_the_client_stands(
    running: Served, tmp_path: Path
) -> None:
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)
    Registry(running.dirs).add(tmp_path / "project", approved=True)
    bare = {"tool": "Bash", "params": {"command": "exit 0"}}
    with BlockingClient(running.dirs) as client:
        client.exchange({"op": "call", "plan": bare, "here": str(inside)})
        client.exchange(
            {"op": "call", "plan": {**bare, "workspace": str(tmp_path / "project")}, "here": "/"}
        )
        with pytest.raises(BadInput, match="is in no registered workspace"):
            client.exchange({"op": "call", "plan": bare, "here": "/"})
        with pytest.raises(BadInput, match="is not a workspace but lies in"):
            client.exchange({"op": "call", "plan": {**bare, "workspace": str(inside)}, "here": "/"})
        with pytest.raises(BadInput, match="the folder you are in is gone"):
            client.exchange({"op": "call", "plan": bare, "here": None})
    first, second = running.fake.plans
    assert (first.workspace, first.cwd) == (str(tmp_path / "project"), str(inside))
    assert (second.workspace, second.cwd) == (str(tmp_path / "project"), None)


def test_many_clients_at_once(running: Served) -> None:
    statuses: list[int | None] = []

    def one(number: int) -> None:
        with BlockingClient(running.dirs) as client:
            for _ in range(5):
                statuses.append(client.call(plan(f"exit {number}")).exit_status)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(s for s in statuses if s is not None) == sorted([*range(8)] * 5)


def test_a_message_longer_than_a_line_goes_in_pieces() -> None:
    message = {"id": 1, "text": "é" * 2_000_000}
    data = wire.encode(message)
    assert max(map(len, data.split(b"\n"))) <= wire.LINE_BYTES
    decoder = wire.Decoder()
    found = []
    for at in range(0, len(data), 65_537):
        found += decoder.feed(data[at : at + 65_537])
    assert found == [message]


def test_a_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadInput, match="the message is longer"):
        wire.encode({"text": "x" * (wire.MESSAGE_CHARS + 1)})


def test_serve_removes_only_its_own_socket(dirs: Dirs) -> None:
    with served(dirs):
        dirs.socket.unlink()
        dirs.socket.write_text("somebody else's")
    assert dirs.socket.read_text() == "somebody else's"
