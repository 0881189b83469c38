# SPDX-License-Identifier: Apache-2.0
"""The other commands: help, lists, what a person settles afterwards, and what bad input gets."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from policy.people.reports import YellowReport
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.cli import main as cli
from sandbox.reporting.yellow_reports import Reports
from sandbox.results import HeldCall
from sandbox.stopping.stop import Latch
from tests.fakes import Served
from tests.sandbox.shells import WAIT_SECONDS, Shell


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its name, groups included."""
    context = click.Context(cli.lockgate)
    for name in cli.lockgate.list_commands(context):
        command = cli.lockgate.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for inner in command.commands:
                yield f"{name} {inner}", command.commands[inner]


COMMANDS = dict(commands())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_help_says_what_it_does_and_shows_examples(command: click.Command) -> None:
    text = command.get_help(click.Context(command))
    assert "Example" in text
    assert "  lockgate " in text
    assert command.short_help


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_option_is_documented(command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts} has no help"


def test_every_list_has_json() -> None:
    for name in ("ps", "log", "show", "workspace list", "workspace status", "image list", "doctor"):
        assert any("--json" in parameter.opts for parameter in COMMANDS[name].params), name


def test_the_first_help_lists_every_command(shell: Shell) -> None:
    status, out, _ = shell("--help")
    assert status == 0
    assert all(f"\n  {name} " in out for name in cli.COMMANDS)


def test_without_a_command_help_is_shown(shell: Shell) -> None:
    status, _, err = shell()
    assert status == 2
    assert "Commands:" in err


USAGE = {
    "no such command": (["frob"], "lockgate: no such command 'frob'; see `lockgate --help`\n"),
    "no such option": (
        ["log", "--frob"],
        "lockgate: no such option '--frob'; see `lockgate log --help`\n",
    ),
    "no choice": (
        ["completion"],
        "lockgate: missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish; "
        "see `lockgate completion --help`\n",
    ),
    "a limit of nothing": (["log", "-n", "0"], None),
    "no text": (
        ["check"],
        "lockgate: say which command, such as `git status`; see `lockgate check --help`\n",
    ),
    "a file that is not there": (
        ["replay", "/nowhere"],
        "lockgate: `/nowhere` cannot be read: No such file or directory\n",
    ),
    "a call that is not there": (
        ["show", "nosuch"],
        "lockgate: no call `nosuch`; `lockgate log` lists them\n",
    ),
    "a folder that is a link": (["workspace", "add", "/bin"], None),
    "a folder that is not there": (
        ["init", "/nowhere"],
        "lockgate: `/nowhere` does not exist\n",
    ),
    "an unregistered folder": (
        ["workspace", "remove", "/srv"],
        "lockgate: `/srv` is not a registered workspace\n",
    ),
}


@pytest.mark.parametrize("words, err", USAGE.values(), ids=USAGE)
def test_bad_input_gets_one_line(shell: Shell, words: list[str], err: str | None) -> None:
    status, out, said = shell(*words)
    assert (status, out) == (2, "")
    assert said.count("\n") == 1
    assert said.startswith("lockgate: ")
    assert err is None or said == err


def test_a_wrong_settings_file_is_said_with_its_line(shell: Shell) -> None:
    shell.dirs.config.mkdir(parents=True)
    shell.dirs.settings.write_text("lifetime: resident\nnetwork: host\n")
    shell("workspace", "add", "--yes", str(shell.workspace))
    status, out, err = shell("run", "true")
    assert (status, out) == (125, "")
    assert err.startswith(f"lockgate: {shell.dirs.settings}:2: ")
    assert err.count("\n") == 1


def test_a_full_disk_is_said(shell: Shell) -> None:
    with Path("/dev/full").open("w") as full, shell.start("version", stdout=full) as process:
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, err) == (125, b"lockgate: no space left on device\n")


def test_a_reader_that_leaves_is_no_error(shell: Shell) -> None:
    with shell.start("--help") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(WAIT_SECONDS)
    assert err == b""


def test_a_reader_that_leaves_is_no_denial(shell: Shell) -> None:
    for words in (["check", "ls"], ["explain", "--json", "ls"], ["policy", "show"]):
        with shell.start(*words) as process:
            assert process.stdout is not None
            process.stdout.close()
            _, err = process.communicate(timeout=WAIT_SECONDS)
        assert (process.returncode, err) == (141, b"")


CLOSED = {
    "stdin, of what reads none": ("check ls <&-", 0, ""),
    "stdin": ("check - <&-", 2, "lockgate: stdin is not JSON; write an object in double quotes\n"),
    "stdin, of a batch": ("check --batch <&-", 0, ""),
    "stdout": ("check 'rm -rf a' >&-", 1, ""),
    "stdout, with a table": ("policy show >&-", 0, ""),
    "stdout, with a mistake": ("log --limit 0 >&-", 2, "lockgate: "),
    "stderr": ("explain 'git push' 2>&- >/dev/null", 3, ""),
    "all": ("check 'git push' <&- >&- 2>&-", 3, ""),
}


@pytest.mark.parametrize("words, status, said", CLOSED.values(), ids=CLOSED)
def test_a_stream_that_is_closed_is_no_failure(
    shell: Shell, words: str, status: int, said: str
) -> None:
    program = f"exec {shlex.quote(sys.executable)} -m sandbox.cli.entry {words}"
    done = subprocess.run(
        ["sh", "-c", program], cwd=shell.workspace, env=shell.env, capture_output=True,
        timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert done.stderr.decode().startswith(said)
    assert done.stderr.count(b"\n") == bool(said)


def test_a_folder_that_is_gone_is_said(shell: Shell) -> None:
    gone = shell.workspace / "gone"
    gone.mkdir()
    program = f"rmdir '{gone}'; exec {shlex.quote(sys.executable)} -m sandbox.cli.main check ls"
    done = subprocess.run(
        ["sh", "-c", program], cwd=gone, env=shell.env, capture_output=True,
        timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    says = b"lockgate: the folder that this runs in is gone; `cd` to one that is there\n"
    assert (done.returncode, done.stdout, done.stderr) == (125, b"", says)


EMPTY = {
    "a role of a check": ["check", "--role", "", "ls"],
    "a role of a run": ["run", "--role", "", "--", "ls"],
    "an agent": ["explain", "--agent", " ", "ls"],
    "a user": ["run", "--user", "", "ls"],
    "a workspace": ["policy", "show", "-w", ""],
    "a workspace to take away": ["workspace", "remove", ""],
    "a call": ["undo", ""],
    "an agent to end": ["stop", "--agent", ""],
}


@pytest.mark.parametrize("words", EMPTY.values(), ids=EMPTY)
def test_an_empty_value_is_not_taken_for_none(shell: Shell, words: list[str]) -> None:
    status, out, err = shell(*words)
    assert (status, out) == (2, "")
    assert "it is empty; give a value or leave it out" in err
    assert err.count("\n") == 1


def test_an_empty_reason_is_none(shell: Shell) -> None:
    assert shell("check", "--intent", "", "ls")[0] == 0


def test_an_option_that_there_is_not_is_no_command(shell: Shell) -> None:
    for words in (["check"], ["explain"], ["run"], ["grant"], ["agent", "run"]):
        status, out, err = shell(*words, "--frob", "ls")
        assert (status, out) == (2, "")
        assert err.startswith("lockgate: no such option '--frob'")
    assert shell("check", "ls", "--frob")[0] == 0
    assert shell("check", "--", "--frob", "ls")[0] == 3


# Workspaces


def test_workspaces_come_and_go(shell: Shell) -> None:
    place = str(shell.workspace)
    assert shell("init", "--yes") == (
        0,
        f"workspace {place}\n"
        "next: `lockgate doctor` checks this host, `lockgate run -- COMMAND` runs one\n",
        "",
    )
    (shell.workspace / "go.mod").write_text("module x\n")
    assert "`lockgate image build --for go`" in shell("init", "--yes")[1]
    (shell.workspace / "go.mod").unlink()
    assert shell("workspace", "list") == (0, f"{place}\n", "")
    assert json.loads(shell("workspace", "list", "--json")[1]) == [{"path": place}]
    status, out, _ = shell("workspace", "status")
    assert (status, out.split("\n")[1].split()[-1]) == (0, "ready")
    shell.workspace.rmdir()
    shell.workspace.with_name("x").mkdir()
    with shell.start("workspace", "status", "--json", cwd="/") as process:
        out = process.communicate(timeout=WAIT_SECONDS)[0].decode()
    assert process.returncode == 1
    reason = f"`{place}` does not exist"
    assert json.loads(out) == [{"path": place, "state": "gone", "reason": reason}]
    with shell.start("workspace", "remove", place, cwd="/") as process:
        assert process.wait(WAIT_SECONDS) == 0


def test_a_folder_outside_the_home_is_asked_about(shell: Shell) -> None:
    status, out, err = shell("workspace", "add", ".")
    assert (status, out) == (1, "")
    assert err == (
        f"lockgate: `{shell.workspace}` lies outside your home; adding it needs your yes; give "
        "it at a terminal or with `--yes`\n"
    )
    typing = [(b"[yes/no]", b"no\n")]
    status, shown = shell.at_terminal("workspace", "add", ".", typing=typing)
    assert (status, shown.split("\n")[-2]) == (1, "lockgate: not added")
    typing = [(b"[yes/no]", b"yes\n")]
    status, shown = shell.at_terminal("workspace", "add", ".", typing=typing)
    assert (status, shown.split("\n")[-2]) == (0, str(shell.workspace))


def test_validate_says_why(shell: Shell) -> None:
    shell("workspace", "add", "--yes", ".")
    assert shell("workspace", "validate", "a.py") == (
        0,
        f"valid: inside `{shell.workspace}`\n",
        "",
    )
    status, out, _ = shell("workspace", "validate", "--json", "/etc/passwd")
    assert status == 1
    assert json.loads(out) == {
        "path": "/etc/passwd",
        "valid": False,
        "workspace": None,
        "reason": "`/etc/passwd` is a folder of the system",
    }


# Gate 1 alone

CHECKS = {
    "a reading command": ("git status", 0, "allow (safe): "),
    "a writing command": ("echo x > a.txt", 0, "report (caution): "),
    "a push": ("git push origin main", 3, "ask (danger): "),
    "a tree deleted": ("rm -rf build", 1, "deny (forbidden): "),
}


@pytest.mark.parametrize("text, status, begins", CHECKS.values(), ids=CHECKS)
def test_check(shell: Shell, text: str, status: int, begins: str) -> None:
    found, out, err = shell("check", text)
    assert (found, err, out.count("\n")) == (status, "", 1)
    assert out.startswith(begins)
    found, out, _ = shell("check", "--json", text)
    assert found == status
    assert json.loads(out)["verdict"] == begins.split()[0]
    found, out, _ = shell("explain", text)
    assert found == status
    assert "by" not in out.split()[0]
    assert "rights" in out


def test_check_takes_words_like_run(shell: Shell) -> None:
    assert shell("check", "rm", "-rf", "build")[0] == 1
    assert shell("check", "--", "echo", "rm -rf build")[0] == 0


def test_check_batch_answers_line_by_line(shell: Shell) -> None:
    lines = b'{"id": "a", "command": "ls"}\nno json\n{"id": 2, "tool": "Read", "params": {}}\n'
    status, out, err = shell("check", "--batch", data=lines)
    assert (status, err) == (0, "")
    answers = [json.loads(line) for line in out.split("\n") if line]
    assert [one["id"] for one in answers] == ["a", None, 2]
    assert answers[0]["verdict"] == "allow"
    assert answers[1]["verdict"] == "deny"
    assert all(set(one) == {"id", "verdict", "tier", "rules", "message"} for one in answers)


# The record


@pytest.fixture
def store(shell: Shell) -> Store:
    """Return a record with a landed call, a held one and a denied one."""
    store = Store(shell.dirs)
    for call, verdict, command, ended in (
        ("c1", "report", "echo x > a.txt", {"judgement": "land", "landed": True}),
        ("c2", "allow", "python3 tidy.py", {"judgement": "hold", "landed": False}),
        ("c3", "deny", "rm -rf \x1b[2Jbuild", {"ending": "denied", "exit_status": None}),
    ):
        store.append(
            record_of({
                "event": "decided", "call": call, "agent": "main", "tool": "Bash",
                "params": {"command": command}, "verdict": verdict, "tier": "caution",
                "rules": ["write"], "message": "because", "workspace": "/w",
                "layers": [{"layer": "tier", "verdict": verdict, "reason": "so", "rule": "r"}],
            }),
            durable=True,
        )  # fmt: skip
        change = {"path": "a.txt", "kind": "created", "type": "file"}
        outcome = {"ending": "ran", "exit_status": 0, "changes": [change], "ms": 2.0, **ended}
        store.append(record_of({"event": "ended", "call": call, **outcome}), durable=True)
    store.keep_output("c1", "stdout", b"hi \x1b]0;x\x07\n")
    store.keep_output("c1", "diff.patch", b"+x\n")
    return store


def test_log_lists_the_newest_first(shell: Shell, store: Store) -> None:
    status, out, err = shell("log")
    assert (status, err) == (0, "")
    rows = out.split("\n")
    assert rows[0].split()[:3] == ["id", "when", "agent"]
    assert [row.split()[0] for row in rows[1:4]] == ["c3", "c2", "c1"]
    assert "rm -rf \\x1b[2Jbuild" in rows[1]
    assert [row for row in rows if row.endswith("landed   +a.txt")]
    _, out, _ = shell("log", "--verdict", "deny", "--json")
    assert [one["id"] for one in json.loads(out)] == ["c3"]
    assert shell("log", "--agent", "nobody")[1] == "no call is recorded that matches\n"
    assert len(json.loads(shell("log", "-n", "2", "--json")[1])) == 2


def test_log_without_a_record(shell: Shell) -> None:
    assert shell("log") == (0, "no call is recorded\n", "")
    assert shell("log", "--json") == (0, "[]\n", "")


def test_show_tells_all_of_a_call(shell: Shell, store: Store) -> None:
    status, out, _ = shell("show", "c1")
    assert status == 0
    for part in ("echo x > a.txt", "report (caution)", "report: so", "created  a.txt", "+x"):
        assert part in out
    assert "hi \\x1b]0;x\\x07" in out
    assert json.loads(shell("show", "c1", "--json")[1])["diff"] == "+x\n"
    assert shell("show", "c1", "--diff") == (0, "+x\n", "")
    assert shell("show", "c1", "--output") == (0, "hi \\x1b]0;x\\x07\n", "")
    assert shell("show", "c1", "--output", "--raw") == (0, "hi \x1b]0;x\x07\n", "")


def test_audit_verify_notices_a_change(shell: Shell, store: Store) -> None:
    assert shell("audit", "verify") == (0, f"{store.log}: whole\n", "")
    text = store.log.read_text()
    store.log.write_text(text.replace("a.txt", "b.txt", 1))
    status, out, _ = shell("audit", "verify", "--json")
    assert status == 1
    found = json.loads(out)
    assert found["whole"] is False
    assert found["broken"]


# What a person settles


def test_a_request_says_what_it_waits_for_while_it_waits(shell: Shell, running: Served) -> None:
    with shell.start("undo", "slow") as process:
        assert process.stderr is not None
        said = process.stderr.readline().decode()  # it is not over: nothing has released it
        running.fake.release.set()
        out, _ = process.communicate(timeout=60)
    assert said == "lockgate: it waits for call `big` of agent `main`, which lands 20,000 changes\n"
    assert out.decode().startswith("undone slow; ")


def test_undo_says_what_it_undid(shell: Shell, running: Served) -> None:
    status, out, err = shell("undo", "c9")
    assert (status, err) == (0, "")
    assert out == "undone c9; `lockgate undo u1` does it again\n  modified a.py\n"
    assert running.fake.done == ["undo c9", "undone c9"]


def test_settling_a_call(shell: Shell, running: Served, store: Store) -> None:
    assert shell("discard", "last", "--all-workspaces") == (0, "discarded c2\n", "")
    status, out, _ = shell("end", "c1", "--json")
    assert (status, json.loads(out)["id"]) == (0, "c1")
    assert running.fake.done == ["discard c2", "end c1"]


def test_last_is_of_the_workspace_that_one_is_in(
    shell: Shell, running: Served, store: Store
) -> None:
    says = {"discard": "is held", "end": "goes on in the background", "show": "is recorded"}
    for command, what in says.items():
        where = f"no call {what} in `{shell.workspace}`; `--all-workspaces` looks everywhere"
        assert shell(command, "last") == (2, "", f"lockgate: {where}\n")
    status, shown = shell.at_terminal("land", "last", "--yes")
    assert (status, "no call is held in" in shown) == (2, True)
    assert shell("discard", "last", "--all-workspaces")[0] == 0
    assert shell("show", "last", "--all-workspaces", "--json")[0] == 0
    decided = {"event": "decided", "call": "c8", "agent": "main", "verdict": "allow"}
    here = {**decided, "tool": "Bash", "params": {}, "workspace": str(shell.workspace)}
    store.append(record_of(here), durable=True)
    assert json.loads(shell("show", "last", "--json")[1])["id"] == "c8"
    calls = [shell("run", "--background", "background serve")[0] for _ in range(2)]
    assert calls == [0, 0]
    running.fake.background[0]["workspace"] = "/w"
    running.fake.background[0]["started"] = 9.0
    ids = [one["id"] for one in running.fake.background]
    assert shell("end", "last")[0] == 0
    assert shell("end", "last", "--all-workspaces")[0] == 0
    assert running.fake.done == ["discard c2", f"end {ids[1]}", f"end {ids[0]}"]


def test_outside_of_every_workspace_last_names_no_call(
    shell: Shell, running: Served, store: Store, tmp_path: Path
) -> None:
    """It named one of just any workspace, and an undo took that back."""

    def outside(*words: str) -> tuple[int, str]:
        with shell.start(*words, cwd=tmp_path) as process:
            out, err = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, (out + err).decode()

    assert shell("run", "--background", "background serve")[0] == 0
    begun = running.fake.background[0]["id"]
    meant = {
        ("undo", "last"): ("c1", "landed", "/w"),
        ("undo", "--last", "2"): ("c1", "landed", "/w"),
        ("discard", "last"): ("c2", "held", "/w"),
        ("show", "last"): ("c3", "recorded", "/w"),
        ("end", "last"): (begun, "going on", str(shell.workspace)),
    }
    for words, (call, what, where) in meant.items():
        said = (
            "lockgate: you are in no workspace, so `last` names no call; the last of all that is "
            f"{what} is `{call}` of `main` in {where}: give its id, or `--all-workspaces`\n"
        )
        assert outside(*words) == (2, said)
    for words in ("undo", "--agent", "main"), ("undo", "--since", "2h"):
        status, said = outside(*words)
        assert (status, "you are in no workspace; name one" in said) == (2, True)
    session = {"event": "decided", "call": "c9", "session": "s-1", "workspace": "/w"}
    store.append(record_of(session), durable=True)
    for words in ("diff",), ("diff", "--session"), ("undo", "--session"):
        status, said = outside(*words)
        assert (status, "give `--session s-1`, or a workspace" in said) == (2, True)
    assert running.fake.done == []
    for words in ("undo", "c1"), ("discard", "c2"), ("end", begun), ("show", "c3", "--json"):
        assert outside(*words)[0] == 0
    assert outside("undo", "last", "--all-workspaces")[0] == 0
    assert running.fake.done == [
        "undo c1", "undone c1", "discard c2", f"end {begun}", "undo c1", "undone c1"
    ]  # fmt: skip


def test_reports_offer_no_undo_of_what_cannot_be_undone(shell: Shell, store: Store) -> None:
    report = YellowReport(
        action="make",
        category="Files",
        details="ran `make`",
        timestamp="2026-02-11T09:50:00Z",
        reversible=True,
    )
    says = {
        "d1": "lockgate undo d1",
        "d2": "undone by u2",
        "d3": "cannot be undone: nothing is kept of it",
    }
    for call in says:
        decided = {"event": "decided", "call": call, "workspace": str(shell.workspace)}
        store.append(record_of(decided), durable=False)
        landed = {"event": "ended", "call": call, "ending": "ran", "landed": True}
        store.append(record_of(landed), durable=True)
        command = f"lockgate undo {call}"
        told = report.model_copy(update={"undo_command": command})
        Reports(shell.dirs).note([(call, "me", told, None)])
    (shell.workspace / ".lockgate/undo/d1").mkdir(parents=True)
    undo = {"event": "undone", "call": "u2", "undone": "d2", "tool": "undo", "landed": True}
    store.append(record_of(undo), durable=True)
    rows = shell("reports", "--keep")[1].splitlines()[1:]
    assert [row.rsplit("  ", 1)[1] for row in rows] == list(says.values())
    found = json.loads(shell("reports", "--json")[1])
    assert [one["undone_by"] for one in found] == [None, "u2", None]


PARTED = {
    "hold": "landed in part, the rest is held",
    "discard": "landed in part, the rest discarded",
    "land": "landed in parts",
}


@pytest.mark.parametrize("judgement, words", PARTED.items(), ids=PARTED)
def test_a_call_that_landed_in_parts_says_so(
    shell: Shell, store: Store, judgement: str, words: str
) -> None:
    parted = {"event": "parted", "call": "c2", "parts": ["c2-1"], "judgement": judgement}
    store.append(record_of({**parted, "landed": judgement != "hold"}), durable=True)
    assert words in shell("log")[1]
    assert f"{judgement}, {words}" in shell("show", "c2")[1]


def test_landing_needs_a_person(shell: Shell, running: Served, store: Store) -> None:
    needs = "lockgate: landing what was held is a person's decision and needs a terminal\n"
    assert shell("land", "c2") == (126, "", needs)
    assert shell("land", "--yes", "c2") == (126, "", needs)
    typing = [(b"[yes/no]", b"no\n")]
    last = ("last", "--all-workspaces")
    status, shown = shell.at_terminal("land", *last, typing=typing)
    assert (status, shown.split("\n")[-2]) == (1, "lockgate: not landed")
    typing = [(b"[yes/no]", b"yes\n")]
    status, shown = shell.at_terminal("land", *last, typing=typing)
    assert (status, shown.split("\n")[-2]) == (0, "landed c2")
    assert shell.at_terminal("land", "--yes", "c2") == (0, "landed c2\n")
    assert running.fake.done == ["land c2", "land c2"]
    assert running.fake.digests == [store.call("c2").shown_digest] * 2  # P8: and nothing else


def test_a_failing_supervisor_is_said(shell: Shell, running: Served) -> None:
    assert shell("undo", "nosuch") == (2, "", "lockgate: no call `nosuch`\n")
    assert shell("undo", "noengine") == (125, "", "lockgate: no engine answers\n")


def test_ps_lists_calls_and_cells(shell: Shell, running: Served) -> None:
    status, out, err = shell("ps")
    assert (status, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["what", "pid", "state"],
        ["agent", "main", "running"],
        ["cell", "cell-1", "idle"],
        ["no", "call", "goes"],
    ]
    shell("run", "--background", "background serve")
    found = json.loads(shell("ps", "--json")[1])
    [going_on] = found["running"]
    assert (going_on["id"], going_on["command"]) == ("c1", "background serve")
    assert found["cells"] == [{"name": "cell-1"}]
    (agent,) = found["agents"]
    assert [(one["kind"], one["name"], one["command"]) for one in agent["children"]] == [
        ("cell", "cell-1", ""),
        ("call", "c1", "background serve"),
    ]
    assert found["stopped"] == []


def test_ps_starts_no_supervisor(shell: Shell) -> None:
    assert shell("ps") == (0, "no call goes on\nno cell stands ready\n", "")
    assert not shell.dirs.log.exists()


def test_resume_needs_a_person(shell: Shell) -> None:
    assert shell("resume") == (0, "not stopped\n", "")
    Latch(shell.dirs).set("a reason")
    assert shell("resume") == (
        126,
        "",
        "lockgate: resuming is a person's decision and needs a terminal outside of every agent\n",
    )
    status, shown = shell.at_terminal("resume")
    assert (status, shown.endswith(": a reason\n")) == (0, True)
    assert Latch(shell.dirs).read() is None


# Looks


def test_tables_have_colours_at_a_terminal_unless_told_otherwise(
    shell: Shell, store: Store
) -> None:
    _, coloured = shell.at_terminal("log", env={"TERM": "xterm"})
    assert "\x1b[31m" in coloured
    _, plain = shell.at_terminal("log", env={"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b[3" not in plain
    assert "rm -rf" in plain
    assert "\x1b" not in shell("log")[1]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion(shell: Shell, name: str) -> None:
    status, out, err = shell("completion", name)
    assert (status, err) == (0, "")
    assert "_LOCKGATE_COMPLETE" in out


def test_commands_complete(shell: Shell) -> None:
    env = {"_LOCKGATE_COMPLETE": "bash_complete", "COMP_WORDS": "lockgate wo", "COMP_CWORD": "1"}
    with shell.start(env={**shell.env, **env}) as process:
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert out == b"plain,workspace\n"


def test_version(shell: Shell) -> None:
    assert shell("version")[1].startswith("lockgate 0.1.0 (")
    assert shell("--version") == (0, "lockgate 0.1.0\n", "")


def test_held_lists_what_waits(shell: Shell, running: Served) -> None:
    status, out, err = shell("held")
    assert (status, err) == (0, "")
    rows = [row.split() for row in out.splitlines()]
    assert rows[0] == ["id", "age", "agent", "call", "changes", "size", "why"]
    assert rows[1] == ["c1", "5", "s", "main", "2", "10", "B"]
    assert json.loads(shell("held", "--json")[1])[0]["id"] == "c1"


def test_held_calls_of_several_workspaces_say_where(
    shell: Shell, running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(_: object, *, by: str | None = None) -> tuple[HeldCall, ...]:
        return tuple(HeldCall(id=f"c{n}", workspace=f"/w{n}", because="so") for n in range(2))

    monkeypatch.setattr(running.fake, "request", held)
    rows = [row.split() for row in shell("held")[1].splitlines()]
    assert rows[0][-2:] == ["workspace", "why"]
    assert [row[-2:] for row in rows[1:]] == [["w0", "so"], ["w1", "so"]]


def test_a_narrow_list_of_what_is_held_still_says_where(
    shell: Shell, running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(_: object, *, by: str | None = None) -> tuple[HeldCall, ...]:
        because = "a very long reason " * 9
        places = ("/srv/shop-of-anna", "/srv/shop-of-otto", "/home/shop-of-otto")
        return tuple(HeldCall(id="c787e0dd977", workspace=one, because=because) for one in places)

    monkeypatch.setattr(running.fake, "request", held)
    status, shown = shell.at_terminal("held")
    assert status == 0
    assert "shop-of-anna" in shown
    assert shown.count("c787e0dd977") == 3


def test_show_says_what_became_of_a_call(shell: Shell, store: Store) -> None:
    """Found when a person could not see why a call was held, or who had objected to it."""
    store.append(
        record_of({"event": "ended", "call": "c2", "outcome": "held: it says why"}), durable=True
    )
    rows = [row.split() for row in shell("show", "c2")[1].splitlines()]
    assert ["outcome", "|", "held:", "it", "says", "why"] in rows
    assert "outcome" not in shell("show", "c1")[1]  # the control: nothing to say


def test_paths_of_a_held_call_land(shell: Shell, running: Served, store: Store) -> None:
    shown = shell.at_terminal("land", "--yes", "--force", "c2", "src/", "*.md")
    assert shown == (0, "landed c2 src/ *.md --force\n")


def test_an_objection_is_carried_to_the_call(shell: Shell, running: Served) -> None:
    assert shell("object", "c7", "--because", "no") == (0, "discarded c7\n", "")
    assert running.fake.done == ["object c7"]


def test_the_last_ones_are_undone(shell: Shell, running: Served) -> None:
    assert shell("undo", "--last", "2") == (
        0,
        "undone c0; `lockgate undo u0` does it again\n"
        "undone c1; `lockgate undo u1` does it again\n",
        "",
    )
    said = "give CALL, `--last N`, or what to choose by: --session, --agent, ..."
    assert shell("undo") == (2, "", f"lockgate: {said}\n")
    assert shell("undo", "c1", "--last", "2")[0] == 2
    assert shell("undo", "--last", "0")[0] == 2


def test_log_lists_what_is_held(shell: Shell, store: Store) -> None:
    assert [one["id"] for one in json.loads(shell("log", "--held", "--json")[1])] == ["c2"]
