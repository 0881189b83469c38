# SPDX-License-Identifier: Apache-2.0
"""What the supervisor answers to hooks of coding agents.

A command is admitted and rewritten, so that it runs in the cell while the text that was judged
stays here. A tool that the agent runs itself is judged by path and content. INVARIANT (closed):
whatever cannot be read, decided or recorded is answered with a block.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from policy.model import ActionPlan
from policy.tools.dialects import BadCall, Use, normalise
from sandbox.agents.peer import Caller
from sandbox.agents.registry import Registry as Agents
from sandbox.approvals.approver import Approver
from sandbox.approvals.desk import Patient
from sandbox.audit.events.agents import ChildRecord
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.tickets import Admission, Tickets
from sandbox.config.settings import Dirs, HookSettings
from sandbox.connect.records import Connections
from sandbox.errors import SandboxError, Stopped, Unavailable, say_os_error
from sandbox.hooks.agents.fields import parse
from sandbox.hooks.attendance import is_attended
from sandbox.hooks.dialects import Dialect, named
from sandbox.hooks.events import BadEvent, Event, Kind, Printed, Say, blocked
from sandbox.hooks.labels import label_of
from sandbox.hooks.sessions import Sessions
from sandbox.host.off_loop import OffLoop
from sandbox.host.relaunch import program
from sandbox.host.self_test import SELF_TEST
from sandbox.operations.requests import Request, StopRequest
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.stopping.stop import is_stop_word
from sandbox.text.redaction import mask
from sandbox.workspaces.registry import Registry

R = TypeVar("R")
_COMMANDS = frozenset(("Bash",))
"""Tools that run in a cell when the agent takes another command for theirs."""
_MOST_CALLS = 10_000
_NOTE_SECONDS = 5.0
"""How often it is noted at most that an agent's hook was called."""


class Host(Protocol):
    """What hooks need of the supervisor."""

    async def admit(
        self,
        plan: ActionPlan,
        *,
        approver: Any,
        on_host: bool = False,
        use: ToolUse | None = None,
    ) -> Admission: ...
    async def came_back(self, agent: str, use: ToolUse) -> str | None: ...
    async def request(self, request: Request[R]) -> R: ...
    async def note(self, said: ChildRecord | OutcomeRecord) -> None: ...
    def check_latch(self, agent: str) -> None: ...


class HookDoor:
    """Answers the hooks of every agent of one supervisor."""

    def __init__(self, dirs: Dirs, host: Host, tickets: Tickets, settings: HookSettings) -> None:
        self._dirs = dirs
        self._host = host
        self._tickets = tickets
        self._settings = settings
        self._registry = Registry(dirs)
        self._agents = Agents(dirs)
        self._sessions = Sessions(dirs)
        self._connections = Connections(dirs)
        self._off_loop = OffLoop()
        self._noted: dict[str, float] = {}
        self._calls: dict[tuple[str, str], str] = {}
        """(session, tool use) -> our call, for tools that ran on the host."""

    def close(self) -> None:
        """Begin nothing more in threads of its own; comes when nothing is asked any more."""
        self._off_loop.close()

    async def answer(
        self,
        name: str,
        said: str,
        *,
        peer: int,
        environment: Mapping[str, str],
        gone: asyncio.Event | None = None,
        refused: str = "",
    ) -> Printed:
        """Return what the hook program, whose process is `peer`, prints for one event.

        `gone` is set when that program has ended: a question of its call is withdrawn then.
        `refused` says why no tool may be used now.
        """
        try:
            dialect = named(name)
            given = parse(said.encode("utf-8", "surrogateescape"))
            event = dialect.read(given)
        except BadEvent as error:
            return blocked(str(error))
        try:
            self._note_fired(name, event)
            if refused and event.kind is Kind.BEFORE:
                raise Unavailable(refused)
            say = await self._say(dialect, event, peer, environment, gone)
        except Stopped as error:
            say = Say(allowed=False, reason=str(error), stop=True)
        except (BadEvent, BadCall, SandboxError) as error:
            say = Say(allowed=False, reason=str(error))
        except OSError as error:
            say = Say(allowed=False, reason=f"the call could not be judged: {say_os_error(error)}")
        return dialect.write(event, say, given)

    async def _say(
        self,
        dialect: Dialect,
        event: Event,
        peer: int,
        environment: Mapping[str, str],
        gone: asyncio.Event | None,
    ) -> Say:
        claimed = environment.get("CLAUDE_PID", "") if dialect.agent == "claude" else ""
        agent = await self._sessions.agent(dialect.agent, event, peer, claimed)
        match event.kind:
            case Kind.BEFORE:
                seconds = await asyncio.to_thread(
                    self._patience, dialect.agent, peer, claimed, environment
                )
                return await self._before(dialect, event, agent, peer, Patient(seconds, gone))
            case Kind.AFTER:
                return await self._after(event, agent)
            case Kind.PROMPT:
                return await self._prompt(event, agent)
            case Kind.BEGINS:
                self._host.check_latch(agent)
            case Kind.CHILD_BEGINS | Kind.CHILD_ENDS:
                await self._host.note(
                    ChildRecord(
                        event="child-begins" if event.kind is Kind.CHILD_BEGINS else "child-ends",
                        agent=agent,
                        type=event.child_type,
                        session=event.session,
                    )
                )
            case _:
                pass
        return Say()

    # -- before a tool

    async def _before(
        self,
        dialect: Dialect,
        event: Event,
        agent: str,
        peer: int,
        approver: Approver,
    ) -> Say:
        self._host.check_latch(agent)
        use = normalise(dialect.agent, event.tool, event.params, server=event.server)
        if use.internal:
            return Say()
        if (rewritten := self._rewritten(use)) is not None:
            return rewritten
        plan = await asyncio.to_thread(self._plan, use, event, agent, peer)
        in_cell = use.tool in _COMMANDS and event.name in dialect.rewrites
        if in_cell and plan.params.command is None:
            raise BadCall("the call names no command")
        admission = await self._host.admit(
            plan,
            approver=approver,
            on_host=not in_cell,
            use=_use_of(event),
        )
        if admission.refused is not None:
            return Say(allowed=False, reason=admission.refused.told())
        if in_cell:
            label = label_of(plan.params.command or "") if dialect.labels else ""
            ticket = self._tickets.issue(admission, label)
            return Say(allowed=True, command=f"{_program()} run --ticket {ticket}")
        if event.use:
            self._remember(event, admission.call)
        return Say(allowed=True)

    def _plan(self, use: Use, event: Event, agent: str, peer: int) -> ActionPlan:
        cwd = event.cwd or ""
        if not Path(cwd).is_absolute():
            raise BadEvent("the agent does not say in which folder it stands")
        caller = Caller.of_process(self._agents, peer)
        whereabouts = Whereabouts.registered(self._registry, cwd)
        return plan_of({"agent": agent, "cwd": cwd}, caller, whereabouts, use=use)

    def _rewritten(self, use: Use) -> Say | None:
        """Return the answer where a command is one of our own tickets: the second of two events
        that some agents fire for one call. Only a tool that runs it as a command is let through: to
        any other one a ticket is but text."""
        if use.tool not in _COMMANDS:
            return None
        head = f"{_program()} run --ticket "
        command = use.params.command or ""
        if command.startswith(head) and self._tickets.knows(command[len(head) :]):
            return Say(allowed=True)
        return None

    def _patience(
        self, agent: str, peer: int, claimed: str, environment: Mapping[str, str]
    ) -> float:
        """Return how many seconds a person's answer is waited for."""
        process = self._sessions.process(agent, peer, claimed)
        attended = is_attended(agent, process, environment, self._agents.host)
        return self._settings.wait_seconds if attended else self._settings.unattended_seconds

    # -- after a tool, and the rest

    async def _after(self, event: Event, agent: str) -> Say:
        say = await self._masked(event, agent)
        try:
            kept = await self._host.came_back(agent, _use_of(event))
        except Unavailable:  # what it changed is recorded once that can be done
            kept = None
        call = self._calls.pop((event.session, event.use), None) or kept
        if call is not None:
            await self._host.note(OutcomeRecord(call=call, agent=agent, failed=event.failed))
        return say

    async def _masked(self, event: Event, agent: str) -> Say:
        """Return what the model gets in place of a tool's output; nothing where it stays."""
        if self._settings.redact and event.output:
            safe = await self._off_loop.do(agent, lambda: mask(event.output))
            if safe != event.output:
                return Say(output=safe)
        return Say()

    async def _prompt(self, event: Event, agent: str) -> Say:
        if is_stop_word(event.text):
            report = await self._host.request(StopRequest("a person said stop", agent, own=True))
            left = f"; still there: {', '.join(report.left)}" if report.left else ""
            again = f"`lockgate resume --agent {report.agent or agent}`"
            raise Stopped(f"agent `{report.agent or agent}` is stopped{left}; {again} lets it call")
        self._host.check_latch(agent)
        return Say()

    def _note_fired(self, name: str, event: Event) -> None:
        now = time.time()
        if event.session == SELF_TEST or now - self._noted.get(name, 0.0) < _NOTE_SECONDS:
            return
        self._noted[name] = now
        with contextlib.suppress(OSError):  # it is for `doctor` to say; no call waits for it
            self._connections.note_fired(name, event.name, now)

    def _remember(self, event: Event, call: str) -> None:
        while len(self._calls) >= _MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[event.session, event.use] = call


def _use_of(event: Event) -> ToolUse:
    """Return what tells a tool's use from others, before it and after it."""
    if event.use:
        return ToolUse(event.session, event.use)
    said = json.dumps([event.tool, event.params], sort_keys=True, default=str)
    return ToolUse(event.session, hashlib.sha256(said.encode("utf-8", "replace")).hexdigest())


def _program() -> str:
    return shlex.join(program())
