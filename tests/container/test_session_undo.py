# SPDX-License-Identifier: Apache-2.0
"""A session is looked at and taken back whole, whatever mix of doors made its changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.store import Store
from tests.container.lab import snapshot
from tests.container.served import LOCKGATE, served
from tests.sandbox.shells import Shell

WAIT_SECONDS = 300.0
PROGRAM = Path(__file__).with_name("agent_program.py")
MIXED: tuple[list[Any], ...] = (
    ["sh", "echo 1 >> a.txt"],
    ["write", "a.txt", "0\n1\n2\n"],
    ["sh", "mkdir deep && echo x > deep/x && echo y >> deep/x"],
    ["write", "deep/x", "mine\n"],
    ["write", "new/folder/c.txt", "c\n"],
    ["mcp", "write", {"file_path": "from-mcp.txt", "content": "m\n"}],
    ["mcp", "edit", {"file_path": "a.txt", "old_string": "2", "new_string": "3"}],
    ["sh", "cat a.txt >> new/folder/c.txt"],
    ["write", "from-mcp.txt", "over\n"],
    ["write", "a.txt", "last\n"],
)


@pytest.fixture
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        (made.workspace / "a.txt").write_text("0\n")
        (made.workspace / "run.sh").write_text("#!/bin/sh\n")
        (made.workspace / "run.sh").chmod(0o750)
        yield made


def act(shell: Shell, session: str, *steps: list[Any]) -> list[Any]:
    """Let an agent make its steps; return what its own commands of ours printed."""
    words = [sys.executable, str(PROGRAM), str(LOCKGATE), session, json.dumps(steps)]
    done = subprocess.run(
        words,
        env=shell.env,
        cwd=shell.workspace,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_session_is_taken_back_byte_for_byte_through_whatever_doors_it_came(
    shell: Shell,
) -> None:
    before = snapshot(shell.workspace)
    act(shell, "5a1e-mixed", *MIXED)
    after = snapshot(shell.workspace)
    status, out, err = shell("log", "--session", "--json")
    assert status == 0, err
    calls = json.loads(out)
    assert {one["session"] for one in calls} == {"5a1e-mixed"}
    assert sum(bool(one["landed"]) for one in calls) == len(MIXED)

    status, out, err = shell("diff", "--session", "5a1e", "--json")
    assert status == 0, err
    changed = json.loads(out)
    assert {(one["path"], one["kind"]) for one in changed["changes"]} == {
        ("a.txt", "modified"),
        ("deep", "created"),
        ("deep/x", "created"),
        ("from-mcp.txt", "created"),
        ("new", "created"),
        ("new/folder", "created"),
        ("new/folder/c.txt", "created"),
    }
    assert "-0\n+last\n" in changed["diff"]
    assert changed["later"] == []

    status, out, err = shell("undo", "--session", "--dry-run")
    assert status == 0, err
    assert "-last\n+0\n" in out
    assert snapshot(shell.workspace) == after

    status, _, err = shell("undo", "--session")
    assert status == 0, err
    assert snapshot(shell.workspace) == before

    status, _, err = shell("undo", "--session")
    assert status == 2
    assert "nothing of session `5a1e-mixed` stands" in err


def test_what_a_person_changed_since_stays_and_is_named_and_the_rest_goes(shell: Shell) -> None:
    act(shell, "first", ["write", "a.txt", "agent\n"], ["write", "b.txt", "b\n"])
    act(shell, "second", ["sh", "echo c > c.txt"])
    (shell.workspace / "a.txt").write_text("mine\n")
    changed = json.loads(shell("diff", "--session", "first", "--json")[1])
    assert changed["later"] == ["a.txt"]
    assert "+agent\n" in changed["diff"]
    assert "+b\n" in changed["diff"]
    assert "mine" not in changed["diff"]
    status, out, err = shell("undo", "--session", "first", "--json")
    assert status == 1
    report = json.loads(out)
    assert len(report["done"]) == len(report["stay"]) == 1
    assert "without losing later changes of `a.txt`" in report["stay"][0]["because"]
    names = sorted(one.name for one in shell.workspace.iterdir() if one.is_file())
    assert names == ["a.txt", "c.txt", "run.sh"]
    assert (shell.workspace / "a.txt").read_text() == "mine\n"
    assert "held" not in err


def test_by_agent_time_and_workspace(shell: Shell) -> None:
    before = snapshot(shell.workspace)
    act(shell, "one", ["write", "b.txt", "b\n"])
    for words in (
        ("--agent", "nobody"),
        ("--since", "2099-01-01"),
        ("--agent", "main", "--session", "one", "--since", "2099-01-01"),
    ):
        status, _, err = shell("undo", *words)
        assert (status, "stands" in err) == (2, True)
    status, _, err = shell("undo", "--agent", "main", "--since", "1h", "-w", str(shell.workspace))
    assert status == 0, err
    assert snapshot(shell.workspace) == before


def test_several_calls_are_a_persons_to_undo(shell: Shell) -> None:
    ((status, _, err),) = act(
        shell,
        "own",
        ["write", "b.txt", "b\n"],
        ["lockgate", "undo", "--session", "own"],
    )
    assert status != 0
    assert "a person's decision" in err
    assert (shell.workspace / "b.txt").exists()
    ((status, _, err),) = act(  # what is its own, by its id, is
        shell, "own", ["lockgate", "undo", Store(shell.dirs).landed(1)[0].id]
    )
    assert status in (0, 2), err
    assert shell("undo", "--session", "own")[0] in (0, 2)
    assert not (shell.workspace / "b.txt").exists()


def test_last_means_the_workspace_that_one_is_in(shell: Shell) -> None:
    act(shell, "here", ["write", "b.txt", "b\n"])
    there = shell.workspace.parent / "other"
    there.mkdir()
    assert shell("workspace", "add", str(there))[0] == 0
    assert shell("run", "-w", str(there), "--", "echo other > made")[0] == 0
    status, out, err = shell("undo", "last", "--json")
    assert status == 0, err
    assert [one["path"] for one in json.loads(out)["changes"]] == ["b.txt"]
    assert (there / "made").exists()
    status, _, err = shell("undo", "last")
    assert status == 2
    assert "--all-workspaces" in err
    assert shell("undo", "--last", "1", "--all-workspaces")[0] == 0
    assert not (there / "made").exists()
