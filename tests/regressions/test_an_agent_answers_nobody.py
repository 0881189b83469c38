# SPDX-License-Identifier: Apache-2.0
"""What belongs to an agent answers no question and lands nothing, whichever way it comes in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.agents.registering import register
from sandbox.agents.registry import Registry
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.processes.cgroup import ControlGroup
from tests.fakes import FakeSupervisor, served
from tests.sandbox.shells import ROOT, Shell

CLIENT = """
import json, os, socket, sys, time
from pathlib import Path
from sandbox.client.wire import Decoder, encode

place, request, way = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
sys.stdin.readline()
if way == "handed":  # made by a process that has ended
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        line = socket.socket(socket.AF_UNIX)
        line.connect(place)
        socket.send_fds(theirs, [b"x"], [line.fileno()])
        os._exit(0)
    line = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
    os.wait()
else:
    line = socket.socket(socket.AF_UNIX)
    line.connect(place)
line.sendall(encode({"id": 1, **request}))
decoder = Decoder()
while True:
    for said in decoder.feed(line.recv(1 << 20)):
        if said.get("event") == "ask":
            line.sendall(encode({"id": 1, "op": "answer", "approved": True, "by": "me"}))
        elif said.get("id") == 1:
            print(json.dumps(said), flush=True)
            os._exit(0)
"""


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return Dirs.under(tmp_path).create()


def said(
    dirs: Dirs, request: dict[str, object], *, agent: str | None, way: str = "go"
) -> dict[str, object]:
    """Return the answer to a request by a program that belongs to `agent`, or to nobody's."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", CLIENT, str(dirs.socket), json.dumps(request), way]
    inner = subprocess.PIPE
    with subprocess.Popen(words, env=env, stdin=inner, stdout=inner, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        other = subprocess.Popen(["sleep", "60"])
        try:
            watched = process.pid if agent is not None else other.pid
            one = register(dirs, watched, name=agent or "other", source="test")
            process.stdin.write("\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            Registry(dirs).remove(one)
        finally:
            other.kill()
            other.wait()
            process.kill()
    found: dict[str, object] = json.loads(answer)
    return found


QUESTION = {"op": "call", "ask": True, "plan": {"tool": "Bash", "workspace": "/w"}}
QUESTION["plan"]["params"] = {"command": "ask"}  # type: ignore[index]


@pytest.fixture
def fake(dirs: Dirs) -> Iterator[FakeSupervisor]:
    """Return what stands behind the socket, which knows one call of agent `a`, one of `b`."""
    for call, agent in (("mine", "a"), ("its", "a:x"), ("another", "b")):
        record = {"event": "decision", "call": call, "agent": agent, "tool": "Bash"}
        Store(dirs).append(record_of({**record, "verdict": "allow", "plan": {}}), durable=False)
    fake = FakeSupervisor()
    with served(dirs, fake):
        yield fake


def test_an_agent_cannot_answer_its_own_question(dirs: Dirs, fake: FakeSupervisor) -> None:
    answer = said(dirs, QUESTION, agent="a")
    assert answer["value"]["ending"] == "not-approved"  # type: ignore[index]
    control = said(dirs, QUESTION, agent=None)  # a person's client is asked, and answers
    assert control["value"]["ending"] == "ran"  # type: ignore[index]


def test_an_agent_cannot_say_that_a_person_was_shown_a_report(
    dirs: Dirs, fake: FakeSupervisor
) -> None:
    call = {**QUESTION, "shows": True}
    assert said(dirs, call, agent="a")["event"] == "result"
    assert said(dirs, call, agent=None)["event"] == "result"  # a person's client may
    assert said(dirs, QUESTION, agent=None)["event"] == "result"
    assert fake.shown == [False, True, False]


ORPHAN = """
import os
input()
if os.fork():  # the agent
    os.execv("/bin/sleep", ["sleep", "60"])
os.setsid()
ended, end = os.pipe()
if (middle := os.fork()):  # the leader of a session
    os.close(end)
    os.waitpid(middle, 0)
    os.execv("/bin/sleep", ["sleep", "60"])
if os.fork():
    os._exit(0)
os.close(end)
os.read(ended, 1)  # until its parent has ended
print(os.getpid(), flush=True)
os.execve("/bin/sleep", ["sleep", "60"], {})
"""


def test_whom_a_stop_would_end_passes_for_nobody_else(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan without a mark, which only its session ties to the agent."""
    monkeypatch.setattr(ControlGroup, "make_beside", lambda *_: None)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        registry = Registry(dirs)
        one = register(dirs, process.pid, name="a", source="test")
        process.stdin.write(b"\n")
        process.stdin.flush()
        orphan = int(process.stdout.readline())
        try:
            assert process.pid not in {found.pid for found in registry.host.line(orphan)}
            assert registry.members(one)[orphan].why == "in its session"
            assert registry.of_process(orphan) == one
            assert registry.of_process(os.getpid()) is None
        finally:
            for pid in registry.members(one):
                os.kill(pid, 9)


def test_a_connection_whose_maker_has_ended_is_nobodys(dirs: Dirs, fake: FakeSupervisor) -> None:
    answer = said(dirs, QUESTION, agent="a", way="handed")
    assert answer["event"] == "error"
    assert "which made this connection, has ended" in str(answer["message"])
    assert not fake.plans


PERSONS = {
    "land": ({"op": "land", "call": "mine"}, "landing what was held is a person's decision"),
    "object": ({"op": "object", "call": "mine"}, "objecting to a landing is a person's decision"),
    "undo the last ones": ({"op": "undo-last", "count": 1}, "undoing whatever came last is a"),
    "end a busy supervisor": (
        {"op": "shutdown", "force": True},
        "ending a supervisor that is busy is a person's decision",
    ),
    "open a port of its own call": (
        {"op": "open-port", "call": "mine", "port": 80, "host_port": 8080},
        "opening a port of a cell is a person's decision",
    ),
    "close a port": (
        {"op": "close-port", "call": "mine"},
        "closing a port of a cell is a person's decision",
    ),
    "undo another's call": ({"op": "undo", "call": "another"}, "can undo calls of its own alone"),
    "undo by a word": ({"op": "undo", "call": "last"}, "can undo calls of its own alone"),
    "undo what there is not": ({"op": "undo", "call": "zz"}, "can undo calls of its own alone"),
    "discard another's call": ({"op": "discard", "call": "another"}, "can discard calls of its"),
    "end another's call": ({"op": "end", "call": "another"}, "can end calls of its own alone"),
}


@pytest.mark.parametrize("request_, why", PERSONS.values(), ids=PERSONS)
def test_what_is_a_persons_is_refused_to_an_agent(
    dirs: Dirs, fake: FakeSupervisor, request_: dict[str, object], why: str
) -> None:
    answer = said(dirs, request_, agent="a")
    assert (answer["event"], answer["kind"]) == ("error", "BadInput")
    assert why in str(answer["message"])
    assert not fake.done
    control = said(dirs, request_, agent=None)
    assert control["event"] == "result"


@pytest.mark.parametrize("call", ["mine", "its"])
@pytest.mark.parametrize("op", ["undo", "discard", "end"])
def test_an_agent_may_take_its_own_calls_back(
    dirs: Dirs, fake: FakeSupervisor, op: str, call: str
) -> None:
    assert said(dirs, {"op": op, "call": call}, agent="a")["event"] == "result"
    assert f"{op} {call}" in fake.done


# -- on the command line


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    return shell


def test_a_prompt_at_an_agents_terminal_is_no_prompt(shell: Shell) -> None:
    with served(shell.dirs, FakeSupervisor()):
        typing = [(b"[yes/no]", b"yes\n")]
        words = ("run", "-w", str(shell.workspace), "ask")
        shell("init", "--yes", str(shell.workspace))
        status, _ = shell.at_terminal(*words, typing=typing)
        assert status == 0  # a person
        status, shown = shell.at_terminal("agent", "run", "--name", "a", "--", *python(*words),
                                          typing=typing)  # fmt: skip
        assert status == 126, shown
        assert "yes/no" not in shown


def test_a_mark_counts_in_whatever_state_folder(shell: Shell) -> None:
    """An agent that names another state folder, where nobody is registered, is still an agent."""
    elsewhere = {"XDG_STATE_HOME": str(shell.workspace)}
    assert "grant `g1`" in shell.at_terminal("revoke", "g1", env=elsewhere)[1]
    marked = {**elsewhere, "LOCKGATE_AGENT": "a:0123"}
    status, shown = shell.at_terminal("revoke", "g1", env=marked)
    assert (status, "a person's decision" in shown) == (126, True)


COMMANDS = {
    "policy trust": ("policy", "trust", "--yes"),
    "workspace add": ("workspace", "add", "--yes", "/usr"),
    "show --before": ("show", "c1", "--before", ".env"),
    "init": ("init", "--yes", "/usr"),
    "port": ("port", "c1", "8123"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_yes_is_not_an_agents_word(shell: Shell, words: tuple[str, ...]) -> None:
    status, shown = shell.at_terminal(*words, env={"LOCKGATE_AGENT": "a:0123"})
    assert (status, "a person's decision" in shown) == (126, True), shown
    assert "a person's decision" not in shell.at_terminal(*words)[1]


def test_an_agent_puts_nobody_elses_process_under_watch(shell: Shell) -> None:
    """Else a stop would end what the agent chose."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            words = python("agent", "attach", str(other.pid), "--name", "x")
            status, _, err = shell("agent", "run", "--name", "a", "--", *words)
            assert status != 0
            assert "can put processes of its own alone under watch" in err
            assert Registry(shell.dirs).find("x") is None
            assert shell("agent", "attach", str(other.pid), "--name", "x")[0] == 0
        finally:
            other.kill()


def python(*words: str) -> tuple[str, ...]:
    """Return `lockgate WORDS` as a program."""
    return (sys.executable, "-m", "sandbox.cli.main", *words)
