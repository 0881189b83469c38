# SPDX-License-Identifier: Apache-2.0
"""What connections of one supervisor process share: who answers hooks, what goes on, its end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from sandbox.calls.tickets import Tickets
from sandbox.client.connect import named_calls
from sandbox.errors import Outdated
from sandbox.guard.child import Guardian
from sandbox.host.dirs import Dirs
from sandbox.host.version import VERSION
from sandbox.server.code_watch import CodeWatch
from sandbox.server.freshness import Freshness
from sandbox.server.supervising import Supervising

if TYPE_CHECKING:
    from sandbox.hooks.service import HookDoor


class ServerState:
    """What a connection may know and ask of the process that it is to."""

    def __init__(
        self, dirs: Dirs, supervisor: Supervising, *, guardian: Guardian | None = None
    ) -> None:
        self.dirs = dirs
        self.guardian = guardian
        self.supervisor = supervisor
        self.freshness = Freshness(dirs)
        self.code: CodeWatch | None = None
        self.tickets = Tickets()
        """Calls that a hook admitted and that are made over another connection."""
        self.done = asyncio.Event()
        self._hooks: HookDoor | None = None
        self._active = 0

    def close(self) -> None:
        """Let go of what stays open while the process serves."""
        if self.code is not None:
            self.code.close()
        if self._hooks is not None:
            self._hooks.close()

    @property
    def busy(self) -> int:
        """Return how many requests and background calls go on."""
        return self._active + len(self.supervisor.running())

    def goes_on(self) -> list[dict[str, Any]]:
        """Return the calls that run now and the questions that wait, in a few words each."""
        running = [{"id": call["id"], "agent": call["agent"]} for call in self.supervisor.running()]
        return [*running, *({**call, "waits": True} for call in self.supervisor.asking())]

    @property
    def hooks(self) -> HookDoor:
        """What answers the hooks of coding agents."""
        if self._hooks is None:
            from sandbox.config.settings import load_settings
            from sandbox.hooks.service import HookDoor

            settings = load_settings(self.dirs).hooks
            self._hooks = HookDoor(self.dirs, self.supervisor, self.tickets, settings)
        return self._hooks

    async def why_not(self) -> str:
        """Return why no call of a hook is let through, where what runs here may be less strict than
        the settings that count now; empty: it may. Raises Outdated where nothing else goes on."""
        same = self.code is not None and bool(self.code.unchanged_place())
        if await asyncio.to_thread(self.freshness.is_current, same_code=same):
            return ""
        others = self.busy - 1  # the request that asks counts itself
        if not others:
            raise Outdated("the supervisor runs other code or settings than count now")
        lag = await asyncio.to_thread(self.freshness.lag)
        if not lag.why_not:
            return ""
        return (
            f"the supervisor began with other code or settings, {lag.why_not}, and it cannot be "
            f"replaced while it is busy{named_calls(self.goes_on())}: `lockgate end CALL` ends a "
            "background call"
        )

    def shut_down(self) -> None:
        """End the server as soon as the event loop comes to it."""
        self.done.set()

    def request_begins(self) -> None:
        """Count a request, so that the server does not end as idle."""
        self._active += 1

    def request_ends(self) -> None:
        """Count a request off."""
        self._active -= 1

    def hello(self) -> dict[str, Any]:
        """Return what each connection begins with."""
        return {
            "event": "hello",
            "version": VERSION,
            "digest": self.freshness.digest,
            "code": self.code.unchanged_place() if self.code is not None else "",
            "settings": self.freshness.settings,
            "pid": os.getpid(),
            "busy": self.busy,
        }
