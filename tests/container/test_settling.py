# SPDX-License-Identifier: Apache-2.0
"""What becomes of a call: proposals, objections, parts of held calls, undos, and the record."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.model import ActionPlan, Context, Decision, Landing, Verdict
from sandbox.approvals.approver import Answer
from sandbox.errors import BadInput, NotShown, SandboxError, Stopped
from sandbox.guard.guard import Guard, Tampering
from sandbox.results import CallResult, Ending
from tests.container import lab as labs
from tests.container.lab import Lab, ended, eventually, snapshot
from tests.fakes import lines_of

LONG = 60.0
"""Seconds of a window that a test ends itself."""


@pytest.fixture
def lands(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets how the next calls land."""

    def how(landing: Landing, seconds: float = 0.0, verdict: Verdict = Verdict.ALLOW) -> None:
        def decide(plan: ActionPlan, context: Context, policy: Any, *_: Any) -> Decision:
            fields = {"landing": landing, "objection_seconds": seconds, "verdict": verdict}
            return labs.decide(plan, context, policy).model_copy(update=fields)

        monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
        monkeypatch.setattr(
            "sandbox.gates.gate1.heed", lambda decision, *_: decision, raising=False
        )

    return how


def record(lab: Lab, event: str) -> dict[str, Any]:
    """Return the newest record of an event."""
    lab.run(lab.supervisor._record.flush())
    found = [one for one in lines_of(lab.supervisor._record.store) if one["event"] == event]
    return found[0]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Proposals


def test_a_proposal_never_lands_by_itself_and_a_person_lands_it(
    lab: Lab, lands: Callable[..., None]
) -> None:
    lands(Landing.PROPOSAL)
    before = snapshot(lab.ws)
    done = lab.sh("echo new > new.txt; echo more >> README.md")
    assert (done.judgement, done.landed) == ("hold", False)
    assert done.message == (
        "it is a proposal, nothing landed: a person can land or discard it; "
        f"see `lockgate show {done.id}`"
    )
    assert snapshot(lab.ws) == before
    assert lab.read("cat new.txt").exit_status == 1  # nor does the agent's next call see it
    (waits,) = lab.run(lab.supervisor.held())
    assert (waits.id, waits.proposal, waits.changes, waits.there) == (done.id, True, 2, True)
    assert lab.run(lab.supervisor.land(done.id)).landed
    assert lab.text("new.txt") == "new\n"
    assert lab.run(lab.supervisor.held()) == ()


def test_the_list_of_what_is_held_says_what_changed_meanwhile(lab: Lab) -> None:
    done = lab.sh("rm tool.sh; echo call > README.md")
    assert done.judgement == "hold"
    (waits,) = lab.run(lab.supervisor.held())
    assert (waits.id, waits.note) == (done.id, "")
    (lab.ws / "README.md").write_text("a person's")
    (waits,) = lab.run(lab.supervisor.held())
    assert waits.note == "changed meanwhile: `README.md`"


def test_a_proposal_that_gate_2_discards_is_discarded(lab: Lab, lands: Callable[..., None]) -> None:
    lands(Landing.PROPOSAL)
    done = lab.sh("echo x > .devkit-waiver.yml")
    assert done.judgement == "discard"
    assert lab.run(lab.supervisor.held()) == ()


# Objections


async def waiting(lab: Lab, call: str) -> asyncio.Future[CallResult]:
    """Start a call and return when its changes wait to land."""
    future = asyncio.ensure_future(lab.call("echo new > new.txt", call_id=call))
    await eventually(
        lambda: any("lands_in" in one for one in lab.supervisor.running()) or future.done(),
        "the changes wait to land",
    )
    return future


def test_changes_land_when_nobody_objects(lab: Lab, lands: Callable[..., None]) -> None:
    lands(Landing.DELAYED, 0.3)
    done = lab.sh("echo new > new.txt")
    assert (done.landed, done.message) == (
        True,
        "landed after 0.3 s in which a person could object",
    )
    assert lab.text("new.txt") == "new\n"
    assert record(lab, "waiting")["changes"] == [
        {"path": "new.txt", "kind": "created", "type": "file"}
    ]
    assert lab.read("cat new.txt").stdout == "new\n"


@pytest.mark.parametrize("way", ["object", "discard"])
def test_an_objection_throws_the_changes_away(
    lab: Lab, lands: Callable[..., None], way: str
) -> None:
    lands(Landing.DELAYED, LONG)
    before = snapshot(lab.ws)

    async def objected() -> tuple[CallResult, CallResult]:
        future = await waiting(lab, "c1")
        assert (lab.supervisor._record.store.diff("c1")).endswith("+new\n")
        with pytest.raises(BadInput, match="no call `c2` waits to land"):
            await lab.supervisor.object("c2")
        said = await getattr(lab.supervisor, way)("c1")
        return await future, said

    done, said = lab.run(objected())
    assert (done.judgement, done.landed, done.ending) == ("discard", False, Ending.RAN)
    assert done.objected
    assert "objected; ask what to do instead" in done.message
    assert (said.id, said.judgement, said.landed) == ("c1", "discard", False)
    assert snapshot(lab.ws) == before
    lands(Landing.AT_ONCE)
    assert lab.sh("echo new > new.txt").landed  # the control: the cell goes on


def test_the_next_call_waits_for_the_window_and_sees_what_landed(
    lab: Lab, lands: Callable[..., None]
) -> None:
    lands(Landing.DELAYED, 0.5)

    async def both() -> tuple[CallResult, CallResult]:
        first = asyncio.ensure_future(lab.call("echo new > new.txt"))
        await eventually(lambda: lab.supervisor.running(), "the first one runs")
        second = asyncio.ensure_future(lab.call("cat new.txt", "read"))
        return await first, await second

    first, second = lab.run(both())
    assert (first.landed, second.stdout) == (True, "new\n")


def test_cancelling_in_the_window_throws_the_changes_away(
    lab: Lab, lands: Callable[..., None]
) -> None:
    lands(Landing.DELAYED, LONG)
    before = snapshot(lab.ws)

    async def cancelled() -> BaseException:
        future = await waiting(lab, "c1")
        future.cancel()
        return await ended(future)

    assert isinstance(lab.run(cancelled()), asyncio.CancelledError)
    assert snapshot(lab.ws) == before


def test_a_stop_in_the_window_throws_the_changes_away(lab: Lab, lands: Callable[..., None]) -> None:
    lands(Landing.DELAYED, LONG)
    before = snapshot(lab.ws)

    async def stopped() -> BaseException:
        future = await waiting(lab, "c1")
        lab.supervisor._latch.set("a test")  # as another process does it
        return await ended(future)

    assert isinstance(lab.run(stopped()), Stopped)
    assert snapshot(lab.ws) == before


# Held calls in parts


HELD = "rm tool.sh; echo new > new.txt; mkdir -p docs; echo d > docs/a.md; mv src source"


def test_a_held_call_lands_path_by_path_and_each_part_can_be_undone(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(HELD)
    assert done.judgement == "hold"
    seen = lab.run(lab.supervisor.look_held(done.id)).digest
    assert lab.run(lab.supervisor.look_held(done.id)).digest == seen  # it stands as it did
    first = lab.run(lab.supervisor.land(done.id, ["docs", "new.txt"], digest=seen))
    assert (first.landed, {view.path for view in first.changes}) == (
        True,
        {"docs", "docs/a.md", "new.txt"},
    )
    assert (lab.ws / "tool.sh").exists()
    (left,) = lab.run(lab.supervisor.held())
    assert left.because == "`tool.sh`: it existed before and is deleted without being named"
    assert lab.text("docs/a.md") == "d\n"
    store = lab.supervisor._record.store
    entry = store.call(done.id)
    assert (entry.judgement, entry.landed, entry.parts) == (*("hold", False, [f"{done.id}-1"]),)
    lab.run(lab.supervisor._record.flush())
    assert "new.txt" not in store.diff(done.id)
    assert "deleted file mode" in store.diff(done.id)
    assert "+new" in store.diff(f"{done.id}-1")
    with pytest.raises(BadInput, match=r"`source/app\.py` goes with the move of `src` to `source`"):
        lab.run(lab.supervisor.land(done.id, ["source/app.py"]))
    with pytest.raises(BadInput, match="`nosuch`: no held change is there"):
        lab.run(lab.supervisor.land(done.id, ["nosuch"]))
    with pytest.raises(NotShown, match="it was shown anew since, and is another"):
        lab.run(lab.supervisor.land(done.id, ["src"], digest=seen))  # another thing is left
    seen = lab.run(lab.supervisor.look_held(done.id)).digest
    second = lab.run(lab.supervisor.land(done.id, ["src"], digest=seen))
    assert second.message.endswith("1 change stays held")
    assert lab.text("source/app.py") == "print('one')\n"
    assert not (lab.ws / "src").exists()
    assert lab.run(lab.supervisor.land(done.id)).landed
    assert not (lab.ws / "tool.sh").exists()
    lab.run(lab.supervisor._record.flush())
    assert store.call(done.id).outcome == "landed in parts by a person"
    assert store.call(done.id).landed
    assert lab.run(lab.supervisor.held()) == ()
    with pytest.raises(BadInput, match=f"landed in parts; undo them one by one: `{done.id}-3`"):
        lab.run(lab.supervisor.undo(done.id))
    report = lab.run(lab.supervisor.undo_last(3))
    assert [one.undone for one in report.done] == [f"{done.id}-{n}" for n in (3, 2, 1)]
    after = snapshot(lab.ws)
    assert after == before


def test_the_rest_of_a_held_call_outlives_its_cell_and_can_be_discarded(lab: Lab) -> None:
    done = lab.sh(HELD)
    lab.run(lab.supervisor.land(done.id, ["new.txt"]))
    lab.run(lab.supervisor._live.pool.end_all())  # type: ignore[union-attr]
    (waits,) = lab.run(lab.supervisor.held())
    assert (waits.id, waits.there) == (done.id, True)
    gone = lab.run(lab.supervisor.discard(done.id))
    assert gone.judgement == "discard"
    assert (lab.text("new.txt"), (lab.ws / "tool.sh").exists()) == ("new\n", True)
    assert lab.run(lab.supervisor.undo(done.id)).undone == f"{done.id}-1"
    assert not (lab.ws / "new.txt").exists()


def test_force_lands_over_a_later_change_and_an_undo_gives_it_back(lab: Lab) -> None:
    done = lab.sh("rm tool.sh; echo mine > README.md")
    (lab.ws / "README.md").write_text("theirs\n")
    with pytest.raises(BadInput, match="`--force` lands over them"):
        lab.run(lab.supervisor.land(done.id))
    assert lab.run(lab.supervisor.land(done.id, force=True)).landed
    assert lab.text("README.md") == "mine\n"
    lab.run(lab.supervisor.undo(done.id))
    assert lab.text("README.md") == "theirs\n"


def test_a_layer_that_is_gone_is_said_and_its_record_cleared(lab: Lab) -> None:
    done = lab.sh("rm tool.sh")
    lab.keeper.exec_run(["rm", "-r", f"/tx/held/{done.id}"])
    (waits,) = lab.run(lab.supervisor.held())
    assert (waits.there, waits.note) == (False, "its layer is gone")
    with pytest.raises(BadInput, match="its layer is gone with the engine's volume"):
        lab.run(lab.supervisor.land(done.id))
    gone = lab.run(lab.supervisor.discard(done.id))
    assert gone.message == "discarded by a person; its layer was gone already"
    assert lab.run(lab.supervisor.held()) == ()


def test_what_is_held_of_a_workspace_that_is_gone_can_be_discarded(lab: Lab) -> None:
    done = lab.sh("rm tool.sh")
    lab.ws.rename(lab.ws.with_name("elsewhere"))
    with pytest.raises(BadInput):
        lab.run(lab.supervisor.land(done.id))
    assert lab.run(lab.supervisor.discard(done.id)).message == "discarded by a person"
    assert lab.run(lab.supervisor.held()) == ()
    assert (lab.ws.with_name("elsewhere") / "tool.sh").exists()


def test_a_layer_of_which_there_is_no_record_is_said_and_removed(lab: Lab) -> None:
    lab.sh("rm tool.sh", call_id="c1")
    lab.keeper.exec_run(["cp", "-r", "/tx/held/c1", "/tx/held/cX"])
    found = {one.id: one.note for one in lab.run(lab.supervisor.held())}
    assert found == {"c1": "", "cX": "no record of it; `lockgate discard cX` removes it"}
    assert lab.run(lab.supervisor.discard("cX")).message.endswith("nothing was recorded of it")
    assert [one.id for one in lab.run(lab.supervisor.held())] == ["c1"]
    with pytest.raises(BadInput, match="no call `cY`"):
        lab.run(lab.supervisor.discard("cY"))


# Undoing


def test_a_look_at_an_undo_changes_nothing_and_says_what_it_would(lab: Lab) -> None:
    done = lab.sh("echo more >> README.md; echo new > new.txt")
    before = snapshot(lab.ws)
    look = lab.run(lab.supervisor.undo(done.id, dry_run=True))
    assert (look.id, {(v.kind, v.path) for v in look.changes}) == (
        "",
        {("modified", "README.md"), ("deleted", "new.txt")},
    )
    assert "-more\n" in look.diff
    assert "deleted file mode 100644" in look.diff
    assert snapshot(lab.ws) == before
    undone = lab.run(lab.supervisor.undo(done.id))
    assert undone.changes == look.changes
    lab.run(lab.supervisor._record.flush())
    assert lab.supervisor._record.store.diff(undone.id) == look.diff
    assert [one.id for one in lab.supervisor._record.store.calls()][:2] == [undone.id, done.id]


def test_the_last_ones_are_undone_until_one_cannot_be(lab: Lab) -> None:
    calls = [lab.sh(f"echo {n} > f{n}; echo {n} >> README.md").id for n in range(4)]
    before = lab.text("README.md")
    first = lab.run(lab.supervisor.undo(calls[3]))
    lab.run(lab.supervisor.undo(first.id))  # done again, so it stands
    assert lab.text("README.md") == before
    report = lab.run(lab.supervisor.undo_last(2))
    assert ([one.undone for one in report.done], report.stopped) == ([calls[3], calls[2]], None)
    (lab.ws / "f1").write_text("edited\n")
    report = lab.run(lab.supervisor.undo_last(3))
    assert report.done == ()
    assert "without losing later changes of `f1`" in str(report.stopped)
    assert report.left == (calls[1], calls[0])


# The record


def test_protected_files_are_recorded_with_their_content(
    lab: Lab, lands: Callable[..., None]
) -> None:
    lands(Landing.APPROVED, verdict=Verdict.ASK)

    async def yes(*_: object) -> Answer:
        return Answer(approved=True, by="alice")

    files = "for i in $(seq 300); do echo $i > a$i; done"
    done = lab.sh(f"{files}; echo 'layout python' > .envrc; chmod 755 .envrc", approver=yes)
    assert done.judgement == "hold"  # something on the host obeys it
    ended = record(lab, "ended")
    digest = sha(b"layout python\n")
    row = {"path": ".envrc", "kind": "created", "type": "file", "mode": 0o755, "sha256": digest}
    first = ended["changes"][0]
    assert row.items() <= first.items()
    assert first["protected"] == "shell-environment"
    assert (len(ended["changes"]), ended["changes_total"]) == (200, 301)
    lab.run(lab.supervisor.land(done.id, [".envrc"]))
    landed = record(lab, "landed")
    assert row.items() <= landed["changes"][0].items()
    assert landed["landed_by"]["call"] == done.id
    assert landed["landed_by"]["person"]
    undone = lab.run(lab.supervisor.undo(f"{done.id}-1"))
    again = lab.run(lab.supervisor.undo(undone.id))
    redone = record(lab, "undone")
    assert redone["call"] == again.id
    assert row.items() <= redone["changes"][0].items()


def test_the_guard_and_verify_match_what_landed_exactly(lab: Lab) -> None:
    assert guarded(lab) == []
    base = lab.git("rev-parse", "HEAD").strip()
    done = lab.sh("mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml")
    assert done.judgement == "hold"
    lab.run(lab.supervisor.land(done.id))
    lab.run(lab.supervisor._record.flush())
    assert guarded(lab) == []
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "ci")
    report = verified(lab, base)
    assert [(one["path"], one["content"], one["approved"]) for one in report["paths"]] == [
        (".github/workflows/ci.yml", "equal", True)
    ]
    lab.run(lab.supervisor.undo(done.id))
    lab.run(lab.supervisor._record.flush())
    assert guarded(lab) == []
    (lab.ws / ".github/workflows").mkdir(parents=True, exist_ok=True)
    (lab.ws / ".github/workflows/ci.yml").write_text("on: [push]\n")  # the control
    assert [(one.path, one.kind) for one in guarded(lab)] == [
        (".github/workflows/ci.yml", "created")
    ]
    lab.git("add", "-A")
    lab.git("commit", "-q", "-m", "other")
    assert not verified(lab, base)["approved"]


def guarded(lab: Lab) -> list[Tampering]:
    """Have a guard look once."""
    return Guard(lab.dirs, workspaces=[str(lab.ws)]).look()


def verified(lab: Lab, base: str) -> dict[str, Any]:
    from dataclasses import replace

    from policy.protected.paths import PathPolicy
    from sandbox.guard.verify import Log, verify

    log = Log(lab.dirs.state / "audit.jsonl", own=True)
    report = verify(Path(lab.ws), log=replace(log), base=base, paths=PathPolicy.default())
    return dict(json.loads(json.dumps(report.as_json())))


def test_what_the_quota_drives_out_is_recorded(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    from sandbox.config.settings import Settings

    lab = make_lab(settings=Settings(undo_mib=1))
    (lab.ws / "big").write_bytes(b"x" * 900_000)
    first = lab.sh("head -c 900000 /dev/zero > big")
    second = lab.sh("head -c 900001 /dev/zero > big")
    assert (first.landed, second.landed) == (True, True)
    assert (first.undoable, second.undoable) == (True, False)
    # What the agent itself had made goes, not what a person had; and it is said.
    assert record(lab, "forgotten")["calls"] == [second.id]
    assert f"no longer undoable, since `undo_mib` is reached: `{second.id}`" in second.message
    with pytest.raises(SandboxError, match="not kept any more"):
        lab.run(lab.supervisor.undo(second.id))
