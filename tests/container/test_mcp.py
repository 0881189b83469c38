# SPDX-License-Identifier: Apache-2.0
"""The MCP server before a real supervisor: both generations of the protocol, stdio and HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp_types import ElicitResult

from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Terms
from sandbox.audit.store import Store
from sandbox.client.blocking import BlockingClient
from sandbox.errors import Stopped
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.server import build
from sandbox.mcp.session import Door
from tests.container.served import LOCKGATE, served
from tests.fakes import lines_of
from tests.sandbox.shells import Shell

WAIT_SECONDS = 120.0
MODES = ("legacy", "2026-07-28")
pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        yield made


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(
    shell: Shell, mode: str, *, ask_seconds: float = 0.1, **options: Any
) -> AsyncIterator[Client]:
    """Yield a client of a server in this process, over a real supervisor."""
    who = Who(workspace=str(shell.workspace))
    async with (
        asyncio.timeout(WAIT_SECONDS),
        Door(shell.dirs, who, ask_seconds=ask_seconds) as one,
        Client(build(one, tools="all"), mode=mode, **options) as client,
    ):
        yield client


def played(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def text(result: Any) -> str:
    return "".join(one.text for one in result.content)


def running(shell: Shell) -> list[Any]:
    with BlockingClient(shell.dirs) as one:
        return list(one.exchange({"op": "ps"})["running"])


def until(found: Callable[[], bool]) -> None:
    """Wait for a condition, within bounds."""
    end = time.monotonic() + WAIT_SECONDS
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)


# -- tools


def test_every_tool_does_its_work(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}

            async def use(name: str, **params: Any) -> Any:
                result = await client.call_tool(name, params)
                assert not result.is_error, text(result)
                assert tools[name].output_schema is None
                return result

            content = "one = 1\ntwo = 2\n"
            wrote = (await use("write", file_path="src/a.py", content=content)).structured_content
            assert wrote["landed"]
            assert None not in wrote.values()
            assert (shell.workspace / "src/a.py").read_text() == "one = 1\ntwo = 2\n"
            assert wrote["undo_command"] == f"lockgate undo {wrote['call']}"
            read = await use("read", file_path="src/a.py", limit=1)
            assert "one = 1" in text(read)
            assert read.structured_content is None  # the text says all
            await use("edit", file_path="src/a.py", old_string="two = 2", new_string="two = 3")
            assert "two = 3" in (shell.workspace / "src/a.py").read_text()
            assert "src/a.py" in text(await use("glob", pattern="**/*.py"))
            found = await use("grep", pattern="two", output_mode="content")
            assert "two = 3" in text(found)
            assert "a.py" in text(await use("ls", path="src"))
            ran = await use("bash", command="cat a.py; echo err >&2", cwd=f"{shell.workspace}/src")
            assert text(ran) == "one = 1\ntwo = 3\nerr"

    played(work())


def test_a_denied_call_says_why_in_text_and_structure(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:
            result = await client.call_tool("bash", {"command": "rm -rf /"})
            assert result.is_error
            assert (result.structured_content or {})["verdict"] == "deny"
            assert text(result).startswith("[lockgate: denied: ")
            waiver = {"file_path": ".devkit-waiver.yml", "content": "x"}
            waived = await client.call_tool("write", waiver)
            said = (waived.structured_content or {})["enforcement"]
            assert (said["check_id"], said["decision"]) == ("no-silent-waivers", "deny")
            assert said["required_fields"] == ["rule", "reason", "owner", "expires"]
            assert said["next_action_template"]["tool"] == "Bash"

    played(work())


def test_a_bad_input_is_an_error_in_a_line(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:
            for name, params in (
                ("gate_audit", {"since": "yesterday"}),
                ("get_reputation", {"domain": "weather"}),
                ("job_stop", {"call": "c1"}),
                ("workspace_add", {"path": "/etc"}),
            ):
                result = await client.call_tool(name, params)
                assert result.is_error, name
                assert "\n" not in text(result).strip()
                assert "Traceback" not in text(result)
            result = await client.call_tool("bash", {"command": "ls", "cwd": "/nowhere"})
            assert result.is_error
            assert text(result).startswith("lockgate: ")
            assert "Traceback" not in text(result)

    played(work())


def test_the_governance_tools_answer_as_the_document_says(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:

            async def ask(name: str, **params: Any) -> Any:
                result = await client.call_tool(name, params)
                assert not result.is_error, text(result)
                said = result.structured_content
                return said.get("result", said) if isinstance(said, dict) else said

            context = {
                "is_destructive": True,
                "affects_production": False,
                "is_reversible": False,
            }
            said = await ask("check_permission", action="delete_file", context=context)
            assert set(said) == {"allowed", "reason", "required_level", "current_level"}
            said = await ask("can_execute", tool_name="delete_artifact", args_hint="delete fact_x")
            assert set(said) == {"can_execute", "action_needed", "reason"}
            said = await ask(
                "classify_action",
                action="deploy_production",
                context={"affects_production": True, "is_reversible": False},
            )
            assert said == {
                "domain": "deployments",
                "risk_level": "high",
                "required_autonomy": "supervised",
                "reason": "Production deployment is high-risk",
            }
            before = await ask("get_reputation", domain="code_changes")
            said = await ask("record_outcome", action="edit_file", success=True, confidence=0.8)
            assert said["recorded"] is True
            after = await ask("get_reputation", domain="code_changes")
            assert after["current_level"] == before["current_level"]
            await client.call_tool("bash", {"command": "rm -rf /"})
            (denied,) = await ask("gate_audit", decision="DENY", limit=1)
            assert denied["action"] == "rm -rf /"
            assert (await ask("workspace_status"))["current"] == str(shell.workspace)
            assert (await ask("workspace_validate", path="/etc/passwd"))["valid"] is False
            status = await ask("autonomy_status")
            assert {"constraints"} <= set(status)
            asked = await ask("request_approval", tool="Bash", params={"command": "rm other.txt"})
            assert asked["status"] == "pending"
            assert not any(one.open(time.time()) for one in Grants(shell.dirs).all())

    played(work())


def test_an_approval_that_was_asked_for_beforehand_covers_the_call(
    shell: Shell, mode: str, tmp_path: Path
) -> None:
    """Found when the question was put about a plan of another user, folder and intent than the
    call's, so that the person's yes covered nothing; and no channel told them."""
    told = tmp_path / "told"
    shell.dirs.config.mkdir(parents=True, exist_ok=True)
    shell.dirs.settings.write_text(f"channels: {{phone: {{command: [sh, -c, 'cat >> {told}']}}}}\n")
    levels = shell.dirs.config / "levels.yaml"
    levels.write_text("users: {default: {escalation_channel: phone}}\n")
    grants = Grants(shell.dirs)

    async def work() -> None:
        async with connected(shell, mode) as client:
            for number, (tool, params) in enumerate(LATER):
                (shell.workspace / f"gone{number}").write_text("x")
                asked = await client.call_tool(
                    "request_approval", {"tool": tool, "params": params, "reason": "it is old"}
                )
                pending = json.loads(text(asked))
                request = grants.asked(pending["call"]).request
                terms = Terms()
                now = time.time()
                grants.approve(request, terms, by="p", reason="", now=now)
                other = await client.call_tool("bash", {**params, "command": "rm -f gone9"})
                assert (other.structured_content or {})["ending"] == "not-approved"
                done = await client.call_tool("bash", params)
                assert (done.structured_content or {})["landed"] is True
                assert not (shell.workspace / f"gone{number}").exists()
                again = await client.call_tool("bash", params)
                assert (again.structured_content or {})["ending"] == "not-approved"
        said = [json.loads(line) for line in told.read_text().splitlines()]
        calls = [one["action"] for one in said if one["call"].startswith("q")]
        assert calls == ["rm gone0", "rm gone1"]

    try:
        played(work())
    finally:
        levels.unlink()
        shell.dirs.settings.unlink()


LATER = (
    ("Bash", {"command": "rm gone0"}),
    ("bash", {"command": "rm gone1", "description": "tidy up"}),
)


def test_a_workspace_is_added_when_a_person_says_so(shell: Shell, mode: str) -> None:
    new = shell.workspace.parent / f"new-{mode}"
    new.mkdir()

    async def work() -> None:
        async with connected(shell, mode, ask_seconds=60) as client:
            adding = asyncio.create_task(client.call_tool("workspace_add", {"path": str(new)}))
            request = await asyncio.to_thread(_question, shell, "workspace_add")
            _approve(shell, request)
            said = (await adding).structured_content
            assert said is not None
            assert said["added"] is True, said
            ran = await client.call_tool("workspace_validate", {"path": str(new)})
            assert (ran.structured_content or {})["valid"] is True

    played(work())


def _question(shell: Shell, tool: str) -> Any:
    grants = Grants(shell.dirs)
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        for one in grants.open_questions(time.time()):
            if one.request.plan.tool == tool:
                return one.request
        time.sleep(0.05)
    raise AssertionError("no question was put")


def _approve(shell: Shell, request: Any) -> None:
    Grants(shell.dirs).approve(request, Terms(), by="me", reason="", now=time.time())


def test_output_comes_as_progress_while_it_streams(shell: Shell, mode: str) -> None:
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async def work() -> None:
        async with connected(shell, mode) as client:
            command = "for i in 1 2 3 4; do echo line $i; sleep 1.2; done"
            result = await client.call_tool("bash", {"command": command}, progress_callback=note)
            assert not result.is_error

    played(work())
    numbers = [progress for progress, _ in seen]
    assert len(numbers) >= 2
    assert numbers == sorted(set(numbers))
    assert any(message and message.startswith("line ") for _, message in seen)


def test_a_cancelled_call_ends_its_processes_and_lands_nothing(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:
            command = "echo x > cancelled.txt; sleep 300"
            call = asyncio.create_task(client.call_tool("bash", {"command": command}))
            await asyncio.to_thread(until, lambda: bool(running(shell)))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(until, lambda: not running(shell))
            again = await client.call_tool("bash", {"command": "ps -e -o args | grep -c '[s]leep'"})
            assert text(again).startswith("0\n")

    played(work())
    assert not (shell.workspace / "cancelled.txt").exists()


def test_a_background_command_goes_on_tells_and_ends(shell: Shell, mode: str) -> None:
    async def work() -> None:
        async with connected(shell, mode) as client:
            command = f"touch of-the-job-{mode}; echo begun; sleep 300"
            begun = await client.call_tool("job_start", {"command": command})
            said = begun.structured_content or {}
            assert said["ending"] == "running", said
            call = said["call"]
            end = time.monotonic() + WAIT_SECONDS
            while True:
                told = (await client.call_tool("job_output", {"call": call})).structured_content
                if told and "begun" in told["stdout"]:
                    break
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
            assert told["running"] is True
            stopped = await client.call_tool("job_stop", {"call": call})
            ended = stopped.structured_content or {}
            assert ended["landed"], ended
            assert not stopped.is_error  # it did what was asked
            gone = await client.call_tool("job_output", {"call": call})
            assert gone.is_error

    played(work())
    assert (shell.workspace / f"of-the-job-{mode}").exists()


# -- people


def test_accepting_an_elicitation_approves_nothing(shell: Shell, mode: str) -> None:
    kept = shell.workspace / "kept.txt"
    kept.write_text("kept")
    shown: list[str] = []

    async def accept(_context: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={})

    async def work() -> None:
        async with connected(shell, mode, elicitation_callback=accept) as client:
            result = await client.call_tool("bash", {"command": "rm kept.txt"})
            said = result.structured_content or {}
            assert (result.is_error, said["ending"]) == (True, "not-approved")

    played(work())
    assert kept.exists()
    assert len(shown) == 1
    assert "rm kept.txt" in shown[0]
    assert re.search(r"names +\| .*kept\.txt", shown[0])  # what gate 1 read in it
    assert re.search(r"lockgate approve c\w+", shown[0])


def test_a_grant_that_a_person_gave_before_accepting_counts(shell: Shell, mode: str) -> None:
    gone = shell.workspace / "gone.txt"
    gone.write_text("gone")

    async def approve(_context: Any, params: Any) -> ElicitResult:
        found = re.search(r"lockgate approve (c\w+)", params.message)
        assert found is not None
        await asyncio.to_thread(lambda: _approve(shell, Grants(shell.dirs).asked(found[1]).request))
        return ElicitResult(action="accept", content={})

    async def work() -> None:
        async with connected(shell, mode, elicitation_callback=approve) as client:
            result = await client.call_tool("bash", {"command": "rm gone.txt"})
            assert not result.is_error, text(result)

    played(work())
    assert not gone.exists()


def test_declining_ends_the_call_at_once(shell: Shell, mode: str) -> None:
    (shell.workspace / "kept.txt").write_text("kept")

    async def decline(_context: Any, _params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async def work() -> None:
        async with connected(shell, mode, ask_seconds=600, elicitation_callback=decline) as client:
            result = await client.call_tool("bash", {"command": "rm kept.txt"})
            assert (result.structured_content or {})["ending"] == "not-approved"

    played(work())


def test_without_elicitation_the_answer_says_how_to_go_on(shell: Shell, mode: str) -> None:
    (shell.workspace / "kept.txt").write_text("kept")

    async def work() -> None:
        async with connected(shell, mode) as client:
            result = await client.call_tool("bash", {"command": "rm kept.txt"})
            assert re.search(r"lockgate approve c\w+", text(result))

    played(work())


# -- over a process


def _serving(shell: Shell) -> Any:
    return subprocess.Popen(
        [LOCKGATE, "mcp", "--ask-seconds", "0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.env,
        cwd=shell.workspace,
    )


HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def _frame(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _call(number: int, command: str, tool: str = "bash") -> dict[str, Any]:
    params = {"name": tool, "arguments": {"command": command}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _answer(process: Any, number: int) -> Any:
    for line in process.stdout:
        said = json.loads(line)
        if said.get("id") == number:
            return said
    raise AssertionError(process.stderr.read().decode())


BROKEN = (
    b"not json\n",
    b"{\n",
    b"[]\n",
    b"null\n",
    b"\xff\xfe\x00\n",
    b'{"jsonrpc":"2.0","id":7}\n',
    b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}\n',
    b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"none","arguments":5}}\n',
    b"[" * 100_000 + b"\n",
    b"\n",
)


def test_broken_frames_do_not_end_the_server(shell: Shell) -> None:
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        for frame in BROKEN:
            process.stdin.write(frame)
        process.stdin.write(_frame(_call(9, "echo still here")))
        process.stdin.flush()
        said = _answer(process, 9)
        process.stdin.close()
        assert "still here" in json.dumps(said)
        assert process.wait(WAIT_SECONDS) == 0


def test_ten_megabytes_of_arguments_are_judged_or_refused(shell: Shell) -> None:
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        arguments = {"file_path": "big.txt", "content": "x" * 10_000_000}
        params = {"name": "write", "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        process.stdin.write(_frame(request))
        process.stdin.flush()
        said = _answer(process, 1)["result"]
        landed = (said.get("structuredContent") or {}).get("landed")
        there = shell.workspace / "big.txt"
        assert bool(landed) is there.exists()
        assert landed is None or there.stat().st_size == 10_000_000
        process.stdin.write(_frame(_call(2, ": " + "x" * 10_000_000)))
        process.stdin.write(_frame(_call(3, "echo after")))
        process.stdin.flush()
        assert "after" in json.dumps(_answer(process, 3))
        process.stdin.close()
        process.stdout.read()
        assert process.wait(WAIT_SECONDS) == 0


def test_a_client_that_vanishes_in_mid_call_leaves_nothing_running(shell: Shell) -> None:
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        process.stdin.write(_frame(_call(1, "echo x > vanished.txt; sleep 300")))
        process.stdin.flush()
        until(lambda: bool(running(shell)))
        process.kill()
    until(lambda: not running(shell))
    assert not (shell.workspace / "vanished.txt").exists()
    assert shell("run", "echo fine")[1] == "fine\n"


@pytest.mark.parametrize("way", ["killed", "left"])
def test_a_background_command_ends_with_the_server(shell: Shell, way: str) -> None:
    command = f"touch of-{way}; echo begun; sleep 300"
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        process.stdin.write(_frame(_call(1, command, "job_start")))
        process.stdin.flush()
        begun = _answer(process, 1)["result"]["structuredContent"]
        assert begun["ending"] == "running"
        with BlockingClient(shell.dirs) as one:
            until(lambda: "begun" in one.exchange({"op": "peek", "call": begun["call"]})["stdout"])
        if way == "killed":
            process.kill()
        process.stdin.close()
        process.wait(WAIT_SECONDS)
    until(lambda: not running(shell))
    until(lambda: (shell.workspace / f"of-{way}").exists())  # judged and landed as always


def test_a_client_that_closes_both_ends_in_mid_call_ends_the_server_without_a_word(
    shell: Shell,
) -> None:
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY) + _frame(_call(1, "sleep 300")))
        process.stdin.flush()
        until(lambda: bool(running(shell)))
        process.stdout.close()
        process.stdin.close()
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stderr is None or process.stderr.read() == b""
    until(lambda: not running(shell))


def test_a_client_that_closes_its_end_in_mid_call_ends_the_server(shell: Shell) -> None:
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        process.stdin.write(_frame(_call(1, "sleep 300")))
        process.stdin.flush()
        until(lambda: bool(running(shell)))
        process.stdin.close()
        process.wait(WAIT_SECONDS)
    until(lambda: not running(shell))


def test_a_client_that_never_reads_disturbs_nobody(shell: Shell) -> None:
    flood = "yes | head -c 500000"
    with _serving(shell) as process:
        process.stdin.write(_frame(HELLO) + _frame(READY))
        for number in range(1, 9):  # far more than a pipe holds
            process.stdin.write(_frame(_call(number, flood)))
        process.stdin.flush()
        until(lambda: _ended(shell, flood) >= 1)
        assert shell("run", "echo fine")[1] == "fine\n"
        process.kill()
    until(lambda: not running(shell))


def _ended(shell: Shell, command: str) -> int:
    """Return how many calls of a command have ended."""
    records = list(lines_of(Store(shell.dirs)))
    ours = {one["call"] for one in records if (one.get("params") or {}).get("command") == command}
    return sum(one["event"] == "ended" and one["call"] in ours for one in records)


# -- HTTP


@pytest.fixture(scope="module")
def web(shell: Shell) -> Iterator[tuple[str, str]]:
    """Yield the address of a server over HTTP, and its token."""
    with shell.start("mcp", "--http", "--port", "0") as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+/mcp", process.stderr.readline().decode())
        assert found is not None
        yield found[0], (shell.dirs.state / "mcp.token").read_text().strip()
        process.terminate()
        process.communicate()


ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
REQUESTS: dict[str, tuple[dict[str, str], int]] = {
    "without a token": ({}, 401),
    "with another token": ({"authorization": "Bearer nonsense"}, 401),
    "with the token as a password": ({"authorization": "Basic TOKEN"}, 401),
    "of a foreign page": ({"authorization": "Bearer TOKEN", "origin": "http://evil.test"}, 403),
    "of a page in a file": ({"authorization": "Bearer TOKEN", "origin": "null"}, 403),
    "by a foreign name": ({"authorization": "Bearer TOKEN", "host": "evil.test"}, 421),
    "by a foreign name with the port": ({"authorization": "Bearer TOKEN", "host": "e.test:1"}, 421),
    "as it should be": ({"authorization": "Bearer TOKEN"}, 200),
}


@pytest.mark.parametrize(("headers", "status"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_over_http(web: tuple[str, str], headers: dict[str, str], status: int) -> None:
    url, token = web
    said = {key: value.replace("TOKEN", token) for key, value in headers.items()}
    done = httpx2.post(url, json=HELLO, headers={**ACCEPT, **said}, timeout=WAIT_SECONDS)
    assert done.status_code == status
    if status == 401:
        assert done.headers["www-authenticate"].startswith("Bearer")


def test_the_token_is_not_readable_by_others(shell: Shell, web: tuple[str, str]) -> None:
    assert (shell.dirs.state / "mcp.token").stat().st_mode & 0o077 == 0


def test_the_server_listens_on_loopback_alone(web: tuple[str, str]) -> None:
    port = f"{int(web[0].split(':')[2].split('/')[0]):04X}"
    lines = [
        line.split()
        for name in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(name).read_text().splitlines()[1:]
    ]
    bound = [words[1] for words in lines if words[1].endswith(f":{port}") and words[3] == "0A"]
    assert bound == [f"0100007F:{port}"]


def test_a_body_that_is_too_long_is_refused(web: tuple[str, str]) -> None:
    url, token = web
    headers = {**ACCEPT, "authorization": f"Bearer {token}"}
    body = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 20_000_000 + b'"}'
    done = httpx2.post(url, content=body, headers=headers, timeout=WAIT_SECONDS)
    assert done.status_code == 413


def test_a_client_over_http_that_vanishes_leaves_nothing_running(
    shell: Shell, web: tuple[str, str]
) -> None:
    from mcp.client.streamable_http import streamable_http_client

    url, token = web

    async def work() -> None:
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="2026-07-28") as client:
                command = {"command": "echo x > http.txt; sleep 300"}
                call = asyncio.create_task(client.call_tool("bash", command))
                await asyncio.to_thread(until, lambda: bool(running(shell)))
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

    played(work())
    until(lambda: not running(shell))
    assert not (shell.workspace / "http.txt").exists()


# -- stop: last, since it ends what the others use


def test_the_stop_word_stops_and_the_latch_says_why_and_when(shell: Shell) -> None:
    async def work() -> None:
        async with connected(shell, "legacy") as client:
            said = await client.call_tool("bash", {"command": "STOP"})
            assert said.is_error
            assert "stopped" in text(said)
            for name, params in (("bash", {"command": "ls"}), ("ls", {})):
                after = await client.call_tool(name, params)
                assert after.is_error
                assert re.search(r"stopped at \d{4}-\d\d-\d\d .*: the agent said stop", text(after))

    played(work())
    with pytest.raises(Stopped), BlockingClient(shell.dirs) as one:
        one.exchange({"op": "call", "plan": {"tool": "Bash", "params": {"command": "ls"},
                                       "workspace": str(shell.workspace)}})  # fmt: skip
