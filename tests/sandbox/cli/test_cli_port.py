# SPDX-License-Identifier: Apache-2.0
"""`lockgate port`: what it takes, what it shows, and who may say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.cli.terminal import NOT_PERMITTED, USAGE
from tests.fakes import FakeSupervisor, served
from tests.sandbox.shells import Shell

CALL = "c1a2b3c4d5"
OPEN = {"port": 5173, "host": "127.0.0.1", "host_port": 9000, "by": "me", "connections": 2,
        "received": 10}  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Return a shell whose supervisor runs one call, with one open port."""
    made = Shell(tmp_path)
    made.dirs.create()
    decided = {"event": "decided", "call": CALL, "agent": "main", "tool": "Bash"}
    Store(made.dirs).append(record_of({**decided, "verdict": "allow"}), durable=False)
    fake = FakeSupervisor()
    fake.background = [
        {"id": CALL, "agent": "main", "tool": "Bash", "command": "npm run dev", "workspace": "/w",
         "started": 0.0, "background": True, "ports": [OPEN]}
    ]  # fmt: skip
    with served(made.dirs, fake):
        yield made


def test_a_person_opens_a_port_and_is_told_where_it_leads(shell: Shell) -> None:
    status, shown = shell.at_terminal("port", "c1a2", "8080:5173")
    assert (status, shown) == (
        0,
        f"127.0.0.1:8080 leads to port 5173 of {CALL} until that ends; "
        f"`lockgate port --close {CALL} 5173` closes it\n",
    )
    assert "127.0.0.1:8123 leads to port 8123" in shell.at_terminal("port", "c1a2", "8123")[1]
    assert shell("port", "--close", "c1a2")[:2] == (0, f"closed 127.0.0.1:3 -> 2 of {CALL}\n")


def test_without_a_terminal_nobody_opens_one(shell: Shell) -> None:
    status, out, err = shell("port", "c1a2", "8123")
    assert (status, out) == (NOT_PERMITTED, "")
    assert "opening a port of a cell is a person's decision and needs a terminal" in err


@pytest.mark.parametrize("text", ["http", "0", "70000", "0.0.0.0:80:80", "1:", ":1", "-1", "٣"])
def test_what_is_no_port_is_said(shell: Shell, text: str) -> None:
    status, shown = shell.at_terminal("port", "c1a2", "--", text)
    assert status == USAGE
    assert "is no port: give PORT or HOST:PORT" in shown
    assert shown.count("\n") == 1


def test_open_ports_are_listed(shell: Shell) -> None:
    out = shell("port")[1]
    assert "127.0.0.1:9000 -> 5173" in out
    assert "npm run dev" in out
    assert json.loads(shell("port", "--json")[1]) == [{"call": CALL, "agent": "main", **OPEN}]
    assert "port 127.0.0.1:9000 -> 5173" in shell("ps")[1]


def test_where_no_supervisor_runs_no_port_is_open(tmp_path: Path) -> None:
    assert Shell(tmp_path)("port") == (0, "no port is open\n", "")
