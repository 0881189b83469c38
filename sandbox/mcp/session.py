# SPDX-License-Identifier: Apache-2.0
"""One MCP server's way to the supervisor: who the agent is, how a call is made and waited for."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from mcp.server.mcpserver import Context

from sandbox.agents.peer import itself
from sandbox.agents.told_sessions import SERVED
from sandbox.client.async_client import Client
from sandbox.errors import BadInput, SandboxError, Stopped
from sandbox.host.dirs import Dirs
from sandbox.host.login import NOBODY, login
from sandbox.host.version import digest
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.governance.tools import Governance
from sandbox.questions.plans import read_plan
from sandbox.results import CallResult
from sandbox.stopping.stop import is_stop_word

ASK_SECONDS = 50.0
"""How long a tool call waits for a person: below the 60 s after which clients give up by default.
The question stays open after it, and the same call made again uses the answer."""
PROGRESS_SECONDS = 1.0
SESSION_BYTES = 6
_SHOWN = 200


class Door:
    """Makes calls for one agent. An async context manager, which connects."""

    def __init__(self, dirs: Dirs, who: Who, *, ask_seconds: float = ASK_SECONDS) -> None:
        self.dirs = dirs
        self.who = who
        self.ask_seconds = ask_seconds
        self.governance = Governance(dirs)
        self.session = SERVED + secrets.token_hex(SESSION_BYTES)
        self.jobs: set[str] = set()
        """Background calls that go on."""
        self._client = Client(dirs)
        self._connected = False
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Door:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connected:
            await self._client.__aexit__(None, None, None)

    async def call(
        self,
        tool: str,
        params: dict[str, Any],
        context: Context | None = None,
        *,
        cwd: str | None = None,
        intent: str = "",
        wait: float | None = None,
    ) -> CallResult:
        """Make a call; its output is passed on as progress. Cancelling ends its processes.

        `wait`: how long a person is waited for, in seconds; default: `ask_seconds`.
        """
        plan = {
            "tool": tool,
            "params": {key: value for key, value in params.items() if value is not None},
            "intent": intent,
            "agent": self.who.agent,
            "role": self.who.role,
            "user": self.who.user,
            "workspace": self.who.workspace,
            "cwd": cwd or self.who.workspace,
        }
        if tool == "Bash" and is_stop_word(str(params.get("command") or "")):
            await self.stop("the agent said stop")
        async with self._reporting(context) as on_output:
            client = await self._reach(current=True)
            return await client.call(
                read_plan(plan),
                wait=self.ask_seconds if wait is None else wait,
                patience=self.ask_seconds,
                on_output=on_output,
                tied=True,
                session=self.session,
            )

    async def stop(self, reason: str) -> None:
        """Stop everything of this agent. Raises Stopped."""
        client = await self._reach()
        report = await client.stop(reason, agent=self.who.agent, own=True)
        name = report.agent or self.who.agent
        raise Stopped(
            f"agent `{name}` is stopped: {reason}; "
            f"a person clears it with `lockgate resume --agent {name}`"
        )

    async def itself(self) -> Who:
        """Return the agent that calls over this door count as. Raises BadInput."""
        name, role = await asyncio.to_thread(itself, self.dirs, self.who.agent, self.who.role)
        user = login() if self.who.user == NOBODY else self.who.user
        return replace(self.who, agent=name, role=role, user=user)

    async def job_output(self, call_id: str) -> dict[str, Any]:
        """Return what a background call of this agent wrote so far. Raises BadInput."""
        return await (await self._reach()).peek(self._own(call_id))

    async def end_job(self, call_id: str) -> CallResult:
        """End a background call of this agent; its changes are judged and land."""
        result = await (await self._reach()).end(self._own(call_id))
        self.jobs.discard(call_id)
        return result

    def _own(self, call_id: str) -> str:
        if call_id not in self.jobs:
            raise BadInput(f"`{call_id}` is no background call of yours")
        return call_id

    async def _reach(self, *, current: bool = False) -> Client:
        """Return the client; for a new call one of a supervisor of the `current` settings."""
        async with self._connecting:
            if self._connected and self._client.alive:
                if current:
                    await self._renew()
            elif self._connected:
                with contextlib.suppress(SandboxError, OSError):
                    await self._client.__aexit__(None, None, None)
                self._client, self._connected = Client(self.dirs), False
            if not self._connected:
                await self._client.__aenter__()
                self._connected = True
        return self._client

    async def _renew(self) -> None:
        """Go over to a supervisor of the settings that count now, where the one that is connected
        began with others and is idle. Raises SandboxError where it must not go on and is busy."""
        hello = await self._client.ping()
        if hello["digest"] == await asyncio.to_thread(digest, str(self.dirs.config)):
            return
        fresh = Client(self.dirs)
        await fresh.__aenter__()
        if (await fresh.ping())["pid"] == hello["pid"]:  # it goes on, with the jobs that it has
            await fresh.__aexit__(None, None, None)
            return
        old, self._client = self._client, fresh
        with contextlib.suppress(SandboxError, OSError):
            await old.__aexit__(None, None, None)

    @contextlib.asynccontextmanager
    async def _reporting(
        self, context: Context | None
    ) -> AsyncIterator[Callable[[str, bytes], None] | None]:
        """Pass the last line of what is written on as progress, at most once a second."""
        if context is None:
            yield None
            return
        last = [b""]
        count = 0

        def note(_stream: str, data: bytes) -> None:
            last[0] = (last[0] + data)[-4096:]

        async def report() -> None:
            nonlocal count
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                count += 1
                lines = last[0].decode("utf-8", "replace").rstrip().splitlines()
                await context.report_progress(count, message=lines[-1][:_SHOWN] if lines else None)

        task = asyncio.create_task(report())
        try:
            yield note
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
