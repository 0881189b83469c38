# SPDX-License-Identifier: Apache-2.0
"""What a crash leaves, without containers: layers, landings over several workspaces, open ends."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.events.follow_ups import GivenUpRecord, LandedRecord, LandingRecord, PartedRecord
from sandbox.audit.events.reading import record_of
from sandbox.audit.events.record import AuditRecord
from sandbox.calls.open_ends import OpenEnd, open_ends
from sandbox.cell.faults import DIE, Faults
from sandbox.cell.keeper import orphans as leftovers
from sandbox.cell.landing import land as landing
from sandbox.cell.landing import multi as together
from sandbox.cell.landing.fates import became, digests_of
from sandbox.cell.overlay.walk import walk
from sandbox.host.process_owner import lives, owner_label
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

DEAD = "999999999:1.00"


def test_a_process_lives_only_under_its_own_name() -> None:
    mine = owner_label()
    assert lives(mine)
    assert not any(map(lives, (DEAD, f"{os.getpid()}:1.00", "", "nonsense", "1:x")))


def _names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


# Layers


def test_folders_that_no_keeper_holds_are_removed(tmp_path: Path) -> None:
    live = str(tmp_path / "live")
    held = leftovers.occupy(live, "mine")
    for name in ("dead", "mine"):
        (tmp_path / "live" / name / "1.0" / "upper").mkdir(parents=True)
        (tmp_path / "live" / name / "1.0" / "upper" / "f").write_text("x")
    (tmp_path / "live" / "stray").write_text("x")
    assert leftovers.sweep(live) == ["dead", "stray"]
    assert _names(live) == ["mine"]
    os.close(held)  # as a process that dies closes it
    assert leftovers.sweep(live) == ["mine"]


# Landings over several workspaces


def _changed(tmp_path: Path, name: str) -> tuple[str, str]:
    root, upper = tmp_path / name / "root", tmp_path / name / "upper"
    for folder, text in ((root, "old"), (upper, "new")):
        folder.mkdir(parents=True)
        (folder / "f").write_text(text)
    return str(root), str(upper)


def _land(root: str, upper: str, call: str = "c1") -> None:
    result = landing.land(root, upper, walk(upper, root), call, durable=False)
    assert result.state == "landed"


@pytest.mark.parametrize("crashed_after", [0, 1, 2])
def test_a_crash_between_two_workspaces_leaves_both_or_none(
    tmp_path: Path, crashed_after: int
) -> None:
    spaces = [_changed(tmp_path, name) for name in ("a", "b")]
    roots = {f"/w/{at}": root for at, (root, _) in enumerate(spaces)}
    notes = tmp_path / "notes"
    notes.mkdir()
    for root, upper in spaces[:crashed_after]:
        _land(root, upper)
    (notes / "c1").write_text('{"name": "c1", "paths": ["/w/0", "/w/1"]}')
    assert together.settle({"/w/0": roots["/w/0"]}, str(notes)) == []  # not all of them are here
    assert together.settle(roots, str(notes)) == ["c1"]
    texts = {Path(root, "f").read_text() for root in roots.values()}
    assert texts == ({"new"} if crashed_after == 2 else {"old"})
    assert _names(notes) == []


def test_a_note_stands_as_long_as_somebody_is_at_work(tmp_path: Path) -> None:
    (root, upper), (other, _) = (_changed(tmp_path, name) for name in ("a", "b"))
    roots, notes = {"/w/0": root, "/w/1": other}, str(tmp_path / "notes")
    with together.noted("c1", ["/w/0", "/w/1"], notes):
        _land(root, upper)
        assert _names(notes) == ["c1"]
        assert together.settle(roots, notes) == []
    assert _names(notes) == []
    assert Path(root, "f").read_text() == "new"
    assert together.take_back("c1", roots) == {}
    assert Path(other, "f").read_text() == "old"
    assert Path(root, "f").read_text() == "old"


def test_what_became_of_a_landing_is_known(tmp_path: Path) -> None:
    root, upper = _changed(tmp_path, "a")
    assert became(root, "c1") is None
    _land(root, upper)
    found = became(root, "c1")
    assert found is not None
    assert [(one["path"], one["kind"]) for one in found] == [("f", "modified")]
    landing.undo(root, "c1", "u1")
    assert became(root, "c1") == []
    assert became(root, "u1") is not None
    assert became(root, "u2") is None


# Faults


def test_a_fault_comes_only_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr("sandbox.cell.faults.os.kill", lambda _pid, number: killed.append(number))
    monkeypatch.setenv("LOCKGATE_FAULT", '{"at": 1, "act": "die"}')
    for wanted, count in ((None, 0), ({"at": 2, "act": DIE}, 1), ({"at": 9, "act": DIE}, 1)):
        faults = Faults()
        faults("before")
        if wanted is not None:
            faults.want(wanted)
        for step in ("one", "two", "three"):
            faults(step)
        assert len(killed) == count


# Open ends


def _record(event: str, call: str, **fields: Any) -> AuditRecord:
    begins = {"workspace": "/w", "supervisor": DEAD} if event in BEGINS else {}
    undone = {"undone": "c"} if event in ("undoing", "undone") else {}
    return record_of({"event": event, "call": call, **begins, **undone, **fields})


BEGINS = ("decided", "undoing", "landing", "discarding")
LOGS: dict[str, tuple[list[AuditRecord], list[str]]] = {
    "a call that ended": ([_record("decided", "c"), _record("ended", "c")], []),
    "a call that did not": ([_record("decided", "c"), _record("ended", "d")], ["decided"]),
    "one of a living supervisor": ([_record("decided", "c", supervisor=owner_label())], []),
    "an undo that was made": ([_record("undoing", "u"), _record("undone", "u")], []),
    "one that was given up": ([_record("undoing", "u"), _record("given-up", "u")], []),
    "one that is open": ([_record("undoing", "u"), _record("undone", "x")], ["undoing"]),
    "a held call": ([_record("decided", "c"), _record("ended", "c")], []),
    "a landing that is open": (
        [_record("decided", "c"), _record("ended", "c"), _record("landing", "c")],
        ["landing"],
    ),
    "a second landing that is open": (
        [_record("landing", "c"), _record("given-up", "c"), _record("landing", "c")],
        ["landing"],
    ),
    "a discard that is open": (
        [_record("decided", "c"), _record("ended", "c"), _record("discarding", "c")],
        ["discarding"],
    ),
}


@pytest.mark.parametrize("log, expected", LOGS.values(), ids=LOGS)
def test_what_has_no_end(log: list[AuditRecord], expected: list[str]) -> None:
    found = [one.begun.event for one in open_ends(reversed(log))]
    assert found == expected


def test_a_name_that_this_process_is_unsure_of_counts_as_open() -> None:
    log = [_record("decided", "c", supervisor=owner_label())]
    assert [one.begun.call for one in open_ends(log, {"c"})] == ["c"]


def test_a_part_that_landed_is_open_until_what_is_left_is_told() -> None:
    landing_ = LandingRecord(call="c-1", of="c", workspace="/w", supervisor=DEAD)
    landed = LandedRecord(call="c-1", of="c")
    parted = PartedRecord(call="c", parts=["c-1"])
    given_up = GivenUpRecord(call="c-1")
    # newest first
    assert open_ends([landing_]) == [OpenEnd(landing_)]
    assert open_ends([landed, landing_]) == [OpenEnd(landing_, parting=True)]
    assert open_ends([parted, landed, landing_]) == []
    assert open_ends([given_up, landing_]) == []
    whole = LandingRecord(call="c-1", workspace="/w", supervisor=DEAD)
    assert open_ends([landed, whole]) == []
    assert open_ends([landed, landing_.model_copy(update={"supervisor": owner_label()})]) == []


def test_digests_are_told_of_what_is_still_as_it_landed() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo old >f") as overlay:
        root = str(overlay.lower)
        overlay.call("echo new >f; mkdir made; echo in >made/in; echo g >g; ln -s g to")
        assert overlay.land(overlay.walk(), "c1").state == "landed"
        told = {
            name: hashlib.sha256(text.encode()).hexdigest()
            for name, text in {"f": "new\n", "made/in": "in\n", "g": "g\n", "to": "g"}.items()
        }
        names = ["f", "made/in", "g", "to", "made", "nowhere"]
        assert digests_of(root, "c1", names) == told
        overlay.edit("echo edited >g; rm made/in")
        assert digests_of(root, "c1", names) == {"f": told["f"], "to": told["to"]}
        assert digests_of(root, "c2", names) == {}
