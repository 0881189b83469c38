# SPDX-License-Identifier: Apache-2.0
"""`lockgate connect` as a person runs it: what it writes really denies, and really runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.container.served import served
from tests.sandbox.shells import Shell


@pytest.fixture
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client, register=False) as made:
        yield made


def _names(shell: Shell) -> list[str]:
    return sorted(one.name for one in shell.workspace.iterdir())


def _lines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("lockgate: ")]


@pytest.mark.parametrize(
    ("agent", "mode"), [("claude-code", "hooks"), ("codex", "mcp"), ("cursor", "hooks")]
)
def test_a_connection_is_made_tried_and_taken_back(shell: Shell, agent: str, mode: str) -> None:
    status, out, err = shell("connect", agent, "--mode", mode)
    assert (status, out) == (1, "")
    assert "is no workspace yet" in err
    assert _names(shell) == [".git"]
    status, out, err = shell("connect", agent, "--mode", mode, "--yes")
    assert status == 0, err
    assert "+" in out
    assert "works: a forbidden command is denied" in err
    assert "works: a harmless one runs in a cell" in err
    status, out, err = shell("connect", agent, "--mode", mode, "--yes")
    assert (status, out) == (0, "")
    assert "is connected already" in err
    _, out, _ = shell("doctor", "--json")
    (check,) = [one for one in json.loads(out) if one["name"] == f"agent {agent}"]
    assert check["status"] == ("ok" if mode == "mcp" else "warn"), check
    assert mode == "mcp" or "has not called it yet" in check["detail"]
    status, _, err = shell("connect", agent, "--remove", "--yes")
    assert status == 0, err
    assert _names(shell) == [".git"]
    _, out, _ = shell("doctor", "--json")
    assert [one for one in json.loads(out) if one["name"].startswith("agent ")] == []


def test_a_hook_that_was_changed_is_found_by_the_doctor(shell: Shell) -> None:
    shell("connect", "gemini", "--yes")
    path = shell.workspace / ".gemini" / "settings.json"
    path.write_text(path.read_text().replace("hook gemini", "version"))
    _, out, _ = shell("doctor", "--json")
    (check,) = [one for one in json.loads(out) if one["name"] == "agent gemini"]
    assert check["status"] == "fail"
    assert check["detail"].endswith("entries are missing in " + str(path) + "; connect again")
    status, _, err = shell("connect", "gemini", "--yes")
    assert status == 0, err


def test_what_an_agent_does_not_have_is_refused_in_a_line(shell: Shell) -> None:
    shell("init")
    status, out, err = shell("connect", "vscode", "--mode", "hooks", "--yes")
    assert (status, out) == (2, "")
    assert _lines(err) == ["lockgate: `vscode` has no hooks that can be used; use `--mode mcp`"]
