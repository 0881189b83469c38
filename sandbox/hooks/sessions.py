# SPDX-License-Identifier: Apache-2.0
"""Who speaks through a hook: the agent's process, put under watch so that a stop reaches it.

The first session is the agent `main`; those beside it are children of it (`main:codex-2`), which
start with its trust and never have a wider role. INVARIANT (P10, hooks): what a hook says of
processes counts only for its own ancestors, as the kernel tells them.
"""

from __future__ import annotations

import asyncio
import re

from sandbox.agents.registering import register
from sandbox.agents.registry import Registry
from sandbox.agents.told_sessions import CURRENT, ToldSessions, checked
from sandbox.errors import BadInput
from sandbox.hooks.events import Event, Kind
from sandbox.host.dirs import Dirs
from sandbox.host.self_test import SELF_TEST

MAIN = "main"
WATCHED = ("claude", "codex", "gemini")
"""Agents that are command lines; an editor is not ended because an agent in it is stopped."""
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
_MOST_SESSIONS = 1000
_CHILD = re.compile(r"[^A-Za-z0-9_.-]+")


class Sessions:
    """The agents that speak through the hooks of one supervisor."""

    def __init__(self, dirs: Dirs) -> None:
        self._dirs = dirs
        self._agents = Registry(dirs)
        self._sessions = ToldSessions(dirs)
        self._told: dict[str, str] = {}
        self._registering = asyncio.Lock()

    async def agent(self, source: str, event: Event, peer: int, claimed: str) -> str:
        """Return the path of the agent that an event belongs to (`main`, `main:sub:ID`).

        `peer` is the hook's process; `claimed` what the agent says its own number is. Its process
        is put under watch where it is not yet. Raises Stopped where a stop is in force for it.
        """
        around = await asyncio.to_thread(self._agents.of_process, peer)
        path = around.path if around is not None else MAIN
        speaks = event.kind in (Kind.BEGINS, Kind.BEFORE, Kind.PROMPT)
        if around is None and speaks and source in WATCHED and event.session != SELF_TEST:
            async with self._registering:
                path = await asyncio.to_thread(self._register, source, peer, claimed)
        if event.session != SELF_TEST and (session := checked(event.session)):
            CURRENT.set(session)
            if self._told.get(path) != session:
                await asyncio.to_thread(self._note, path, session)
        child = _CHILD.sub("-", event.child)[:64]
        return f"{path}:sub:{child}" if child else path

    def _note(self, path: str, session: str) -> None:
        """Note that an agent under watch is in a session, for its calls through other doors."""
        self._told = {**dict(list(self._told.items())[-_MOST_SESSIONS:]), path: session}
        if (agent := self._agents.find(path)) is not None:
            self._sessions.note(agent, session)

    def watch(self, source: str, peer: int) -> str:
        """Put the program that started `peer` under watch; return its agent's path."""
        around = self._agents.of_process(peer)
        return around.path if around is not None else self._register(source, peer, "")

    def watch_itself(self, source: str, peer: int) -> str:
        """Put a program that connected by itself under watch; return its agent's path."""
        around = self._agents.of_process(peer)
        return around.path if around is not None else self._add(source, peer)

    def _register(self, source: str, peer: int, claimed: str) -> str:
        process = self._root(peer, claimed)
        return MAIN if process is None else self._add(source, process)

    def _add(self, source: str, process: int) -> str:
        name, parent = self._free(source)
        try:
            agent = register(self._dirs, process, name=name, parent=parent, source=source)
        except BadInput:  # it is gone, or no process that can be under watch
            return MAIN
        return agent.path

    def _free(self, source: str) -> tuple[str, str | None]:
        """Return the name of a new session and the agent that it stands below."""
        self._agents.drop_ended()
        known = {agent.id for agent in self._agents.all()}
        if MAIN not in known:
            return MAIN, None
        numbers = range(2, _MOST_SESSIONS)
        return next(f"{source}-{n}" for n in numbers if f"{source}-{n}" not in known), MAIN

    def process(self, source: str, peer: int, claimed: str) -> int | None:
        """Return the agent's own process, which a hook's process `peer` comes from; None where
        that is not known."""
        return self._root(peer, claimed if source in WATCHED else "") if peer > 0 else None

    def _root(self, peer: int, claimed: str) -> int | None:
        """Return the agent's own process: the nearest ancestor that is no shell around the hook."""
        line = self._agents.host.line(peer)[1:]
        if claimed.isascii() and claimed.isdigit() and int(claimed) in {proc.pid for proc in line}:
            return int(claimed)
        for one in line:
            around_hook = " hook " in f"{self._agents.host.command(one.pid)} "
            if one.pid > 1 and not (one.name in _SHELLS and around_hook):
                return one.pid
        return None
