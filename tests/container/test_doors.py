# SPDX-License-Identifier: Apache-2.0
"""One call made through each front door, and answered through each door for people: the same
decision, the same record, the same effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from policy.model import ActionPlan
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request
from sandbox.audit.store import Store
from sandbox.calls.supervisor import Supervisor
from sandbox.client.async_client import Client as AsyncClient
from sandbox.client.blocking import BlockingClient
from sandbox.host.login import login
from sandbox.host.self_test import SELF_TEST
from tests.container.served import LOCKGATE, served
from tests.fakes import lines_of
from tests.http_served import http_served
from tests.page_served import let_in
from tests.sandbox.shells import Shell

WAIT_SECONDS = 120.0
TEST = """\
import unittest
class T(unittest.TestCase):
    def test(self):
        open(".envrc", "w").write("x")
"""
CASES = {
    "allowed": "echo hi > made.txt",
    "denied": "rm -rf /",
    "held": "python3 -m unittest -q test_held",
    "asked": "rm old.txt",
}
Door = Callable[[Shell, str], None]


def _plan(shell: Shell, command: str) -> ActionPlan:
    place = str(shell.workspace)
    return ActionPlan.model_validate(
        {
            "tool": "Bash",
            "params": {"command": command},
            "workspace": place,
            "cwd": place,
            "user": login(),
        }
    )


def _supervisor(shell: Shell, command: str) -> None:
    async def work() -> None:
        async with Supervisor(shell.dirs) as one:
            await one.call(_plan(shell, command))

    asyncio.run(work())


def _blocking(shell: Shell, command: str) -> None:
    with BlockingClient(shell.dirs) as one:
        one.call(_plan(shell, command))


def _run(shell: Shell, command: str) -> None:
    shell("run", command)


def _replay(shell: Shell, command: str) -> None:
    line = {"id": "a", "tool": "Bash", "params": {"command": command}}
    status, _, err = shell("replay", "-", data=json.dumps(line).encode())
    assert status == 0, err


def _hook(shell: Shell, command: str) -> None:
    event = {
        "session_id": SELF_TEST,
        "cwd": str(shell.workspace),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": "t1",
    }
    said = subprocess.run(
        [LOCKGATE, "hook", "claude-code"],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        env=shell.env,
        cwd=shell.workspace,
        check=True,
    )
    answer = json.loads(said.stdout)["hookSpecificOutput"]
    if answer["permissionDecision"] == "allow":
        words = ["/bin/sh", "-c", answer["updatedInput"]["command"]]
        subprocess.run(words, env=shell.env, cwd=shell.workspace, check=False)


def _stdio(shell: Shell, command: str) -> None:
    parameters = StdioServerParameters(
        command=str(LOCKGATE), args=["mcp"], env=shell.env, cwd=str(shell.workspace)
    )
    asyncio.run(_over_mcp(parameters, command))


def _http(shell: Shell, command: str) -> None:
    with shell.start("mcp", "--http", "--port", "0") as process:
        try:
            assert process.stderr is not None
            url = re.search(r"http://\S+/mcp", process.stderr.readline().decode())
            assert url is not None
            token = (shell.dirs.state / "mcp.token").read_text().strip()
            headers = {"authorization": f"Bearer {token}"}

            async def work() -> None:
                async with httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as web:
                    transport = streamable_http_client(url[0], http_client=web)
                    await _over_mcp(transport, command)

            asyncio.run(work())
        finally:
            process.terminate()
            process.communicate()


def _web(shell: Shell, command: str) -> None:
    with http_served(shell.dirs) as http:
        body = {"command": command, "workspace": str(shell.workspace), "wait": WAIT_SECONDS}
        assert http.ask("POST", "/v1/calls", body).status_code == 200


async def _over_mcp(server: Any, command: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS), Client(server) as client:
        await client.call_tool("bash", {"command": command})


def _shell(shell: Shell, command: str) -> None:
    shell("shell", "-c", command)


DOORS: dict[str, Door] = {
    "a Supervisor in Python": _supervisor,
    "the blocking client": _blocking,
    "lockgate run": _run,
    "a replay": _replay,
    "a hook and its ticket": _hook,
    "MCP on standard input": _stdio,
    "MCP over HTTP": _http,
    "HTTP": _web,
    "the shell": _shell,
}
OF_THE_DOOR = frozenset(
    ("n", "ts", "prev", "call", "ms", "supervisor", "digest", "answer_reason", "outcome", "session")
)
"""What differs from call to call, or says through which door it came."""


@pytest.fixture(scope="module")
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        yield made


@contextlib.contextmanager
def _somebody_says_no(shell: Shell) -> Iterator[None]:
    """Answer every question that waits for a person, since some doors wait for one."""
    ended = threading.Event()

    def answer() -> None:
        grants = Grants(shell.dirs)
        while not ended.wait(0.1):
            for one in grants.open_questions(time.time()):
                grants.close(one.request.call, "denied", by="a test", reason="no")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _made(shell: Shell, door: Door, command: str) -> Any:
    """Make a call over a fresh tree; return its decision, its end, and the tree after it."""
    for one in shell.workspace.iterdir():
        if one.is_file():
            one.unlink()
    (shell.workspace / "old.txt").write_text("old\n")
    (shell.workspace / "test_held.py").write_text(TEST)
    store = Store(shell.dirs)
    before = {record["call"] for record in lines_of(store) if "call" in record}
    door(shell, command)
    until = time.monotonic() + WAIT_SECONDS
    new: list[dict[str, Any]] = []
    while not any(record["event"] == "ended" for record in new) and time.monotonic() < until:
        new = [one for one in lines_of(store) if one.get("call") not in {*before, None}]
    assert len({record["call"] for record in new}) == 1, new
    said = []
    for record in reversed(new):
        if record["event"] in ("decided", "ended"):
            if isinstance(record.get("params"), dict):
                record["params"].pop("given", None)
            if isinstance(record.get("landed_by"), dict):
                record["landed_by"].pop("call")
            if isinstance(record.get("made"), dict):  # which file it is, is another each time
                record["made"]["files"] = sorted(record["made"]["files"])
            if record["event"] == "decided":  # none is the workspace
                record["cwd"] = record["cwd"] or record["workspace"]
            said.append({k: v for k, v in record.items() if k not in OF_THE_DOOR})
    tree = {
        str(one.relative_to(shell.workspace)): one.read_text()
        for one in sorted(Path(shell.workspace).iterdir())
        if one.is_file()
    }
    return said, tree


@pytest.fixture(scope="module")
def expected(shell: Shell) -> dict[str, Any]:
    """Return what each call comes to through the plainest door."""
    with _somebody_says_no(shell):
        return {name: _made(shell, _supervisor, command) for name, command in CASES.items()}


def test_the_calls_are_what_they_are_named(expected: dict[str, Any]) -> None:
    ends = {
        name: (records[0]["verdict"], records[-1]["ending"], records[-1]["judgement"])
        for name, (records, _) in expected.items()
    }
    assert ends == {
        "allowed": ("report", "ran", "land"),
        "denied": ("deny", "denied", None),
        "held": ("report", "ran", "hold"),
        "asked": ("ask", "not-approved", None),
    }
    trees = {name: sorted(tree) for name, (_, tree) in expected.items()}
    rest = ["old.txt", "test_held.py"]
    assert trees == {
        "allowed": ["made.txt", *rest],
        "denied": rest,
        "held": rest,
        "asked": rest,
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("door", list(DOORS)[1:])
def test_a_call_is_the_same_through_every_door(
    shell: Shell, expected: dict[str, Any], door: str, name: str
) -> None:
    with _somebody_says_no(shell):
        records, tree = _made(shell, DOORS[door], CASES[name])
    assert records == expected[name][0]
    assert tree == expected[name][1]


def _at_terminal(shell: Shell, asked: Request, word: str) -> None:
    more = ("--yes",) if word == "approve" else ()
    status, shown = shell.at_terminal(word, asked.call, *more)
    assert status == 0, shown


def _over_http(shell: Shell, asked: Request, word: str) -> None:
    with http_served(shell.dirs) as http:
        body = {"digest": asked.wanted.digest} if word == "approve" else {}
        answer = http.ask("POST", f"/v1/approvals/{asked.call}/{word}", body)
        assert answer.status_code == 200, answer.text


def _on_the_page(shell: Shell, asked: Request, word: str) -> None:
    with http_served(shell.dirs) as http:
        own = let_in(http)
        card = own.client.get(f"/approvals/{asked.call}").text
        assert "The agent waits for your answer" in card
        said = dict(re.findall(r'name="(digest)" value="(\w+)"', card)) if word == "approve" else {}
        assert own.post(f"/approvals/{asked.call}/{word}", **said).status_code == 303


ANSWERS: dict[str, Callable[[Shell, Request, str], None]] = {
    "a terminal": _at_terminal,
    "HTTP": _over_http,
    "the page": _on_the_page,
}
OF_THE_ANSWER = OF_THE_DOOR | {"grant", "until", "action_id"}


def _waiting(shell: Shell, command: str) -> None:
    async def work() -> None:
        async with AsyncClient(shell.dirs) as client:
            await client.call(_plan(shell, command), wait=WAIT_SECONDS)

    asyncio.run(work())


def _answered(shell: Shell, door: str, word: str) -> Any:
    """Make a call that is asked about, answer it; return what is on record, and the tree."""
    store, name = Store(shell.dirs), f"{word} {door}.txt"  # a no counts for what is the same
    (shell.workspace / name).write_text("old\n")
    call = threading.Thread(target=_waiting, args=(shell, f"rm '{name}'"))
    call.start()
    try:
        until = time.monotonic() + WAIT_SECONDS
        while not (found := Grants(shell.dirs).open_questions(time.time())):
            assert time.monotonic() < until, "no question was put"
            assert call.is_alive(), "nobody waits for the answer"
        asked = found[0].request.call
        ANSWERS[door](shell, found[0].request, word)
    finally:
        call.join(WAIT_SECONDS)
    said = []
    until = time.monotonic() + WAIT_SECONDS
    new: list[dict[str, Any]] = []
    while not any(record["event"] == "ended" for record in new):  # it is written beside the answer
        assert time.monotonic() < until, "it did not end"
        new = [record for record in lines_of(store) if record.get("call") == asked]
    for record in reversed(new):
        if record["event"] not in ("granted", "refused", "answered", "ended"):
            continue
        if isinstance(record.get("landed_by"), dict):
            record["landed_by"] = {"person": record["landed_by"]["person"]}
        own = {k: v for k, v in record.items() if k not in OF_THE_ANSWER}
        said.append(json.loads(json.dumps(own).replace(name, "old.txt")))
    return said, (shell.workspace / name).exists()


@pytest.mark.parametrize("word", ["approve", "deny"])
def test_an_answer_is_the_same_through_every_door(shell: Shell, word: str) -> None:
    made = {door: _answered(shell, door, word) for door in ANSWERS}
    records, there = made["a terminal"]
    assert [one["event"] for one in records] == (
        ["granted", "answered", "ended"] if word == "approve" else ["refused", "answered", "ended"]
    )
    assert there == (word == "deny")
    assert made == dict.fromkeys(ANSWERS, made["a terminal"])
