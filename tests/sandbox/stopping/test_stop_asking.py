# SPDX-License-Identifier: Apache-2.0
"""Ways to ask for a stop: a signal, the socket, Ctrl-C twice; and to end one: a person alone."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from policy.people.reports import YellowReport
from sandbox.agents.registry import Registry as Agents
from sandbox.agents.view import tree
from sandbox.audit.store import Store
from sandbox.client.blocking import BlockingClient
from sandbox.host.latch import Latch, LatchInfo
from sandbox.processes.table import Host
from sandbox.reporting.yellow_reports import Reports
from sandbox.stopping.latch_watch import LOOK_SECONDS, PATIENCE_SECONDS, StopWatch
from tests.fakes import Served, lines_of
from tests.sandbox.shells import ROOT, Shell

WAIT_SECONDS = 120.0


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a bound."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def stops(shell: Shell) -> list[str]:
    """Return the reasons of the stops that are recorded."""
    records = lines_of(Store(shell.dirs))
    return [str(one["reason"]) for one in records if one["event"] == "stop"]


def test_a_signal_to_the_supervisor_stops(shell: Shell) -> None:
    with BlockingClient(shell.dirs) as client:
        pid = int(client.ping()["pid"])
        supervisor = Host().process(pid)
        assert supervisor is not None
        try:
            assert Latch(shell.dirs).read() is None
            os.kill(pid, signal.SIGUSR1)
            wait_for(lambda: Latch(shell.dirs).read(), "the latch is set")
            wait_for(lambda: stops(shell), "the stop is recorded")
            assert stops(shell) == ["the signal USR1 to the supervisor"]
            assert int(client.ping()["pid"]) == pid  # it goes on, and answers
        finally:
            Host().send(supervisor.known, signal.SIGKILL)


def test_a_file_made_by_hand_is_carried_out_by_a_supervisor(shell: Shell) -> None:
    with BlockingClient(shell.dirs) as client:
        supervisor = Host().process(int(client.ping()["pid"]))
        assert supervisor is not None
        try:
            (shell.dirs.state / "STOP").write_text("it went wrong")
            wait_for(lambda: stops(shell), "the stop is carried out")
            assert stops(shell) == ["it went wrong"]
        finally:
            Host().send(supervisor.known, signal.SIGKILL)


def test_a_stop_that_is_done_is_not_carried_out_again(shell: Shell) -> None:
    with BlockingClient(shell.dirs) as client:
        supervisor = Host().process(int(client.ping()["pid"]))
        assert supervisor is not None
        try:
            assert shell("stop", "--reason", "a person")[0] == 0
            time.sleep(4 * LOOK_SECONDS)
            assert stops(shell) == ["a person"]
        finally:
            Host().send(supervisor.known, signal.SIGKILL)


PATIENT = f"""
import sys
sys.path.append({str(ROOT)!r})
from sandbox.cli.control import interrupts
from sandbox.cli.entry import main
interrupts.WINDOW_SECONDS = 120.0
main()
"""
"""The command line, with all the time that a busy machine may need for a second key."""


class Terminal:
    """A command at a terminal of its own, at which keys are pressed."""

    def __init__(self, shell: Shell, *words: str, patient: bool = False) -> None:
        self.mine, theirs = pty.openpty()
        program = ["-I", "-S", "-c", PATIENT] if patient else ["-m", "sandbox.cli.main"]
        self.process = subprocess.Popen(
            [sys.executable, *program, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=shell.workspace,
            env=shell.env,
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.shown = b""

    def until(self, text: bytes) -> None:
        """Read until a text is shown."""
        while text not in self.shown:
            assert select.select([self.mine], [], [], WAIT_SECONDS)[0], self.shown
            try:
                piece = os.read(self.mine, 65536)
            except OSError:
                piece = b""
            assert piece, self.shown
            self.shown += piece

    def rest(self) -> str:
        """Read to the end."""
        while select.select([self.mine], [], [], WAIT_SECONDS)[0]:
            try:
                piece = os.read(self.mine, 65536)
            except OSError:
                break
            self.shown += piece
        os.close(self.mine)
        return self.shown.decode().replace("\r\n", "\n")


def test_ctrl_c_once_cancels_the_call_alone(shell: Shell, running: Served) -> None:
    terminal = Terminal(shell, "run", "wait")
    terminal.until(b"started")
    os.write(terminal.mine, b"\x03")
    shown = terminal.rest()
    assert terminal.process.wait(WAIT_SECONDS) == 130
    assert "lockgate: cancelling; Ctrl-C again within 2 s stops everything" in shown
    assert "cancelled: the command was ended, nothing of it landed" in shown
    assert Latch(shell.dirs).read() is None
    assert running.fake.cancelled == ["c1"]


def test_ctrl_c_at_the_question_says_that_nothing_ran(shell: Shell, running: Served) -> None:
    terminal = Terminal(shell, "run", "ask x")
    terminal.until(b"[yes/no]")
    os.write(terminal.mine, b"\x03")
    shown = terminal.rest()
    assert terminal.process.wait(WAIT_SECONDS) == 130
    assert ("not run: you gave no answer" in shown, "was ended" in shown) == (True, False)


def test_ctrl_c_twice_stops_everything(shell: Shell, running: Served) -> None:
    terminal = Terminal(shell, "run", "wait", patient=True)
    terminal.until(b"started")
    os.write(terminal.mine, b"\x03")
    terminal.until(b"Ctrl-C again")
    os.write(terminal.mine, b"\x03")
    shown = terminal.rest()
    assert terminal.process.wait(WAIT_SECONDS) == 130
    assert (
        "stopped: Ctrl-C twice in `lockgate run`; `lockgate resume` lets calls run again" in shown
    )
    assert Latch(shell.dirs).read() is not None


@pytest.mark.parametrize("presses", [1, 5])
def test_the_second_ctrl_c_may_come_when_the_call_is_cancelled(
    shell: Shell, running: Served, presses: int
) -> None:
    terminal = Terminal(shell, "run", "wait", patient=True)
    terminal.until(b"started")
    os.write(terminal.mine, b"\x03")
    terminal.until(b"nothing of it landed")
    for _ in range(presses):  # impatience takes nothing back
        os.write(terminal.mine, b"\x03")
        time.sleep(0.05)
    shown = terminal.rest()
    assert terminal.process.wait(WAIT_SECONDS) == 130
    assert "stopped: Ctrl-C twice in `lockgate run`" in shown
    assert Latch(shell.dirs).read() is not None
    assert stops(shell) == ["Ctrl-C twice in `lockgate run`"]


KEYS = """
import os, signal, sys
from sandbox.cli.control.interrupts import keep_going
if sys.argv[1:]:
    keep_going()
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
    os.kill(os.getpid(), number)
print("on")
"""


@pytest.mark.parametrize("kept", [True, False])
def test_neither_a_key_nor_a_hang_up_ends_a_stop(shell: Shell, kept: bool) -> None:
    words = [sys.executable, "-c", KEYS, *(["kept"] if kept else [])]
    done = subprocess.run(words, env=shell.env, capture_output=True, timeout=WAIT_SECONDS)
    assert (done.stdout == b"on\n") is kept


@pytest.mark.parametrize(
    ("text", "stops"), [("stop", True), (" Abort! ", True), ("stop it", False)]
)
def test_the_word_in_a_shell_stops_its_agent(
    shell: Shell, running: Served, text: str, stops: bool
) -> None:
    shell.env["LOCKGATE_AGENT_NAME"] = "a"
    status, _, err = shell("shell", "-c", text)
    wanted = [("the agent said stop", "a", True)] if stops else []
    assert running.fake.stops == wanted, err
    assert not stops or status == 126


def test_who_says_the_word_is_the_agent_that_its_calls_count_as(
    shell: Shell, running: Served
) -> None:
    shell.env["LOCKGATE_AGENT_NAME"] = "another"
    word = f"{sys.executable} -m sandbox.cli.main shell -c stop"
    shell("agent", "run", "--name", "w", "--", "bash", "-c", f"{word}; true")
    assert running.fake.stops == [("the agent said stop", "w:another", True)]


def test_a_stop_whose_setter_hangs_is_carried_out(shell: Shell) -> None:
    stopped, now = list[LatchInfo](), 100.0
    latch = Latch(shell.dirs)
    latch.set("a test")  # by this process, which goes on to live

    async def on_stop(info: LatchInfo) -> None:
        stopped.append(info)

    watch = StopWatch(latch, Agents(shell.dirs), on_stop, clock=lambda: now)
    asyncio.run(watch.look())
    now += PATIENCE_SECONDS - 1
    asyncio.run(watch.look())
    assert stopped == []  # it may be at it
    now += 2
    asyncio.run(watch.look())
    asyncio.run(watch.look())
    assert [one.reason for one in stopped] == ["a test"]


@pytest.mark.parametrize("held", ["a", "a:b", "other"])
def test_the_tree_shows_which_cells_are_of_agents_that_are_stopped(shell: Shell, held: str) -> None:
    Latch(shell.dirs).set("a test", agent=held)
    Latch(shell.dirs).set("a test", agent="p", until=time.time() + 60)
    nodes = tree(shell.dirs, [], [{"name": "c1", "agent": "a:b"}, {"name": "c2", "agent": "p"}])
    wanted = "running" if held == "other" else "stopped"
    assert [one["state"] for one in nodes] == [wanted, "paused"]


def test_two_signals_without_a_terminal_are_no_person(shell: Shell, running: Served) -> None:
    process = shell.start("run", "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_SECONDS)
    assert Latch(shell.dirs).read() is None


def test_stop_and_resume_of_one_agent(shell: Shell) -> None:
    Latch(shell.dirs.create()).set("a test", agent="a:b")
    status, _, err = shell("resume", "--agent", "b")
    assert (status, "a person's decision" in err) == (126, True)
    assert shell("resume") == (
        0,
        "not stopped\n",
        "lockgate: agents that are stopped or paused: a:b; `lockgate resume --agent A`\n",
    )
    assert shell.at_terminal("resume", "--agent", "b")[0] == 0
    assert Latch(shell.dirs).agents() == []
    status, _, err = shell("stop", "--agent", "nobody")
    assert (status, "there is no agent `nobody`" in err) == (2, True)


def test_stops_of_agents_that_run_no_more_stand_apart_and_are_cleared_together(
    shell: Shell,
) -> None:
    """Found when `lockgate ps` listed the stop of every agent that there ever was."""
    latch = Latch(shell.dirs.create())
    assert shell("agent", "add", "declared")[0] == 0
    for name in ("main", "declared", "gone-1a2b", "main:sub:7", *(f"x{n}" for n in range(6))):
        latch.set("a test", agent=name)
    latch.set("a pause", agent="paused", until=time.time() + 600)
    status, out, err = shell("ps")
    assert status == 0, out
    one_each = [line for line in err.splitlines() if "was stopped" in line]
    assert sorted(line.split("`")[1] for line in one_each) == ["declared", "main"]
    assert " and 3 more; `lockgate resume --ended`" in err
    found = json.loads(shell("ps", "--json")[1])
    assert (len(found["stopped"]), len(found["stopped_ended"])) == (3, 8)
    status, _, err = shell("resume", "--ended")
    assert (status, "a person's decision" in err) == (126, True)
    assert len(latch.agents()) == 11
    assert shell.at_terminal("resume", "--ended")[0] == 0
    assert sorted(str(one.agent) for one in latch.agents()) == ["declared", "main", "paused"]
    assert shell("resume", "--ended")[1] == "no agent is stopped of which nothing runs\n"
    assert shell("resume", "--ended", "--agent", "main")[0] == 2


def test_an_agent_at_a_terminal_is_no_person(shell: Shell) -> None:
    Latch(shell.dirs.create()).set("a test", agent="other")
    inner = f"{sys.executable} -m sandbox.cli.main resume --agent other; echo status $?"
    status, shown = shell.at_terminal("agent", "run", "--", "bash", "-c", inner)
    assert (status, "status 126" in shown) == (0, True), shown
    assert Latch(shell.dirs).read("other") is not None
    status, shown = shell.at_terminal("resume", "--agent", "other")  # the control: a person
    assert (status, Latch(shell.dirs).read("other")) == (0, None)


def test_what_was_granted_before_a_stop_is_worth_nothing_after_it(shell: Shell) -> None:
    shell("init", "--yes", str(shell.workspace))
    status, shown = shell.at_terminal("grant", "--for", "10m", "--", "rm a.txt")
    assert (status, "granted" in shown) == (0, True), shown
    assert "rm a.txt" not in shell("stop")[1]
    assert json.loads(shell("grants", "--json")[1]) == []
    shell.at_terminal("resume")
    assert json.loads(shell("grants", "--json")[1]) == []
    stop = next(line for line in (shell.dirs.state / "audit.jsonl").read_text().splitlines()
                if '"event":"stop"' in line)  # fmt: skip
    assert "1 grant was taken back" in stop


def test_reports_that_an_agent_read_still_wait_for_a_person(shell: Shell) -> None:
    report = YellowReport(
        action="rm", category="x", details="ran `rm a`", timestamp="2026-01-02T03:04:05Z",
        reversible=True, undo_command="lockgate undo c1",
    )  # fmt: skip
    Reports(shell.dirs.create()).note([("c1", "me", report, None)])
    words = (sys.executable, "-m", "sandbox.cli.main", "reports")
    assert "ran `rm a`" in shell("agent", "run", "--", *words)[1]
    assert "ran `rm a`" in shell("reports")[1]  # a person; the control is the next line
    assert shell("reports")[1] == "nothing to report\n"


def test_a_paused_agent_is_resumed_by_its_own_command(shell: Shell) -> None:
    Latch(shell.dirs.create()).set("it was busy", agent="a", until=time.time() + 600)
    found = json.loads(shell("ps", "--json")[1])
    assert "agent `a` is paused until" in found["stopped"][0]
    status, shown = shell.at_terminal("agent", "resume", "a")
    assert (status, "it was paused" in shown) == (0, True)
    assert Latch(shell.dirs).read("a") is None


@pytest.mark.parametrize("words", [("list",), ("show", "a"), ("remove", "a")])
def test_agent_commands_without_agents(shell: Shell, words: tuple[str, ...]) -> None:
    status, out, err = shell("agent", *words)
    if words == ("list",):
        assert (status, out.startswith("no agent is declared or under watch; ")) == (0, True)
    else:
        assert (status, err) == (
            2,
            "lockgate: there is no agent `a`; see `lockgate agent list`\n",
        )
