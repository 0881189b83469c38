# SPDX-License-Identifier: Apache-2.0
"""The real protocols in memory: a Supervisor that runs nothing, and its server in a thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from policy.model import ActionPlan, Decision, LayerAnswer, Rights, Tier, Verdict
from sandbox.audit.events.agents import ChildRecord
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.audit.store import Store
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.tickets import Admission
from sandbox.cells.work import waiting
from sandbox.errors import BadInput, NotEnforced, NotShown, Stopped, Unavailable, UnknownRequest
from sandbox.host.dirs import Dirs
from sandbox.operations.requests import (
    ChangedRequest,
    ClosePortRequest,
    DiscardRequest,
    EndRequest,
    HeldRequest,
    LandRequest,
    LookHeldRequest,
    ObjectRequest,
    OpenPortRequest,
    PeekRequest,
    Request,
    StopRequest,
    UndoChosenRequest,
    UndoLastRequest,
    UndoRequest,
    WarmRequest,
)
from sandbox.reporting.delivery import SHOWN
from sandbox.results import (
    CallResult,
    ChangedReport,
    ChangeView,
    Ending,
    HeldCall,
    HeldLook,
    StopReport,
    UndoReport,
    UndoResult,
)
from sandbox.server.server import Server, hold_lock

R = TypeVar("R")
WAIT_SECONDS = 120.0
ANOTHER_DIGEST = "0" * 64
"""That of a look at something else than what is held."""


def lines_of(store: Store) -> list[dict[str, Any]]:
    """Return what the log of a store says, newest first, without what the chain adds."""
    return [one.as_json() for one in store.records()]


class FakeSupervisor:
    """Answers as a Supervisor does; what happens is said by the first word of the command."""

    def __init__(self) -> None:
        self.entered = 0
        self.exited = 0
        self.asked: list[ActionPlan] = []
        self.plans: list[ActionPlan] = []
        self.environments: list[Mapping[str, str] | None] = []
        self.shown: list[bool] = []
        """Of each call, whether its report counts as told."""
        self.cancelled: list[str] = []
        self.done: list[str] = []
        self.digests: list[str | None] = []
        """Of each landing, what stands for that which the person was shown."""
        self.asked_by: str | None = None
        """Who asked for the last undo."""
        self.background: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.started = threading.Event()
        self.stops: list[tuple[str, str | None, bool]] = []
        self.release = threading.Event()

    async def __aenter__(self) -> FakeSupervisor:
        self.entered += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.exited += 1

    async def call(
        self,
        plan: ActionPlan,
        *,
        approver: Any,
        stdin: AsyncIterator[bytes] | bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
        call_id: str | None = None,
    ) -> CallResult:
        """Act as the command says; see `tests/sandbox` for the words."""
        self.plans.append(plan)
        self.environments.append(env)
        self.shown.append(SHOWN.get())
        call = call_id or f"c{len(self.plans)}"
        command = plan.params.command or ""
        word, _, rest = command.partition(" ")
        say = on_output or (lambda stream, data: None)
        match word:
            case "deny":
                return _result(call, plan, Verdict.DENY, Ending.DENIED, message="no: because")
            case "ask":
                self.asked.append(plan)
                decision = decide(plan, Verdict.ASK)
                answer = await approver(call, plan, decision)
                if not answer.approved:
                    why = answer.reason or "nobody to ask"
                    return _result(call, plan, Verdict.ASK, Ending.NOT_APPROVED, message=why)
                return _result(call, plan, Verdict.ASK, Ending.RAN, status=0)
            case "settled":  # somebody answers elsewhere while the client is asked
                asked = asyncio.ensure_future(approver(call, plan, decide(plan, Verdict.ASK)))
                await asyncio.wait({asked}, timeout=float(rest))
                asked.cancel()
                say("stdout", b"it runs\n")
                return _result(call, plan, Verdict.ASK, Ending.RAN, status=0)
            case "exit":
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=int(rest))
            case "late":
                return _result(call, plan, Verdict.ALLOW, Ending.TIMED_OUT, status=124)
            case "say":
                say("stdout", rest.encode("utf-8", "surrogateescape"))
                say("stderr", b"to stderr\n")
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0, stdout=rest)
            case "bytes":
                say("stdout", b"\xff\x1b]0;title\x07\r" + "é".encode()[:1])
                say("stdout", "é".encode()[1:] + b"\n")
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0)
            case "flood":
                for _ in range(int(rest)):
                    say("stdout", b"x" * 1_000_000)
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0)
            case "long":
                text = "é" * int(rest)
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0, stdout=text)
            case "cat":
                count = 0
                assert stdin is not None and not isinstance(stdin, bytes | str)
                async for piece in stdin:
                    count += len(piece)
                    say("stdout", piece)
                return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0, stdout=str(count))
            case "wait":
                return await self._wait(call, plan, say)
            case "background":
                one = {"id": call, "agent": plan.agent, "command": command, "background": True}
                one |= {"workspace": plan.workspace, "started": float(len(self.background))}
                self.background.append(one)
                return _result(call, plan, Verdict.ALLOW, Ending.RUNNING)
            case "hold":
                held = ChangeView(
                    path="a.py", kind="deleted", type="file", outcome="hold", reason="was deleted"
                )
                return _result(
                    call, plan, Verdict.ALLOW, Ending.RAN, status=0, judgement="hold",
                    changes=(held,), message="held: `a.py` was deleted",
                )  # fmt: skip
            case "land":
                new = ChangeView(path="a.py", kind="created", type="file")
                return _result(
                    call, plan, Verdict.ALLOW, Ending.RAN, status=0, judgement="land",
                    changes=(new,), landed=True,
                )  # fmt: skip
            case "stopped":
                raise Stopped("stopped: a test; `lockgate resume` clears it")
            case "broken":
                raise NotEnforced("container differs from its plan: network")
            case "crash":
                raise ValueError("not ours")
        return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=127)

    async def _wait(
        self, call: str, plan: ActionPlan, say: Callable[[str, bytes], None]
    ) -> CallResult:
        """Run until released or cancelled."""
        say("stdout", b"started\n")
        self.started.set()
        try:
            while not self.release.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled.append(call)
            raise
        return _result(call, plan, Verdict.ALLOW, Ending.RAN, status=0)

    async def request(self, request: Request[R], *, by: str | None = None) -> R:
        """Do nothing, note it, and answer as a supervisor does."""
        result: R = await self._answer(request, by)
        return result

    async def _answer(self, request: Request[Any], by: str | None) -> Any:
        match request:
            case WarmRequest():
                self.done.append(f"warm {request.workspace}")
                return None
            case PeekRequest():
                raise BadInput(f"no background call `{request.call}`")
            case HeldRequest():
                return (HeldCall(id="c1", agent="main", tool="Bash", changes=2, bytes=10, age=5.0),)
            case LookHeldRequest():
                self._did("look", request.call)
                return HeldLook(
                    id=request.call,
                    changes=(),
                    changes_total=0,
                    diff="",
                    differs=("x",),
                    digest="1" * 64,
                )
            case UndoRequest():
                return await self._undo(request.call, by)
            case UndoLastRequest():
                numbers = range(request.count)
                return UndoReport(
                    done=tuple(UndoResult(id=f"u{n}", undone=f"c{n}", changes=()) for n in numbers)
                )
            case StopRequest():
                self.stops.append((request.reason, request.agent, request.own))
                return StopReport(reason=request.reason, killed=("cell-1",), left=())
            case EndRequest():
                self.background[:] = [
                    one for one in self.background if one.get("id") != request.call
                ]
                return self._did("end", request.call)
            case LandRequest():
                self.digests.append(request.digest)
                if request.digest == ANOTHER_DIGEST:
                    raise NotShown("it is another by now")
                words = [request.call, *request.paths, *(["--force"] if request.force else [])]
                return self._did("land", " ".join(words))
            case ObjectRequest() | DiscardRequest():
                return self._did(request.op, request.call)
            case UndoChosenRequest():
                self.done.append(f"undone {request.session}")
                return UndoReport(done=(UndoResult(id="u1", undone="c1", changes=()),))
            case OpenPortRequest():
                return {"call": request.call, "port": request.port, "host": "127.0.0.1",
                        "host_port": request.host_port, "by": "me"}  # fmt: skip
            case ClosePortRequest():
                return ({"call": request.call, "port": 2, "host": "127.0.0.1", "host_port": 3},)
            case ChangedRequest():
                return ChangedReport(calls=("c1",), session=request.session or "")
        raise UnknownRequest(f"`{request.op}` is no request of a supervisor")

    async def came_back(self, agent: str, use: ToolUse) -> str | None:
        """Know of no tool."""
        return None

    async def admit(
        self,
        plan: ActionPlan,
        *,
        approver: Any,
        on_host: bool = False,
        use: ToolUse | None = None,
    ) -> Admission:
        """Admit nothing: hooks have tests of their own."""
        raise BadInput("the fake admits nothing")

    async def redeem(
        self,
        admission: Admission,
        *,
        stdin: Any = None,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> CallResult:
        """Redeem nothing."""
        raise BadInput("the fake admits nothing")

    async def attach(self, call_id: str, on_output: Callable[[str, bytes], None]) -> CallResult:
        """Attach to nothing."""
        raise BadInput(f"no background call `{call_id}`")

    async def note(self, said: ChildRecord | OutcomeRecord) -> None:
        """Note nothing."""

    def check_latch(self, agent: str) -> None:
        """Never be stopped."""

    async def _undo(self, call_id: str, by: str | None) -> UndoResult:
        """Undo a call; slowly, so that a test can leave in the middle."""
        self.asked_by = by
        self._did("undo", call_id)
        self.started.set()
        with waiting(lambda: "call `big` of agent `main`, which lands 20,000 changes"):
            while call_id == "slow" and not self.release.is_set():
                await asyncio.sleep(0.005)
        self.done.append(f"undone {call_id}")
        change = ChangeView(path="a.py", kind="modified", type="file")
        return UndoResult(id="u1", undone=call_id, changes=(change,))

    def running(self) -> list[dict[str, Any]]:
        """Return the background calls."""
        return self.background

    def follow_ups(self) -> list[dict[str, Any]]:
        """Return no undo and no landing: each is over at once."""
        return []

    def asking(self) -> list[dict[str, Any]]:
        """Return the calls that wait for a person."""
        return self.questions

    def cells(self) -> list[dict[str, Any]]:
        """Return one cell."""
        return [{"name": "cell-1"}]

    def budgets(self) -> dict[str, list[str]]:
        """Return what one agent has used."""
        return {"main": ["3 of 10 calls within a minute"]}

    def _did(self, what: str, call_id: str) -> CallResult:
        if call_id == "nosuch":
            raise BadInput("no call `nosuch`")
        if call_id == "noengine":
            raise Unavailable("no engine answers")
        self.done.append(f"{what} {call_id}")
        plan = ActionPlan(tool="Bash", workspace="/w")
        return _result(call_id, plan, Verdict.ALLOW, Ending.RAN, status=0, judgement="land")


def decide(plan: ActionPlan, verdict: Verdict) -> Decision:
    """Return a decision as gate 1 gives it."""
    return Decision(
        verdict=verdict,
        tier=Tier.DANGER,
        rights=Rights(),
        layers=(LayerAnswer(layer="tier", verdict=verdict, reason="it deletes", rule="delete"),),
        message="deleting needs a yes",
    )


def _result(
    call: str,
    plan: ActionPlan,
    verdict: Verdict,
    ending: Ending,
    *,
    status: int | None = None,
    message: str = "",
    stdout: str = "",
    judgement: str | None = None,
    changes: tuple[ChangeView, ...] = (),
    landed: bool = False,
) -> CallResult:
    return CallResult(
        id=call, tool=plan.tool, verdict=verdict, tier=Tier.CAUTION, rules=("a-rule",),
        message=message, ending=ending, judgement=judgement, landed=landed, changes=changes,
        exit_status=status, stdout=stdout, ms=1.5,
    )  # fmt: skip


class Served:
    """A server with a fake supervisor, running in a thread of its own."""

    def __init__(self, dirs: Dirs, fake: FakeSupervisor, *, idle_seconds: float) -> None:
        self.dirs = dirs
        self.fake = fake
        self.ended = threading.Event()
        self._ready = threading.Event()
        self._idle_seconds = idle_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self.server: Server | None = None

    def run(self) -> None:
        """Serve until shut down or idle."""
        asyncio.run(self._serve())
        self.ended.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = Server(self.dirs, self.fake, idle_seconds=self._idle_seconds)
        await self.server.serve(ready=self._ready.set)

    def wait_ready(self) -> None:
        """Return once clients can connect."""
        assert self._ready.wait(WAIT_SECONDS)

    def stop(self) -> None:
        """Shut the server down from outside."""
        if self._loop is not None and self.server is not None and not self.ended.is_set():
            self._loop.call_soon_threadsafe(self.server.shut_down)


@contextmanager
def served(
    dirs: Dirs, fake: FakeSupervisor | None = None, *, idle_seconds: float = 3600.0
) -> Iterator[Served]:
    """Run a server with a fake supervisor while the block runs, holding the lock as it would."""
    dirs.create()
    lock = hold_lock(dirs)
    assert lock is not None
    one = Served(dirs, fake or FakeSupervisor(), idle_seconds=idle_seconds)
    thread = threading.Thread(target=one.run, daemon=True)
    thread.start()
    try:
        one.wait_ready()
        yield one
    finally:
        one.fake.release.set()
        one.stop()
        thread.join(WAIT_SECONDS)
        os.close(lock)


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a bound."""
    waiting = threading.Event()
    for _ in range(int(WAIT_SECONDS / 0.01)):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError(f"{what}: not within {WAIT_SECONDS} s")
