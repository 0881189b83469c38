# SPDX-License-Identifier: Apache-2.0
"""`lockgate run` against a fake supervisor: statuses, streams, questions, Ctrl-C."""

from __future__ import annotations

import json
import signal

import pytest

from tests.fakes import Served, wait_for
from tests.sandbox.shells import WAIT_SECONDS, Shell

STATUSES = {
    "the command's own": (["exit 0"], 0, ""),
    "the command's own failure": (["exit 3"], 3, ""),
    "not found": (["nothing"], 127, ""),
    "ended by a signal": (["exit 137"], 137, ""),
    "the time limit": (["late"], 124, "lockgate: the command was ended: the time limit is over\n"),
    "denied": (["deny"], 126, "lockgate: denied: no: because\n"),
    "nobody to ask": (["ask"], 126, "lockgate: not approved: nobody to ask\n"),
    "stopped": (
        ["stopped"],
        126,
        "lockgate: stopped: a test; `lockgate resume` clears it\n",
    ),
    "the sandbox fails": (["broken"], 125, "lockgate: container differs from its plan: network\n"),
    "a defect": (["crash"], 125, "lockgate: the supervisor failed: ValueError: not ours\n"),
    "held": (
        ["hold"],
        126,
        "lockgate: held: `a.py` was deleted; `lockgate show c1`, then `lockgate land c1` or "
        "`lockgate discard c1`\n",
    ),
    "landed": (["land"], 0, "lockgate: landed 1 change; `lockgate undo c1` takes it back\n"),
    "landed, quietly": (["-q", "land"], 0, ""),
    "no yes without a terminal": (
        ["--yes", "ask"],
        126,
        "lockgate: `--yes` is a person's word and counts only at a terminal\n",
    ),
}


@pytest.mark.parametrize("words, status, err", STATUSES.values(), ids=STATUSES)
def test_status(shell: Shell, running: Served, words: list[str], status: int, err: str) -> None:
    assert shell("run", *words) == (status, "", err)


def test_output_is_passed_on(shell: Shell, running: Served) -> None:
    assert shell("run", "say hi there") == (0, "hi there", "to stderr\n")


def test_output_is_made_safe_unless_raw(shell: Shell, running: Served) -> None:
    assert shell("run", "bytes") == (0, "\ufffd\\x1b]0;title\\x07\\x0dé\n", "")
    with shell.start("run", "--raw", "bytes") as process:
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert out == b"\xff\x1b]0;title\x07\r\xc3\xa9\n"


def test_several_arguments_are_quoted_and_one_is_shell_text(shell: Shell, running: Served) -> None:
    shell("run", "--", "exit", "0")
    shell("run", "nothing", "a b", "--flag", "it's")
    shell("run", "nothing | wc -l > 'x y'")
    commands = [plan.params.command for plan in running.fake.plans]
    assert commands == ["exit 0", "nothing 'a b' --flag 'it'\"'\"'s'", "nothing | wc -l > 'x y'"]


def test_options_reach_the_plan(shell: Shell, running: Served) -> None:
    inside = shell.workspace / "src"
    inside.mkdir()
    words = ["-w", str(shell.workspace), "--agent", "coder", "--role", "Critic", "--timeout", "2.5"]
    words += ["--env", "A=1=2", "--env", "B=", "--cwd", "src", "--intent", "why", "exit 0"]
    assert shell("run", *words)[0] == 0
    plan = running.fake.plans[0]
    assert (plan.agent, plan.role, plan.intent) == ("coder", "Critic", "why")
    assert (plan.workspace, plan.cwd) == (str(shell.workspace), str(inside))
    assert plan.params.timeout == 2500
    assert running.fake.environments == [{"A": "1=2", "B": ""}]


def test_the_workspace_is_the_one_around_you(shell: Shell, running: Served) -> None:
    inside = shell.workspace / "src"
    inside.mkdir()
    with shell.start("run", "exit 0", cwd=inside) as process:
        assert process.wait(WAIT_SECONDS) == 0
    plan = running.fake.plans[0]
    assert (plan.workspace, plan.cwd) == (str(shell.workspace), str(inside))


def test_input_is_passed_on(shell: Shell, running: Served) -> None:
    assert shell("run", "cat", data=b"one\ntwo\n") == (0, "one\ntwo\n", "")


def test_json_is_the_result(shell: Shell, running: Served) -> None:
    status, out, err = shell("run", "--json", "say hi")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["verdict"], found["exit_status"], found["stdout"]) == ("allow", 0, "hi")


def test_a_background_call_prints_its_id(shell: Shell, running: Served) -> None:
    status, out, err = shell("run", "--background", "background serve")
    assert (status, out) == (0, "c1\n")
    assert err == "lockgate: runs in the background; `lockgate end c1` ends and lands it\n"
    assert running.fake.plans[0].params.run_in_background is True


def test_ctrl_c_ends_the_call(shell: Shell, running: Served) -> None:
    with shell.start("run", "wait") as process:
        assert process.stdout is not None
        assert process.stdout.read(8) == b"started\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    assert err.decode() == "lockgate: cancelled: the command was ended, nothing of it landed\n"
    assert running.fake.cancelled == ["c1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_client_that_dies_ends_the_call(
    shell: Shell, running: Served, number: signal.Signals
) -> None:
    with shell.start("run", "wait") as process:
        assert running.fake.started.wait(WAIT_SECONDS)
        process.send_signal(number)
        process.communicate(timeout=WAIT_SECONDS)
    wait_for(lambda: running.fake.cancelled == ["c1"], "cancelled")


def test_a_reader_that_leaves_ends_the_call(shell: Shell, running: Served) -> None:
    with shell.start("run", "flood 100") as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


ANSWERS = {"yes": (b"yes\n", 0), "proceed": (b"PROCEED\n", 0), "no": (b"no\n", 126)}


@pytest.mark.parametrize("typed, status", ANSWERS.values(), ids=ANSWERS)
def test_a_person_is_asked(shell: Shell, running: Served, typed: bytes, status: int) -> None:
    command = "ask rm -f \x1b[2J 'a\nb' " + "x" * 70
    found, shown = shell.at_terminal(
        "run", command, typing=[(b"[yes/no]", typed)], env={"COLUMNS": "80"}
    )
    assert found == status
    card = shown[shown.index("Lockgate asks") :].split("\n")
    assert card[:10] == [
        "Lockgate asks: may this call run?",
        "  agent        | main calls Bash",
        "  command      | ask rm -f \\x1b[2J 'a",
        "               | b' " + "x" * 60,
        "               | " + "x" * 10,
        f"  starts in    | {shell.workspace}",
        "  risk         | danger",
        "  rule         | tier/delete",
        "  reason       | it deletes",
        "  may change   | nothing",
    ]
    assert ("lockgate: not approved: a person's no" in shown) == (status == 126)


def test_a_bare_y_is_not_a_yes(shell: Shell, running: Served) -> None:
    status, shown = shell.at_terminal(
        "run", "ask x", typing=[(b"[yes/no]", b"y\n"), (b"[yes/no]", b"no\n")]
    )
    assert status == 126
    assert "please type yes or no" in shown


def test_yes_at_a_terminal_approves(shell: Shell, running: Served) -> None:
    status, shown = shell.at_terminal("run", "--yes", "ask x", typing=[])
    assert (status, shown) == (0, "")


@pytest.mark.parametrize("seconds", ["0", "1"])
def test_nobody_is_asked_any_more_once_it_was_answered_elsewhere(
    shell: Shell, running: Served, seconds: str
) -> None:
    status, shown = shell.at_terminal("run", f"settled {seconds}", typing=[])
    assert status == 0
    assert shown.endswith("it runs\n")
    if seconds != "0":
        assert "lockgate: it was answered from elsewhere, or its time is over" in shown


BAD = {
    "no command": (["run"], 2, "missing argument 'COMMAND...'; see `lockgate run --help`"),
    "a time that is none": (["run", "--timeout", "0", "ls"], 2, None),
    "an environment that is none": (
        ["run", "--env", "A", "ls"],
        2,
        "invalid value for --env: `A` is not KEY=VALUE; see `lockgate run --help`",
    ),
    "a workspace that is not there": (
        ["run", "-w", "/nowhere/at/all", "ls"],
        125,
        "`/nowhere/at/all` does not exist",
    ),
    "a workspace that is not registered": (
        ["run", "-w", "/tmp", "ls"],
        125,
        "`/tmp` is not a registered workspace; `lockgate workspace add` registers it",
    ),
}


@pytest.mark.parametrize("words, status, message", BAD.values(), ids=BAD)
def test_bad_input_gets_one_line(
    shell: Shell, running: Served, words: list[str], status: int, message: str | None
) -> None:
    found, out, err = shell(*words)
    assert (found, out) == (status, "")
    assert err.count("\n") == 1
    assert err.startswith("lockgate: ")
    if message is not None:
        assert err == f"lockgate: {message}\n"


def test_outside_every_workspace_one_line_says_so(shell: Shell, running: Served) -> None:
    with shell.start("run", "ls", cwd=shell.workspace.parent) as process:
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (125, b"")
    assert err.decode() == (
        f"lockgate: `{shell.workspace.parent}` is in no registered workspace; `lockgate init` "
        "registers it, `-w PATH` names another\n"
    )


def test_a_workspace_that_has_become_a_link_is_refused(shell: Shell, running: Served) -> None:
    moved = shell.workspace.with_name("moved")
    shell.workspace.rename(moved)
    shell.workspace.symlink_to(moved)
    status, _, err = shell("run", "-w", str(shell.workspace), "ls")
    assert status == 125
    assert "is a symlink; name the real path" in err


def test_a_command_that_is_not_utf8_is_said(shell: Shell, running: Served) -> None:
    with shell.start("run", b"ls \xff") as process:  # type: ignore[arg-type]
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 125
    assert err == b"lockgate: the command is not UTF-8 text, so it cannot be judged\n"
