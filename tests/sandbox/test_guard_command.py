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
    assert guarded("guard", "--once") == (
        1,
        "",
        f"lockgate: `.envrc` in `{guarded.workspace}` was changed and no landing did it "
        "(shell-environment): it was left so\n",
    )
    assert guarded("guard", "--once")[0] == 0


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
    _, _, err = guarded("guard", "--once")
    assert "`.aider\\x1b[2J\\n` in " in err
    assert err.count("\n") == 1
