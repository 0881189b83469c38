# SPDX-License-Identifier: Apache-2.0
"""Hosts of one call beside its rights: those that grants open, and those that a person is asked
about while its connection waits (`network.ask: wait`).

INVARIANT (P4, asked): what is opened here is on record, with whose word it was, before anything
goes there; it is open for this call alone, and goes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from policy.model import Host, Landing, Verdict
from policy.values.strict_yaml import PolicyError
from sandbox.approvals.approver import nobody
from sandbox.approvals.desk import Patient, elsewhere
from sandbox.approvals.host_desk import HOST_DOOR, Connecting, HostAnswer, HostDesk, HostDoor
from sandbox.audit.events.calls import HostRecord
from sandbox.calls.flow.call import Call
from sandbox.calls.flow.parts import Parts
from sandbox.calls.flow.prepare import runner_request, time_limit
from sandbox.calls.recorder import Recorder
from sandbox.cells.pair.clock import CallClock
from sandbox.cells.transaction import uninterrupted
from sandbox.config.settings import AskHosts
from sandbox.errors import SandboxError
from sandbox.network.book import Reach
from sandbox.network.gateway import HostWord

REACHING = frozenset(
    ("build", "code", "git-branch", "git-push", "launcher", "network", "opaque", "packages",
     "remote-script", "runs-program", "runs-text", "script", "spawn", "tests", "unknown-program",
     "untrusted-code")
)  # fmt: skip
"""Rules of gate 1 about what may reach a host; what is none of these needs no cell of its own."""
ENDED_FIRST = "the call ended before anybody answered"


class HostAsking:
    """Says which calls of one supervisor can have a person asked about hosts."""

    def __init__(self, parts: Parts, has_background: Callable[[str], bool]) -> None:
        """`has_background`: whether an agent has a call in the background."""
        self._parts = parts
        self._desk = HostDesk(parts.grants, parts.desk)
        self._has_background = has_background

    def give(self, call: Call) -> None:
        """Let a person be asked about hosts of a call that is about to run, if anybody can be.

        A call beside a server of its agent's in the background stays where it reaches that one, and
        reaches else what its rights name.
        """
        door = HOST_DOOR.get() or HostDoor(elsewhere(call.approver))
        if door.approver is nobody or not self._may_ask(call):
            return
        if not call.decision.rights.network and self._has_background(call.plan.agent):
            return
        seconds = time_limit(call.plan, call.decision, self._parts.settings)
        clock = CallClock(seconds, stands=self._parts.settings.approval_seconds)
        call.questions = HostQuestions(self._parts.record, self._desk, self._parts.desk.seconds,
                                       call, door, clock)  # fmt: skip
        call.request = runner_request(call.plan, call.decision, call.id, call.env, asks=True)

    def _may_ask(self, call: Call) -> bool:
        decision = call.decision
        return (
            self._parts.settings.network.ask is AskHosts.WAIT
            and call.plan.params.command is not None
            and not (call.on_host or call.plan.params.run_in_background)
            and call.writes
            and decision.verdict is not Verdict.DENY
            and decision.landing is not Landing.PROPOSAL
            and bool(decision.rights.network or REACHING.intersection(decision.rules))
        )


class HostQuestions:
    """The questions about hosts of one call."""

    def __init__(
        self,
        record: Recorder,
        desk: HostDesk,
        seconds: float,
        call: Call,
        door: HostDoor,
        clock: CallClock,
    ) -> None:
        """`seconds`: how long a question waits."""
        self._record = record
        self._desk = desk
        self._seconds = seconds
        self._call = call
        self._door = door
        self._started = asyncio.get_running_loop().time()
        self.clock = clock
        """The call's time, which stands still while a question waits."""

    async def ask(self, name: str, port: int) -> HostWord:
        """Ask a person about a host; a failure is a no. Cancelled where the call ends first."""
        host = Host(name=name, port=port)
        entry: dict[str, Any] = {"host": name, "port": port, "state": "asked"}
        self._call.hosts.append(entry)
        try:
            with self.clock.standing_still():
                answer = await self._answer(host, entry)
            return await uninterrupted(self._settle(host, entry, answer))
        except (SandboxError, PolicyError, OSError) as error:
            entry |= {"state": "refused", "because": f"a person cannot be asked: {error}"}
            return HostWord(None, "a person cannot be asked")
        except asyncio.CancelledError:
            if entry["state"] == "asked":
                entry |= {"state": "refused", "because": ENDED_FIRST}
                self._record.later(host_record(self._call, entry))
            raise

    async def _answer(self, host: Host, entry: dict[str, Any]) -> HostAnswer:
        call, approver = self._call, self._door.approver
        if isinstance(approver, Patient):  # whoever made the call waits for no longer
            left = approver.seconds - (asyncio.get_running_loop().time() - self._started)
            if left <= 0:
                return HostAnswer(None, reason="whoever made the call waits for nobody any more")
            approver = Patient(left)
        about = Connecting(call.id, call.plan, call.decision, host, dict(call.env or {}))
        request = about.question(self._seconds)
        entry["question"] = request.call
        return await self._desk.ask(request, approver, self._door.tell)

    async def _settle(self, host: Host, entry: dict[str, Any], answer: HostAnswer) -> HostWord:
        """Record an answer and return what the gateway makes of it."""
        fields = {"by": answer.by, "because": answer.reason, "grant": answer.grant}
        entry |= {"state": "opened" if answer.opened else "refused"} | {
            key: one for key, one in fields.items() if one
        }
        await self._record.event(host_record(self._call, entry))
        if answer.opened is None:
            who = "a person said no" if answer.by else "nobody opened it"
            return HostWord(None, f"{who}: {answer.reason}" if answer.reason else who)
        private = (host.port,) if answer.opened.private else ()
        return HostWord(Reach(host.name, (host.port,), private, answer.opened.address))


def host_record(call: Call, entry: Mapping[str, Any]) -> HostRecord:
    """Return the record of one host of a call, with all of the call until then."""
    return HostRecord.model_validate(
        {
            "event": f"host-{entry['state']}",
            "call": call.id,
            **{key: one for key, one in entry.items() if key != "state"},
            "hosts": [dict(host) for host in call.hosts],
        }
    )
