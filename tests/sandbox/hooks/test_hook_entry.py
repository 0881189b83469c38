# SPDX-License-Identifier: Apache-2.0
"""The hook program by itself: whatever is wrong with its supervisor or its streams is a block."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.client.blocking import BlockingClient
from sandbox.host.dirs import Dirs
from tests.fakes import served

ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 120
EVENT = b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}'
GOOD = {"stdout": "yes\n", "stderr": "", "status": 0}
START = (
    "import sys; from sandbox.cli import entry; from sandbox.client import hook_program as hook; "
    "hook.DEADLINE_SECONDS = 1; sys.argv = ['lockgate', 'hook', 'codex']; entry.main()"
)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # short enough for a socket
        yield Path(made)


@contextlib.contextmanager
def listening(home: Path) -> Iterator[socket.socket]:
    """Yield the socket at which the hook looks for its supervisor."""
    dirs = Dirs(home / "s/lockgate", home / "c/lockgate", home / "r/lockgate")
    dirs.socket.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(dirs.socket))
        yield one


@contextlib.contextmanager
def serving(home: Path, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Answer each connection."""
    with listening(home) as one:
        one.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken, _ = one.accept()
                    threading.Thread(target=each, args=(taken,), daemon=True).start()

        def each(taken: socket.socket) -> None:
            with contextlib.suppress(OSError), taken:
                answer(taken)

        threading.Thread(target=serve, daemon=True).start()
        yield
        one.shutdown(socket.SHUT_RDWR)


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "s"),
        "XDG_CONFIG_HOME": str(home / "c"),
        "XDG_RUNTIME_DIR": str(home / "r"),
        "PYTHONPATH": str(ROOT),
    }


def hook(home: Path, *, seconds: int = 1, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run the hook program, which gives up after so many seconds."""
    defaults: dict[str, object] = {"input": EVENT, "stdout": subprocess.PIPE}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", START.replace("= 1;", f"= {seconds};")],
        **{**defaults, **options},
        stderr=subprocess.PIPE,
        env=environment(home),
        timeout=WAIT_SECONDS,
        check=False,
    )


def says(value: object) -> Callable[[socket.socket], object]:
    line = json.dumps({"id": 1, "event": "result", "value": value}).encode() + b"\n"

    def answer(taken: socket.socket) -> None:
        taken.recv(1 << 20)
        taken.sendall(line)

    return answer


def blocks(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether every agent takes it for a block: without the line two let the call run."""
    return done.returncode == 2 and not done.stdout and done.stderr.count(b"\n") == 1


def _for_ever(taken: socket.socket) -> None:
    while taken.recv(1 << 20):
        pass


def _something_else_for_ever(taken: socket.socket) -> None:
    while not threading.Event().wait(0.1):
        taken.sendall(b'{"id": 9}\n')


def test_an_answer_is_printed(home: Path) -> None:
    with serving(home, says(GOOD)):
        done = hook(home)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"yes\n", b"")


@pytest.mark.parametrize("answer", [_for_ever, _something_else_for_ever])
def test_a_supervisor_that_never_answers_is_a_block(
    home: Path, answer: Callable[[socket.socket], object]
) -> None:
    with serving(home, answer):
        done = hook(home)
    assert blocks(done)
    assert b"no decision within 1 s" in done.stderr


def test_a_supervisor_that_takes_no_connection_is_a_block(home: Path) -> None:
    with listening(home) as one, contextlib.ExitStack() as stack:
        one.listen(0)
        for _ in range(2):  # they fill its queue
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(OSError):
                waiting.connect(one.getsockname())
        assert blocks(hook(home))


def test_input_that_does_not_end_is_a_block(home: Path) -> None:
    reading, writing = os.pipe()
    with serving(home, says(GOOD)):
        done = hook(home, input=None, stdin=reading)
    os.close(reading)
    os.close(writing)
    assert blocks(done)


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"stdout": "yes"}, {**GOOD, "status": "x"}, {**GOOD, "status": None}],
)
def test_half_an_answer_is_a_block(home: Path, value: object) -> None:
    with serving(home, says(value)):
        assert blocks(hook(home))


def test_an_answer_that_cannot_be_printed_is_a_block(home: Path) -> None:
    with serving(home, says(GOOD)), Path("/dev/full").open("wb") as full:
        done = hook(home, stdout=full)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_only_the_kind_of_an_error_says_that_a_supervisor_knows_no_hooks() -> None:
    from sandbox.client import hook_program

    ours, theirs = socket.socketpair()
    with ours, theirs:
        error = {"id": 1, "event": "error", "message": "`hook` is no request of this supervisor"}
        theirs.sendall(json.dumps({**error, "kind": "UnknownRequest"}).encode() + b"\n")
        assert hook_program._answer(ours) is None
        theirs.sendall(json.dumps({**error, "kind": "BadInput"}).encode() + b"\n")
        with pytest.raises(ConnectionError, match="no request of this supervisor"):
            hook_program._answer(ours)


def test_changed_settings_count_at_the_next_hook(home: Path) -> None:
    """They never did: only a command of a person's replaced the supervisor."""
    dirs = Dirs(home / "s/lockgate", home / "c/lockgate", home / "r/lockgate")
    (home / "r").mkdir()
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(home)}
    said = json.dumps({**event, "tool_input": {"command": "rm -rf /"}, "session_id": "s-1"})

    def answered() -> int:
        """Have a hook answered, and return whose answer it was."""
        done = hook(home, seconds=WAIT_SECONDS, input=said.encode())
        assert b"deny" in done.stdout, done.stderr
        return int(json.loads(dirs.lock.read_text())["pid"])

    try:
        first = answered()
        assert answered() == first
        dirs.config.mkdir(parents=True)
        dirs.settings.write_text("hooks: {unattended_seconds: 5}\n")
        second = answered()
        assert second != first
        dirs.settings.write_text("colour: red\n")
        done = hook(home, seconds=WAIT_SECONDS, input=said.encode())
        assert (done.returncode, b"`colour`" in done.stderr) == (2, True)
    finally:
        dirs.settings.unlink(missing_ok=True)
        with BlockingClient(dirs) as client:
            assert client.shutdown(force=True)


def test_while_a_supervisor_is_busy_hooks_go_on_with_what_is_as_strict(home: Path) -> None:
    dirs = Dirs(home / "s/lockgate", home / "c/lockgate", home / "r/lockgate")
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": str(home)}
    before = json.dumps({**event, "tool_input": {"command": "ls"}, "session_id": "s-1"})
    after = json.dumps({**json.loads(before), "hook_event_name": "PostToolUse"})
    refused = "`limits` may be stricter now in the settings, and it cannot be replaced while"
    with served(dirs) as running:
        running.fake.background.append({"id": "c1", "agent": "main"})
        dirs.config.mkdir(parents=True, exist_ok=True)
        dirs.settings.write_text("limits: {seconds: 5000}\n")
        assert (
            refused not in hook(home, seconds=WAIT_SECONDS, input=before.encode()).stdout.decode()
        )
        dirs.settings.write_text("limits: {seconds: 5}\n")
        said = hook(home, seconds=WAIT_SECONDS, input=before.encode()).stdout.decode()
        assert refused in said
        assert "busy (`c1` of main runs): `lockgate end CALL` ends" in said
        assert refused not in hook(home, seconds=WAIT_SECONDS, input=after.encode()).stdout.decode()
        assert not running.ended.is_set()


@pytest.mark.parametrize("shells", [0, 2])
def test_a_hook_whose_agent_is_killed_ends_with_it(home: Path, shells: int) -> None:
    """Also where the shells around it live on: whoever waits for it learns that it is gone."""
    came, left = threading.Event(), threading.Event()

    def answer(taken: socket.socket) -> None:
        came.set()
        _for_ever(taken)
        left.set()

    start = START.replace("hook.DEADLINE_SECONDS = 1", f"hook.DEADLINE_SECONDS = {WAIT_SECONDS}")
    words = [sys.executable, "-c", start]
    for _ in range(shells):
        words = ["/bin/sh", "-c", '"$@"; exit 2', "sh", *words]
    agent = (
        "import subprocess, sys; hook = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); "
        f"hook.stdin.write({EVENT!r}); hook.stdin.close(); hook.wait()"
    )
    with serving(home, answer):
        env = {**environment(home), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen([sys.executable, "-c", agent, *words], env=env) as one:
            assert came.wait(WAIT_SECONDS)
            assert not left.is_set()
            one.kill()
        assert left.wait(WAIT_SECONDS / 2)


def test_help_is_printed(home: Path) -> None:
    words = [sys.executable, "-m", "sandbox.cli.entry", "hook", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: lockgate hook AGENT")
