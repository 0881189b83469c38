# SPDX-License-Identifier: Apache-2.0
"""The order of effects of one call: what happens, and what never happens before something else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    LayerAnswer,
    Params,
    Rights,
    Tier,
    Verdict,
    Workspace,
)
from sandbox.approvals.approver import Answer
from sandbox.audit.events.record import AuditRecord
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Settings
from sandbox.errors import BadInput, SandboxError, Stopped, Unavailable
from sandbox.results import CallResult, Ending
from tests.sandbox.fake_cell import FakeCell, FakePool

T = TypeVar("T")
PROMISE_SECONDS = 120.0


class Bench:
    """A supervisor over a fake cell; everything that happens is noted in one list."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.verdict = Verdict.ALLOW
        self.programs: tuple[str, ...] = ()
        self.cell = FakeCell(self.log)
        self.workspace = root / "work"
        self.workspace.mkdir()
        monkeypatch.setattr("sandbox.gates.gate1.decide", self._decide)
        monkeypatch.setattr(
            "sandbox.cells.pool.CellPool.connect", lambda *_: cast(Any, FakePool(self.cell))
        )
        self.supervisor = Supervisor(
            Dirs.under(root / "lockgate"),
            policy=Policy.default(),
            workspaces=[Workspace(str(self.workspace))],
            settings=Settings(),
        )
        self.store = self.supervisor._record.store
        append = self.store.append

        def noted(record: AuditRecord, *, durable: bool) -> None:
            append(record, durable=durable)
            self.log.append(f"{record.event}{' on disk' if durable else ''}")

        monkeypatch.setattr(self.store, "append", noted)

    def _decide(self, plan: ActionPlan, context: Context, policy: object, *_: object) -> Decision:
        self.log.append("decide")
        return Decision(
            verdict=self.verdict,
            tier=Tier.CAUTION,
            rights=Rights(workspace=Access(plan.intent or "write")),
            layers=(LayerAnswer(layer="test", verdict=self.verdict, reason="r", rule="a-rule"),),
            message="a test says so",
            programs=self.programs,
        )

    def plan(self, command: str, access: str = "write", tool: str = "Bash") -> ActionPlan:
        """Return a plan."""
        return ActionPlan(
            tool=tool,
            params=Params(command=command),
            workspace=str(self.workspace),
            intent=access,
        )

    async def call(self, command: str, access: str = "write", **options: Any) -> CallResult:
        """Call it and wait for the record."""
        try:
            return await self.supervisor.call(self.plan(command, access), **options)
        finally:
            await self.supervisor._record.flush()

    def sh(self, command: str, access: str = "write", **options: Any) -> CallResult:
        """Call it in a loop of its own."""
        return run(self.call(command, access, **options))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run with a bound."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, PROMISE_SECONDS)

    return asyncio.run(bounded())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return a supervisor over a fake cell."""
    return Bench(tmp_path, monkeypatch)


def before(log: list[str], first: str, second: str) -> bool:
    """Whether something happened before something else."""
    return log.index(first) < log.index(second)


def test_a_call_is_read_and_its_policy_looked_up_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def counted(where: object, name: str) -> None:
        genuine = getattr(where, name)

        def once_more(*arguments: object) -> object:
            looks.append(name)
            return genuine(*arguments)

        monkeypatch.setattr(where, name, once_more)

    bench.verdict = Verdict.REPORT
    counted(bench.supervisor._parts.policies, "of")
    counted(bench.supervisor._parts.contexts, "of")
    monkeypatch.setattr("policy.people.approval.tools.facts", lambda *_: pytest.fail("read again"))
    assert bench.sh("echo x > new.txt").landed
    assert looks == ["of", "of"]  # the policy, then the context by it


def test_a_writing_call_that_lands(bench: Bench) -> None:
    done = bench.sh("echo x > new.txt")
    assert (done.judgement, done.landed, done.ending) == ("land", True, Ending.RAN)
    assert [change.path for change in done.changes] == ["new.txt"]
    assert [word for word in bench.log if word != "decided on disk"] == [
        "decide", "cell", "open write", "run echo x > new.txt", "close", "land", "ended",
    ]  # fmt: skip
    assert before(bench.log, "decided on disk", "run echo x > new.txt")


def test_a_call_that_changes_nothing_lands_nothing(bench: Bench) -> None:
    done = bench.sh("true")
    assert (done.judgement, done.landed) == ("land", False)
    assert bench.log[-3:] == ["close", "drop", "ended"]


def test_a_reading_call_has_no_layer(bench: Bench) -> None:
    done = bench.sh("echo out", "read")
    assert (done.judgement, done.landed, done.stdout) == (None, False, "out\n")
    assert [word for word in bench.log if word != "decided on disk"] == [
        "decide", "cell", "open read", "run echo out", "close", "ended",
    ]  # fmt: skip


def test_a_denied_call_reaches_no_cell(bench: Bench) -> None:
    bench.verdict = Verdict.DENY
    done = bench.sh("true")
    assert (done.ending, done.exit_status, done.rules) == (Ending.DENIED, None, ("a-rule",))
    assert done.message == "a test says so"
    assert bench.log == ["decide", "decided on disk", "ended"]


def test_a_question_is_asked_after_the_decision_is_on_disk_and_before_anything_runs(
    bench: Bench,
) -> None:
    bench.verdict = Verdict.ASK

    async def approver(call: str, plan: ActionPlan, decision: Decision) -> Answer:
        bench.log.append("asked")
        return Answer(approved=True, by="somebody")

    assert bench.sh("true", approver=approver).ending is Ending.RAN
    before = ["decide", "decided on disk", "asked on disk", "asked", "decide", "answered on disk"]
    assert bench.log[:7] == [*before, "cell"]


@pytest.mark.parametrize("answer", [Answer(approved=False), Answer(approved=False, reason="no!")])
def test_a_no_reaches_no_cell(bench: Bench, answer: Answer) -> None:
    bench.verdict = Verdict.ASK

    async def approver(call: str, plan: ActionPlan, decision: Decision) -> Answer:
        return answer

    done = bench.sh("true", approver=approver)
    assert done.ending is Ending.NOT_APPROVED
    assert done.message == f"a test says so ({answer.reason or 'no'})"
    assert bench.log == ["decide", "decided on disk", "asked on disk", "answered on disk", "ended"]


def test_with_nobody_to_ask_nothing_runs(bench: Bench) -> None:
    bench.verdict = Verdict.ASK
    message = bench.sh("true").message
    assert message.startswith("a test says so (nobody to ask here; `lockgate approve ")
    assert "cell" not in bench.log


def test_a_tool_that_is_only_judged_is_not_run(bench: Bench) -> None:
    done = run(bench.supervisor.call(bench.plan("x", tool="WebFetch")))
    assert done.ending is Ending.DENIED
    assert done.message == "a test says so; `WebFetch` is judged here, but not run by Lockgate"
    assert "cell" not in bench.log


def test_a_decision_that_cannot_be_recorded_lets_nothing_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(record: AuditRecord, *, durable: bool) -> None:
        if record.event == "decided":
            raise Unavailable("audit.jsonl: cannot be written: no space left on device")

    monkeypatch.setattr(bench.store, "append", broken)
    for access in ("read", "write"):
        with pytest.raises(Unavailable, match="no space left on device"):
            bench.sh("echo x > new.txt", access)
    assert not any(word.startswith(("run", "land")) for word in bench.log)
    assert "drop" in bench.log  # the layer that was opened meanwhile goes
    monkeypatch.undo()


def test_nothing_runs_before_its_decision_is_on_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = threading.Event()
    append = bench.store.append

    def slow(record: AuditRecord, *, durable: bool) -> None:
        if record.event == "decided":
            assert may_write.wait(PROMISE_SECONDS)
        append(record, durable=durable)

    monkeypatch.setattr(bench.store, "append", slow)

    async def race() -> list[str]:
        call = asyncio.ensure_future(bench.call("true"))
        while "open write" not in bench.log:
            await asyncio.sleep(0.001)
        for _ in range(50):  # everything that could run has its chance
            await asyncio.sleep(0)
        seen = list(bench.log)
        may_write.set()
        await call
        return seen

    assert run(race()) == ["decide", "cell", "open write"]
    assert before(bench.log, "decided on disk", "run true")


def test_an_outcome_that_cannot_be_recorded_stops_the_next_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = bench.store.append

    def broken(record: AuditRecord, *, durable: bool) -> None:
        if record.event == "ended":
            raise Unavailable("the disk is full")
        append(record, durable=durable)

    monkeypatch.setattr(bench.store, "append", broken)
    assert bench.sh("true").ending is Ending.RAN
    with pytest.raises(SandboxError, match="an outcome could not be recorded: the disk is full"):
        bench.sh("echo out")
    assert "run echo out" not in bench.log


def test_a_discarded_call_never_lands(bench: Bench) -> None:
    done = bench.sh("echo x > .devkit-waiver.yml")
    assert (done.judgement, done.landed) == ("discard", False)
    assert bench.log[-4:] == ["close", "drop", "ended", "reputation on disk"]


def test_a_held_call_is_kept(bench: Bench) -> None:
    done = bench.sh("rm README.md")
    assert (done.judgement, done.landed) == ("hold", False)
    assert done.message.endswith(f"see `lockgate show {done.id}`")
    assert bench.log[-3:] == ["close", "hold", "ended"]


def test_a_conflict_while_landing_is_held(bench: Bench) -> None:
    bench.cell.conflicts = ["new.txt"]
    done = bench.sh("echo x > new.txt")
    assert (done.judgement, done.landed) == ("hold", False)
    assert done.message.startswith("held: `new.txt` changed while the call ran")
    assert bench.log[-4:] == ["close", "land", "hold", "ended"]


def test_what_cannot_be_landed_now_is_held(bench: Bench) -> None:
    bench.cell.fails = "land"
    done = bench.sh("echo x > new.txt")
    assert (done.judgement, done.landed) == ("hold", False)
    assert done.message.startswith("held: the keeper could not land: a test; a person can land it")
    assert bench.log[-4:] == ["close", "land", "hold", "ended"]


@pytest.mark.parametrize("op", ["open", "close"])
def test_a_keeper_that_fails_is_a_failed_call_and_the_layer_goes(bench: Bench, op: str) -> None:
    bench.cell.fails = op
    with pytest.raises(SandboxError, match=f"the keeper could not {op}: a test"):
        bench.sh("echo x > new.txt")
    assert "drop" in bench.log
    assert bench.log[-1] == "ended"
    bench.cell.fails = ""
    assert bench.sh("echo x > new.txt").landed  # and the next call has its turn


def test_a_layer_that_cannot_be_dropped_ends_the_cell(bench: Bench) -> None:
    bench.cell.fails = "drop"
    bench.sh("echo x > .devkit-waiver.yml")
    assert "end: a transaction could not be ended: the keeper could not drop: a test" in bench.log


def test_a_stop_during_the_call_lands_nothing(bench: Bench) -> None:
    async def race() -> None:
        call = asyncio.ensure_future(bench.call("wait"))
        while "run wait" not in bench.log:
            await asyncio.sleep(0.001)
        bench.supervisor._latch.set("a test")
        bench.cell.release.set()
        with pytest.raises(Stopped, match=r"stopped at .*: a test"):
            await call

    run(race())
    assert bench.log[-2:] == ["drop", "ended"]
    assert not {"land", "hold"} & set(bench.log)


def test_a_stop_after_the_approval_lets_nothing_run(bench: Bench) -> None:
    bench.verdict = Verdict.ASK

    async def approver(call: str, plan: ActionPlan, decision: Decision) -> Answer:
        bench.supervisor._latch.set("a test")
        return Answer(approved=True)

    with pytest.raises(Stopped):
        bench.sh("true", approver=approver)
    assert "cell" not in bench.log


def test_while_the_latch_is_set_nothing_is_even_decided(bench: Bench) -> None:
    bench.supervisor._latch.set("a test")
    with pytest.raises(Stopped):
        bench.sh("true")
    assert bench.log == []
    bench.supervisor._latch.clear()
    assert bench.sh("true").ending is Ending.RAN


def test_a_cancelled_call_drops_its_layer_and_says_so_in_the_record(bench: Bench) -> None:
    async def race() -> None:
        call = asyncio.ensure_future(bench.supervisor.call(bench.plan("wait"), call_id="c1"))
        while "run wait" not in bench.log:
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await bench.supervisor._record.flush()

    run(race())
    assert bench.log[-2:] == ["drop", "ended"]
    assert bench.store.call("c1").ending == "cancelled"


def test_bad_input_is_said_before_anything_is_recorded(bench: Bench) -> None:
    with pytest.raises(BadInput, match="NUL byte"):
        bench.sh("a\0b")
    with pytest.raises(BadInput, match="is not a registered workspace"):
        run(bench.supervisor.call(ActionPlan(tool="Bash", workspace="/nowhere")))
    assert [word for word in bench.log if word != "decide"] == []


def test_a_call_is_listed_while_it_runs(bench: Bench) -> None:
    async def race() -> list[list[str]]:
        call = asyncio.ensure_future(bench.call("wait", call_id="c1"))
        while "run wait" not in bench.log:
            await asyncio.sleep(0.001)
        during = [one["id"] for one in bench.supervisor.running()]
        bench.cell.release.set()
        await call
        return [during, [one["id"] for one in bench.supervisor.running()]]

    assert run(race()) == [["c1"], []]


def test_a_cell_that_cannot_start_is_an_outcome_in_the_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise Unavailable("no engine answers")

    monkeypatch.setattr("sandbox.cells.pool.CellPool.connect", none)
    with pytest.raises(Unavailable, match="no engine answers"):
        bench.sh("true", call_id="c1")
    found = bench.store.call("c1")
    assert (found.ending, found.outcome) == ("failed", "no engine answers")


class Second:
    """A second reading that sees what a test wants."""

    def __init__(self, log: list[str], seen: tuple[str, ...] | None) -> None:
        self.log = log
        self.seen = seen

    def ask(self, text: str) -> object:
        self.log.append(f"second {text}")
        return object()

    async def answer(self, question: object) -> tuple[str, ...] | None:
        self.log.append("seen")
        return self.seen


READINGS = {
    "no opinion changes nothing": (None, Ending.RAN),
    "a program that gate 1 read changes nothing": (("echo",), Ending.RAN),
    "a program that gate 1 overlooked is asked about": (("echo", "nmap"), Ending.NOT_APPROVED),
}


@pytest.mark.parametrize("seen, ending", READINGS.values(), ids=READINGS)
def test_the_second_reading_is_heard_before_the_decision_is_recorded(
    bench: Bench, seen: tuple[str, ...] | None, ending: Ending
) -> None:
    bench.programs = ("echo",)
    bench.supervisor._parts.gate.opinion = cast(Any, Second(bench.log, seen))
    done = bench.sh("echo $(echo)")
    assert done.ending is ending
    assert bench.log[:3] == ["second echo $(echo)", "decide", "seen"]
    if ending is Ending.NOT_APPROVED:
        assert done.rules[0] == "second-opinion"
        assert "cell" not in bench.log


def test_a_plain_text_is_not_read_again(bench: Bench) -> None:
    bench.supervisor._parts.gate.opinion = cast(Any, Second(bench.log, ("nmap",)))
    assert bench.sh("echo x | grep x > y").ending is Ending.RAN


def test_a_denied_call_does_not_wait_for_the_second_reading(bench: Bench) -> None:
    bench.verdict = Verdict.DENY
    bench.supervisor._parts.gate.opinion = cast(Any, Second(bench.log, ("nmap",)))
    assert bench.sh("echo $(echo)").ending is Ending.DENIED
    assert "seen" not in bench.log


def decided(bench: Bench) -> dict[str, Any]:
    """Return the last decision that was recorded."""
    lines = bench.store.log.read_text().splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [one for one in found if one["event"] == "decided"][-1]


def test_the_record_names_the_policy_that_decided(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
    bench.sh("echo x > new.txt")
    before = decided(bench)["policy"]
    own = bench.workspace / ".lockgate"
    own.mkdir()
    (own / "policy.yaml").write_text("limits: {seconds: 5}\n")
    bench.sh("echo x > new.txt")
    after = decided(bench)
    assert before
    assert after["policy"] not in ("", before)
    assert after["rights"]["limits"]["seconds"] == 5


def test_a_wrong_policy_file_lets_nothing_run(bench: Bench) -> None:
    own = bench.workspace / ".lockgate"
    own.mkdir()
    (own / "policy.yaml").write_text("bogus: 1\n")
    done = bench.sh("true")
    assert (done.ending, done.rules) == (Ending.DENIED, ("policy-file",))
    assert f"{own}/policy.yaml:1: `bogus` is not a key" in done.message
    assert "cell" not in bench.log
    assert decided(bench)["verdict"] == "deny"
    (own / "policy.yaml").unlink()
    assert bench.sh("true").ending is Ending.RAN


def test_what_an_agent_made_is_recorded_and_read_again(bench: Bench) -> None:
    (bench.workspace / "new.txt").write_text("x\n")
    assert list(bench.supervisor._record.store.made()) == []
    assert bench.sh("echo x > new.txt").landed
    (noted,) = bench.supervisor._record.store.made()
    assert noted["made"]["agent"] == "main"
    assert list(noted["made"]["files"]) == [f"{bench.workspace}/new.txt"]
