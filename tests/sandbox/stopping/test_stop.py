# SPDX-License-Identifier: Apache-2.0
"""The latch, the answer, and what is done where the disk is full; without containers."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.containers.ledger import ContainerNotes, Note
from sandbox.errors import BadInput, SandboxError, Stopped, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch, mending
from sandbox.stopping.containers import CellsSwept, CellSweep
from sandbox.stopping.stop import is_stop_word, stop_all
from tests.conftest import cannot_run
from tests.fakes import lines_of


class NoEngine:
    """An engine without containers."""

    def containers(self, **_: str) -> list[dict[str, Any]]:
        """Return none."""
        return []

    def kill(self, identity: str) -> None:
        """Fail the test."""
        raise AssertionError(identity)

    remove = kill

    def local(self, kernel: str) -> bool:
        """Say that it runs on this kernel."""
        return True


class HungEngine(NoEngine):
    """An engine that never answers."""

    def __init__(self) -> None:
        self.end = threading.Event()

    def containers(self, **_: str) -> list[dict[str, Any]]:
        """Hang."""
        self.end.wait()
        return []


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders of our own."""
    return Dirs.under(tmp_path).create()


# the latch


def test_a_latch_holds_until_it_is_cleared(dirs: Dirs) -> None:
    latch = Latch(dirs)
    latch.check("main")
    latch.set("it deletes the wrong branch")
    latch.set("another reason")
    for agent in (None, "main", "a:b"):
        with pytest.raises(
            Stopped,
            match=r"stopped at \d.*: it deletes the wrong branch; a person clears it with "
            "`lockgate resume`",
        ):
            Latch(dirs).check(agent)
    latch.clear()
    latch.check("main")
    latch.clear()


def test_a_latch_is_closed_to_others(dirs: Dirs) -> None:
    Latch(dirs).set("a test")
    assert stat.S_IMODE((dirs.state / "STOP").stat().st_mode) == 0o600


BY_HAND = {
    "an empty file": (lambda path: path.touch(), "set by hand"),
    "words": (lambda path: path.write_text("it went\nwrong\n"), "it went wrong"),
    "half a line": (lambda path: path.write_text('{"reason": "x"'), '{"reason": "x"'),
    "other JSON": (lambda path: path.write_text("[1]"), "[1]"),
    "bytes": (lambda path: path.write_bytes(b"\xff\xfe"), "set by hand"),
    "a folder": (lambda path: path.mkdir(), "the latch cannot be read: Is a directory"),
    "a link to nothing": (
        lambda path: path.symlink_to("/nonexistent"),
        "the latch cannot be read: No such file or directory",
    ),
    "a sequence that moves the cursor": (lambda path: path.write_text("\x1b[2J"), "\\x1b[2J"),
}


@pytest.mark.parametrize("make, reason", BY_HAND.values(), ids=BY_HAND)
def test_whatever_stands_at_its_path_stops(dirs: Dirs, make: Any, reason: str) -> None:
    make(dirs.state / "STOP")
    with pytest.raises(Stopped) as caught:
        Latch(dirs).check("main")
    assert re.fullmatch(
        rf"stopped at \d[^;]*: {re.escape(reason)}; a person clears it with `lockgate resume`",
        str(caught.value),
    )


def test_one_agents_latch_holds_it_and_what_is_below_it(dirs: Dirs) -> None:
    latch = Latch(dirs)
    latch.set("a test", agent="a")
    for name in ("a", "a:b", "a:b:c"):
        with pytest.raises(Stopped, match="agent `a` was stopped"):
            latch.check(name)
    latch.check()
    for name in ("b", "ab", "b:a"):
        latch.check(name)
    assert [one.agent for one in latch.agents()] == ["a"]
    latch.clear("a")
    latch.check("a")
    assert latch.agents() == []


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=300))
def test_any_name_can_be_stopped(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        own = Dirs.under(Path(folder)).create()
        Latch(own).set("a test", agent=name)
        with pytest.raises(Stopped):
            Latch(own).check(name)


def test_a_pause_ends_by_itself_and_a_stop_takes_its_place(dirs: Dirs) -> None:
    latch = Latch(dirs)
    latch.set("it was busy", agent="a", until=time.time() + 60)
    with pytest.raises(
        Stopped, match=r"agent `a` is paused until \d.*, because it was busy; a person ends that"
    ):
        latch.check("a")
    latch.set("a stop", agent="a")
    with pytest.raises(Stopped, match="agent `a` was stopped at"):
        latch.check("a")
    latch.set("a pause", agent="a", until=time.time() + 60)  # never loosens a stop
    with pytest.raises(Stopped, match="agent `a` was stopped at"):
        latch.check("a")
    latch.set("over", agent="b", until=time.time() - 1)
    latch.check("b")


def test_a_person_mends_while_all_is_stopped_and_nobody_else_does(dirs: Dirs) -> None:
    latch = Latch(dirs)
    latch.set("a test")
    with mending():
        latch.check("main")
    with pytest.raises(Stopped):
        latch.check("main")


def test_a_latch_says_when_its_sweep_is_done(dirs: Dirs) -> None:
    (dirs.state / "STOP").touch()
    before = Latch(dirs).read()
    assert before is not None
    assert (before.pid, before.swept) == (0, False)
    stop_all(dirs, "never said", engine=NoEngine())
    after = Latch(dirs).read()
    assert after == replace(before, swept=True)
    Latch(dirs).clear()
    Latch(dirs).mark_swept()  # and never makes anew what was cleared
    assert Latch(dirs).read() is None


WORDS = {
    "stop": True,
    "STOP!": True,
    "  Abort. ": True,
    "«stop»": True,
    "stop\n": True,
    "stop the server": False,
    "please stop": False,
    "stop stop": False,
    "nonstop": False,
    "git stop": False,
    "": False,
    "...": False,
    "abort --force": False,
}


@pytest.mark.parametrize("text, wanted", WORDS.items(), ids=map(repr, WORDS))
def test_the_word_alone_stops(text: str, wanted: bool) -> None:
    assert is_stop_word(text) is wanted


# the answer


def decided(call: str, agent: str = "main") -> dict[str, Any]:
    """Return the record of a decision."""
    return {
        "event": "decided", "call": call, "agent": agent, "tool": "Bash", "params": {},
        "workspace": "/w", "verdict": "allow",
    }  # fmt: skip


def ended(call: str, *, landed: bool = False, judgement: str | None = None) -> dict[str, Any]:
    """Return the record of an outcome."""
    return {
        "event": "ended", "call": call, "ending": "ran", "landed": landed, "judgement": judgement,
    }  # fmt: skip


@pytest.fixture
def store(dirs: Dirs) -> Store:
    """Return a record with some calls."""
    one = Store(dirs)
    for number in range(7):
        agent = "coder" if number % 2 else "main"
        params = {"params": {"command": "make"}} if number == 3 else {}
        place = {"workspace": str(dirs.state / "w")}
        one.append(record_of({**decided(f"c{number}", agent), **params, **place}), durable=False)
        if number != 6:
            kind = "hold" if number == 4 else "land"
            one.append(
                record_of(ended(f"c{number}", landed=number < 4, judgement=kind)), durable=False
            )
    undo = {"event": "undone", "call": "u1", "undone": "c2", "tool": "undo", "landed": True}
    one.append(record_of(undo), durable=True)
    return one


def test_the_answer_names_the_last_actions_and_how_to_take_them_back(
    dirs: Dirs, store: Store
) -> None:
    for call in ("c0", "c3"):  # of `c1` nothing is kept any more
        (dirs.state / f"w/.lockgate/undo/{call}").mkdir(parents=True)
    report = stop_all(dirs, "a test", engine=NoEngine())
    assert report.last == (
        "u1 undo: ran",
        "c6 Bash: not finished",
        "c5 Bash: ran",
        "c4 Bash: ran",
        "c3 make: ran",
    )
    assert report.rollback == ("lockgate undo c3", "lockgate undo c0")
    assert report.held == ("lockgate show c4",)
    assert (report.killed, report.left) == ((), ())
    gone = "landed, and cannot be undone, since nothing is kept of it: c1 Bash"
    assert report.notes == (gone,)
    record = lines_of(store)[0]
    assert (record["event"], record["reason"], record["rollback"]) == (
        "stop",
        "a test",
        list(report.rollback),
    )
    assert store.verify() is None


def test_the_answer_to_a_stop_of_one_agent_is_about_that_one(dirs: Dirs, store: Store) -> None:
    for call in ("c1", "c3"):
        (dirs.state / f"w/.lockgate/undo/{call}").mkdir(parents=True)
    report = stop_all(dirs, "a test", agent="coder", engine=NoEngine())
    assert report.agent == "coder"
    assert [line.split()[0] for line in report.last] == ["c5", "c3", "c1"]
    assert report.rollback == ("lockgate undo c3", "lockgate undo c1")
    Latch(dirs).check("main")


def test_an_agent_that_nobody_knows_is_an_error_and_sets_no_latch(dirs: Dirs) -> None:
    with pytest.raises(BadInput, match="there is no agent `codr`; see `lockgate agent list`"):
        stop_all(dirs, "a test", agent="codr", engine=NoEngine())
    assert Latch(dirs).agents() == []
    assert Latch(dirs).read() is None


def test_an_agent_that_asks_for_its_own_stop_is_stopped_before_it_did_anything(dirs: Dirs) -> None:
    stop_all(dirs, "a test", agent="new", own=True, engine=NoEngine())
    with pytest.raises(Stopped, match="agent `new` was stopped"):
        Latch(dirs).check("new")
    Latch(dirs).check("another")


def test_an_engine_that_hangs_is_not_waited_for_and_far_cells_are_named(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ContainerNotes(dirs).add(Note("f" * 64, "far", "cell", "main", local=False))
    engine = HungEngine()
    monkeypatch.setattr(
        "sandbox.stopping.stop.CellSweep", functools.partial(CellSweep, engine_seconds=0.1)
    )
    report = stop_all(dirs, "a test", engine=engine)
    engine.end.set()
    assert report.left == (
        "cells far are in a virtual machine, and its engine did not end them: "
        "it did not answer in time",
    )


def test_a_failing_record_keeps_no_stop_from_its_work(dirs: Dirs) -> None:
    (dirs.state / "audit.jsonl").mkdir()
    report = stop_all(dirs, "a test", engine=NoEngine())
    assert any("could not be recorded" in one for one in report.notes)
    assert Latch(dirs).read() is not None


# a full disk


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Dirs]:
    """Return a state folder on a file system without room for a file."""
    if os.geteuid() != 0:
        cannot_run("only root can mount a small file system")
    folder = tmp_path / "full"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=6", "none", str(folder)], check=False
    )
    if done.returncode != 0:
        cannot_run("no file system can be mounted")
    try:
        (folder / "state").mkdir(mode=0o700)
        for number in range(10):
            try:
                (folder / f"fill{number}").write_bytes(b"x" * 20_000)
            except OSError:
                break
        yield Dirs(folder / "state", tmp_path / "config", tmp_path / "run")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_on_a_full_disk_the_latch_lies_beside_the_socket(full: Dirs) -> None:
    with pytest.raises(OSError, match="No space left"):
        (full.state / "probe").write_text("x")
    report = stop_all(full, "a test", engine=NoEngine())
    assert report.left == ()
    assert any("could not be recorded" in one for one in report.notes)
    assert not (full.state / "STOP").exists()
    with pytest.raises(Stopped, match="a test"):
        Latch(full).check("main")
    Latch(full).clear()
    Latch(full).check("main")


def test_where_no_latch_can_be_written_the_stop_says_so_and_holds_in_this_process(
    full: Dirs,
) -> None:
    nowhere = Dirs(full.state, full.config, full.state / "run")
    latch = Latch(nowhere)
    report = stop_all(nowhere, "a test", engine=NoEngine(), hold=latch.hold)
    assert len(report.left) == 1
    assert report.left[0].startswith("calls are held back by no latch: the stop latch cannot be")
    with pytest.raises(Stopped, match="a test"):
        latch.check("main")
    with pytest.raises(Unavailable):
        latch.set("again")
    for path in full.state.parent.glob("fill*"):
        path.unlink()
    with pytest.raises(Stopped, match="a test"):
        latch.check("main")  # it is on disk now, for everybody
    assert Latch(nowhere).read() is not None


def test_a_latch_whose_reason_finds_no_room_counts(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full_disk)
    Latch(dirs).set("a test")
    with pytest.raises(Stopped, match=r"stopped at \d.*: set by hand"):
        Latch(dirs).check()


def test_notes_outlive_a_half_written_one(dirs: Dirs) -> None:
    notes = ContainerNotes(dirs)
    one = Note("a" * 64, "cell", "cell", "main", local=True)
    notes.add(one)
    (dirs.state / "containers" / ("b" * 64)).write_text('{"id": "b')
    (dirs.state / "containers" / ("c" * 64 + ".new")).write_text(json.dumps({}))
    assert notes.all() == {one.id: one}
    notes.remove(one.id)
    assert notes.all() == {}


def test_errors_are_of_the_sandbox() -> None:
    assert issubclass(Stopped, SandboxError)


def test_a_stop_goes_before_others_and_gives_that_up_again(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(CellSweep, "begin", lambda _: seen.append(os.sched_getscheduler(0)))
    monkeypatch.setattr(CellSweep, "finish", lambda _: CellsSwept())
    usual, may = os.sched_getscheduler(0), False
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        may = True
        os.sched_setscheduler(0, usual, os.sched_param(0))
    stop_all(dirs, "a test", engine=NoEngine())
    assert os.sched_getscheduler(0) == usual

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    assert stop_all(dirs, "a test", engine=NoEngine()).left == ()
    assert seen == [os.SCHED_RR if may else usual, usual]
