# SPDX-License-Identifier: Apache-2.0
"""Who bears no token gets nowhere over HTTP; wrong input is told in one line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from starlette.types import Message, Receive, Scope, Send

from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.http import Guarded, token_file
from sandbox.mcp.server import build
from sandbox.mcp.session import Door


def told(scope: dict[str, Any]) -> list[Message]:
    """Return what a client of a guarded application is sent."""
    sent: list[Message] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "inner"})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Guarded(inner, "good")(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([(b"authorization", b"Bearer good")], True),
        ([], False),
        ([(b"authorization", b"Bearer ")], False),
        ([(b"authorization", b"Bearer bad")], False),
        ([(b"authorization", b"Bearer goo\xff")], False),
        ([(b"authorization", b"Bearer good"), (b"authorization", b"Bearer bad")], False),
    ],
)
def test_the_token_is_asked_for(headers: list[tuple[bytes, bytes]], passes: bool) -> None:
    sent = told({"type": "http", "headers": headers})
    assert (sent[0] == {"type": "inner"}) is passes
    assert passes or sent[0]["status"] == 401


def test_a_websocket_is_closed_with_any_token() -> None:
    sent = told({"type": "websocket", "headers": [(b"authorization", b"Bearer good")]})
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("text", ["", "\n", "short\n"])
def test_a_file_without_a_token_serves_nobody(tmp_path: Path, text: str) -> None:
    dirs = Dirs.under(tmp_path).create()
    path = token_file(dirs)
    assert token_file(dirs) == path
    path.write_text(text)
    with pytest.raises(BadInput, match="holds no token; remove it"):
        token_file(dirs)


def test_wrong_parameters_of_a_call_are_named(tmp_path: Path) -> None:
    async def asked() -> Any:
        door = Door(Dirs.under(tmp_path).create(), Who(workspace=str(tmp_path)))
        async with asyncio.timeout(30), Client(build(door, tools="all")) as client:
            given = {"tool": "Bash", "params": {"command": ["x"]}}
            return await client.call_tool("request_approval", given)

    result = asyncio.run(asked())
    assert result.is_error
    text = "".join(one.text for one in result.content)
    assert text.endswith("`command`: Input should be a valid string")
