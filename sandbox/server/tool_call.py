# SPDX-License-Identifier: Apache-2.0
"""One tool call of a client: its task, its input and output, and the question that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from policy.model import ActionPlan, Decision
from sandbox.agents.peer import Peer
from sandbox.agents.told_sessions import CURRENT, ToldSessions
from sandbox.approvals.approver import Answer, Approver, nobody
from sandbox.approvals.desk import Patient, elsewhere, waiting
from sandbox.approvals.host_desk import HOST_DOOR, HostDoor
from sandbox.approvals.objections import ON_WAIT
from sandbox.calls.tickets import Tickets
from sandbox.client.wire import CHUNK_BYTES, SPEAKS_FOR, Message, pack, unpack
from sandbox.errors import BadInput
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.reporting.delivery import SHOWN
from sandbox.results import Ending
from sandbox.server.supervising import Supervising
from sandbox.workspaces.registry import Registry


@dataclass(frozen=True, slots=True)
class Line:
    """What a client's connection lends to its calls."""

    peer: Peer
    sessions: ToldSessions
    registry: Registry
    tickets: Tickets
    send: Callable[[Message], None]
    """Sends the client a message."""
    tied: set[str] = field(default_factory=set)
    """Background calls that end with the connection: nobody else would end them."""


class ToolCall:
    """One tool call on its way: its task, its input, and the question that waits for an answer."""

    def __init__(self, line: Line, number: int) -> None:
        self._line = line
        self._number = number
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._answer: asyncio.Future[Message] | None = None
        self.task: asyncio.Task[None] | None = None

    def take(self, op: str, message: Message) -> None:
        """Take what the client sends while the call goes on."""
        if op == "cancel":
            self.cancel()
        elif op == "stdin":
            self._input.put_nowait(unpack(message.get("data")))
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def cancel(self) -> None:
        """Cancel the call: its processes end and nothing of it lands."""
        if self.task is not None:
            self.task.cancel()

    async def run(self, supervisor: Supervising, message: Message) -> Message:
        """Run the call to its end and return the result for the client."""
        if "ticket" in message:
            return await self._redeem(supervisor, message)
        peer = self._line.peer.speaking_for(message.get(SPEAKS_FOR))
        caller = await peer.caller()
        CURRENT.set(self._line.sessions.of_caller(caller.around, message.get("session")))
        ON_WAIT.set(lambda call, seconds: self._send("waits", call=call, seconds=seconds))
        # P8: what an agent's own client says of its reports counts for nothing
        SHOWN.set(message.get("shows") is True and caller.around is None)
        whereabouts = _whereabouts(message, self._line.registry)
        plan = await asyncio.to_thread(plan_of, message.get("plan"), caller, whereabouts)
        approver = await self._approver(message.get("ask"), peer)
        HOST_DOOR.set(self._host_door(approver, message.get("patience")))
        result = await supervisor.call(
            plan,
            approver=approver,
            stdin=self._stdin() if message.get("stdin") is True else None,
            env=_environment(message.get("env")),
            on_output=self._output if message.get("output") is True else None,
            call_id=message.get("call"),
        )
        if result.ending is Ending.RUNNING and message.get("tied") is True:
            self._line.tied.add(result.id)
        without = {"stdout", "stderr"} if message.get("text") is False else None
        return result.model_dump(mode="json", exclude=without)

    async def _redeem(self, supervisor: Supervising, message: Message) -> Message:
        """Make a call that a hook admitted; a background one is listened to until it ends."""
        ON_WAIT.set(lambda call, seconds: self._send("waits", call=call, seconds=seconds))
        admission = self._line.tickets.take(_text(message, "ticket"))
        CURRENT.set(admission.session)
        HOST_DOOR.set(self._host_door(nobody, admission.patience))
        result = await supervisor.redeem(
            admission,
            stdin=self._stdin() if message.get("stdin") is True else None,
            on_output=self._output if message.get("output") is True else None,
        )
        if result.ending is Ending.RUNNING:
            result = await supervisor.attach(result.id, self._output)
        without = {"stdout", "stderr"} if message.get("text") is False else None
        return result.model_dump(mode="json", exclude=without)

    async def _approver(self, ask: object, peer: Peer) -> Any:
        """Return who answers: the client (`true`), somebody elsewhere (`"wait"`, or for so many
        seconds), or nobody. The word of an agent's own client counts for nothing (P8)."""
        if ask is True:
            around = await asyncio.to_thread(peer.agent)
            return self._ask if around is None else nobody
        if isinstance(ask, int | float) and ask > 0:
            return Patient(float(ask))
        return waiting if ask == "wait" else nobody

    def _host_door(self, approver: Approver, patience: object) -> HostDoor:
        """Return who is waited for while the call runs: for so many seconds, where that is said."""
        patient = isinstance(patience, int | float) and patience > 0
        waits = Patient(float(patience)) if patient else elsewhere(approver)  # type: ignore[arg-type]
        return HostDoor(
            waits, lambda question, wants: self._send("asks", call=question, wants=wants)
        )

    def _send(self, event: str, **fields: Any) -> None:
        self._line.send({"id": self._number, "event": event, **fields})

    def _output(self, stream: str, data: bytes) -> None:
        for at in range(0, len(data), CHUNK_BYTES):
            self._send("output", stream=stream, data=pack(data[at : at + CHUNK_BYTES]))

    async def _ask(self, call_id: str, plan: ActionPlan, decision: Decision) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        self._send(
            "ask",
            call=call_id,
            plan=plan.model_dump(mode="json", by_alias=True),
            decision=decision.model_dump(mode="json"),
        )
        said = await self._answer
        return Answer(
            approved=said.get("approved") is True,
            by=str(said.get("by", "")),
            reason=str(said.get("reason", "")),
        )

    async def _stdin(self) -> AsyncIterator[bytes]:
        """Yield the client's input, asking for each piece only when it is wanted."""
        while True:
            self._send("stdin")
            data = await self._input.get()
            if not data:
                return
            yield data


def _whereabouts(message: Message, registry: Registry) -> Whereabouts:
    """Return where the client stands, unless its plan names workspace and folder itself."""
    if "here" not in message:
        return Whereabouts.said(registry)
    here = message["here"]
    return Whereabouts.registered(registry, here if isinstance(here, str) else None)


def _text(message: Message, key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise BadInput(f"`{key}` is not given as text")
    return value


def _environment(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return {str(key): text for key, text in value.items()}
    raise BadInput("`env` is not given as names and texts")
