# SPDX-License-Identifier: Apache-2.0
"""`lockgate guard` as a person runs it: what it prints, its statuses, how it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from sandbox.audit.events.protected import AcknowledgedRecord, TamperedRecord
from sandbox.audit.open_changes import OpenChanges
from sandbox.audit.store import Store
from sandbox.workspaces.registry import Registry
from tests.fakes import lines_of
from tests.sandbox.shells import WAIT_SECONDS, Shell


@pytest.fixture
def guarded(shell: Shell) -> Shell:
    (shell.workspace / ".envrc").write_text("old")
    Registry(shell.dirs).add(shell.workspace, approved=True)
    return shell


def read_line(process: subprocess.Popen[bytes], stream: str = "stderr") -> str:
    """Return the next line of a running command, with a bound."""
    pipe = getattr(process, stream)
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([pipe], [], [], WAIT_SECONDS)[0], f"no line after {line!r}"
        byte = os.read(pipe.fileno(), 1)
        assert byte, f"it ended after {line!r}"
        line += byte
    return line.decode()


def test_once(guarded: Shell) -> None:
    assert guarded("guard", "--once") == (0, "no protected file was changed around Lockgate\n", "")
    (guarded.workspace / ".envrc").write_text("evil")
    for _ in range(2):  # it is told until a person has seen it
        status, out, err = guarded("guard", "--once")
        assert (status, out[21:]) == (
            1,
            f"`.envrc` in `{guarded.workspace}` was changed and no landing did it "
            "(shell-environment): it was left so\n",
        )
        assert err == (
            "lockgate: told until a person has seen it: `lockgate guard --acknowledge`\n"
        )


def test_what_was_changed_is_told_until_a_person_acknowledges_it(guarded: Shell) -> None:
    guarded("guard", "--once")
    (guarded.workspace / ".envrc").write_text("evil")
    assert guarded("guard", "--once")[0] == 1
    assert "changed around Lockgate: `.envrc`; `lockgate guard --once` lists" in guarded("ps")[2]
    assert "around Lockgate, in " in guarded("log")[1]
    assert "around Lockgate: `.envrc` in " in guarded("audit", "show")[1]
    status, _, err = guarded("guard", "--acknowledge", "--yes")
    assert (status, "is a person's decision" in err) == (126, True)
    status, shown = guarded.at_terminal("guard", "--acknowledge", typing=[(b"[yes/no]", b"no\n")])
    assert (status, "`.envrc` in `" in shown) == (1, True)
    assert guarded("guard", "--once")[0] == 1
    assert guarded.at_terminal("guard", "--acknowledge", "--yes")[0] == 0
    assert guarded("guard", "--once") == (0, "no protected file was changed around Lockgate\n", "")
    assert "around" not in guarded("ps")[2]
    assert "around Lockgate, in " in guarded("log")[1]  # the record keeps it
    (guarded.workspace / ".envrc").write_text("worse")
    assert guarded("guard", "--once")[0] == 1


def test_a_reading_that_was_kept_does_not_outlive_its_log(guarded: Shell) -> None:
    store, root = Store(guarded.dirs), str(guarded.workspace)
    for path in ("a/.envrc", "b/.envrc"):
        store.append(TamperedRecord(workspace=root, path=path), durable=True)
        assert OpenChanges(guarded.dirs).read()[-1].path == path
    for file in guarded.dirs.state.glob("audit*"):
        file.unlink()
    assert OpenChanges(guarded.dirs).read() == []
    store = Store(guarded.dirs)
    store.append(TamperedRecord(workspace=root, path="c/.envrc"), durable=True)
    assert [one.path for one in OpenChanges(guarded.dirs).read()] == ["c/.envrc"]
    store.append(AcknowledgedRecord(until=1), durable=True)
    assert OpenChanges(guarded.dirs).read() == []


def test_what_nobody_acknowledged_stays_open_when_its_file_is_removed(guarded: Shell) -> None:
    root, live = str(guarded.workspace), guarded.dirs.state / "audit.jsonl"
    for number, path in enumerate(("a/.envrc", "b/.envrc", "c/.envrc"), 1):
        record = TamperedRecord(workspace=root, path=path)
        Store(guarded.dirs).append(record, durable=True)
        if number == 1:
            assert [one.path for one in OpenChanges(guarded.dirs).read()] == ["a/.envrc"]
        if number < 3:
            live.rename(live.with_name(f"audit-{number:06d}.jsonl"))
    live.with_name("audit-000001.jsonl").unlink()
    for _ in range(2):
        found = [one.path for one in OpenChanges(guarded.dirs).read()]
        assert found == ["a/.envrc", "b/.envrc", "c/.envrc"]


def test_once_with_json_and_restoring(guarded: Shell) -> None:
    assert guarded("guard", "--once", "--json") == (0, "", "")
    (guarded.workspace / ".envrc").write_text("evil")
    status, out, err = guarded("guard", "--once", "--json", "--restore")
    assert (status, err) == (1, "")
    found = json.loads(out)
    assert (found["event"], found["path"], found["restored"]) == ("tampered", ".envrc", True)
    assert Path(found["kept"]).read_text() == "evil"
    assert (guarded.workspace / ".envrc").read_text() == "old"


def test_it_tells_while_it_runs_and_ends_when_asked(guarded: Shell) -> None:
    with guarded.start("guard", "--restore") as process:
        assert read_line(process) == "lockgate: guards 1 protected path; Ctrl-C ends it\n"
        (guarded.workspace / ".envrc").write_text("evil")
        line = read_line(process)
        assert line.startswith(f"lockgate: `.envrc` in `{guarded.workspace}` was changed and no ")
        assert ": it is put back; what was found is in `" in line
        (guarded.workspace / ".envrc").chmod(0o600)
        assert " got another mode or owner and no landing did it" in read_line(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
    kinds = [one["kind"] for one in lines_of(Store(guarded.dirs))]
    assert kinds == ["mode", "modified"]


def test_two_guards_of_one_workspace(guarded: Shell) -> None:
    with guarded.start("guard") as process:
        read_line(process)
        assert guarded("guard", "--once") == (
            125,
            "",
            f"lockgate: another guard watches `{guarded.workspace}`; end it, or name other "
            "workspaces\n",
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0


def test_a_workspace_that_is_not_registered(shell: Shell) -> None:
    status, out, err = shell("guard", "--once", "-w", "/srv")
    assert (status, out) == (2, "")
    assert err == (
        "lockgate: `/srv` is not a registered workspace; `lockgate workspace add` registers it\n"
    )


def test_a_name_that_a_terminal_would_obey_is_made_safe(guarded: Shell) -> None:
    guarded("guard", "--once")
    (guarded.workspace / ".aider\x1b[2J\n").write_text("x")
    _, out, _ = guarded("guard", "--once")
    assert "`.aider\\x1b[2J\\n` in " in out
    assert out.count("\n") == 1
