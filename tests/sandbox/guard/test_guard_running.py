# SPDX-License-Identifier: Apache-2.0
"""The guard while it runs: quick, in huge trees, and sure when the watching fails."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from watchdog.observers import inotify_c

from sandbox.guard import watch
from sandbox.guard.guard import Guard
from sandbox.workspaces.registry import Registry
from tests.sandbox.guard.test_guard import HOOK, NOTICED, Guarded, change, running, wait_for


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_noticed_at_once_among_six_thousand_folders(guarded: Guarded) -> None:
    """Watching all of them without an event filter would deliver nothing (watchdog 7.1)."""
    for number in range(6_000):
        (guarded.top / f"a{number % 50}" / f"b{number // 50}").mkdir(parents=True)
    guarded.write("a7/b9/.devkit-waiver.yml", "old")
    with running(guarded, every_seconds=3600.0, walk_seconds=0.0) as guard:
        folders = next(iter(guard._wards.values())).scanner.folders
        assert len(folders) < 150  # few, in a huge tree
        observer = guard._watcher._observer
        assert len(observer.emitters) > len(folders)
        assert all(one.watch.event_filter for one in observer.emitters)
        guarded.write("a7/b9/.devkit-waiver.yml", "evil")
        wait_for(lambda: len(guarded.told) == 1, "told")
        guarded.write("new/deep/down/.envrc", "evil")
        wait_for(lambda: len(guarded.told) == 2, "told of a new folder's file")
    assert [one.path for one in guarded.told] == [
        "a7/b9/.devkit-waiver.yml",
        "new/deep/down/.envrc",
    ]
    assert guarded.said == []


LIVE = {name: case for name, case in NOTICED.items() if "size and time" not in name}


@pytest.mark.parametrize("act, wanted", LIVE.values(), ids=LIVE)
def test_noticed_and_put_back_while_it_runs(
    guarded: Guarded, act: Callable[[Path], object], wanted: list[tuple[str, str]]
) -> None:
    with running(guarded, restore=True, every_seconds=3600.0, walk_seconds=0.0):
        act(guarded.top)
        final = {path for path, _ in wanted}
        wait_for(lambda: {one.path for one in guarded.told} >= final, "told")
    assert guarded.look() == []
    kinds = {one.path: one.kind for one in guarded.told}
    assert kinds == dict(wanted) or all(one.restored for one in guarded.told)


def test_a_periodic_look_sees_what_no_event_told(guarded: Guarded) -> None:
    """A file with a second name outside is changed through that one: no watched folder hears it."""
    outside = guarded.top.parent / "outside"
    os.link(guarded.top / ".envrc", outside)
    with running(guarded, every_seconds=0.3, walk_seconds=0.0):
        outside.write_text("evil")
        wait_for(lambda: len(guarded.told) == 1, "told")
    assert [(one.path, one.kind) for one in guarded.told] == [(".envrc", "modified")]


def test_a_landing_while_it_runs_is_not_told(guarded: Guarded) -> None:
    with running(guarded, every_seconds=0.2):
        folder = guarded.top / ".lockgate"
        (folder / "undo").mkdir(parents=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            guarded.write(".envrc", "new")
        guarded.landed(change(".envrc"))
        guarded.write(HOOK, "evil")  # the control, seen after the landing
        wait_for(lambda: guarded.told, "told")
    assert [one.path for one in guarded.told] == [HOOK]


def test_a_dead_observer_is_said_and_looked_past(guarded: Guarded) -> None:
    with running(guarded, every_seconds=3600.0) as guard:
        watcher = guard._watcher
        watcher._observer.stop()
        watcher._observer.join(120)
        guarded.write(".envrc", "evil")
        wait_for(lambda: guarded.told, "told")
        wait_for(lambda: "the watching works again" in guarded.said, "revived")
        guarded.write(HOOK, "evil")
        wait_for(lambda: len(guarded.told) == 2, "told by the new observer")
    assert guarded.said == [
        "the observer is dead; every protected file is looked at now and again",
        "the watching works again",
    ]


def test_an_observer_that_is_being_ended_is_dead_already(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptors are closed before its thread has ended: nothing is asked of it then."""
    watcher = watch.Watcher(lambda path: None, guarded.dirs.state / "guard" / "watch")
    guarded.dirs.create()
    watcher.start()
    try:
        assert watcher.watch([str(guarded.top)])  # the control: it works before
        assert watcher.trouble() is None
        observer = watcher._observer
        assert observer is not None
        # as if its thread had not come to its end yet
        monkeypatch.setattr(observer, "is_alive", lambda: True)
        observer.stop()
        assert not watcher.watch([str(guarded.top / "src")])
        assert watcher.trouble() == "the observer is dead"
        assert not watcher.usable
    finally:
        watcher.close()


def test_lost_events_are_said_and_looked_past(guarded: Guarded) -> None:
    with running(guarded, every_seconds=3600.0) as guard:
        guard._watcher._heard = lambda path: None  # as if the events were lost
        guarded.write(".envrc", "evil")
        logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed")
        wait_for(lambda: guarded.told, "told")
    assert guarded.said[0] == (
        "events were lost: Inotify queue overflowed; every protected file is looked at now and "
        "again"
    )


def test_folders_that_cannot_be_watched_are_looked_at(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(inotify_c.InotifyFD, "add_callback", refused)
    with running(guarded, every_seconds=0.3):
        guarded.write(".envrc", "evil")
        wait_for(lambda: guarded.told, "told")
    assert "inotify watch limit reached" in guarded.said[0]


def test_a_deaf_observer_is_noticed(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DEAF_SECONDS", 0.2)
    monkeypatch.setattr(watch, "PULSE_SECONDS", 0.1)
    with running(guarded, every_seconds=3600.0) as guard:
        monkeypatch.setattr(guard._watcher, "_take", lambda path: None)
        monkeypatch.setattr(guard._watcher._ears, "_heard", lambda path: None)
        wait_for(lambda: guarded.said, "said")
        monkeypatch.undo()
    assert guarded.said[0].startswith("the observer has heard nothing for 0 s; ")


def test_a_workspace_registered_later_is_guarded(guarded: Guarded) -> None:
    guard = Guard(guarded.dirs, say=guarded.said.append, tell=guarded.told.append)
    stopping = threading.Event()
    thread = threading.Thread(target=guard.run, args=(stopping,))
    thread.start()
    try:
        wait_for(guard.ready.is_set, "ready")
        Registry(guarded.dirs).add(guarded.top, approved=True)
        wait_for(lambda: guard.guarded, "guarded")
        guarded.write(".envrc", "evil")
        wait_for(lambda: guarded.told, "told")
        Registry(guarded.dirs).remove(guarded.top)
        wait_for(lambda: not guard.guarded, "left")
    finally:
        stopping.set()
        thread.join(120)


def test_a_program_gets_each_event(guarded: Guarded, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ncat >> {out}\n")
    script.chmod(0o755)
    guarded.look()
    guarded.write(".envrc", "evil")
    guarded.look(command=(str(script),))
    assert json.loads(out.read_text())["path"] == ".envrc"
    guarded.write(".envrc", "more")
    guarded.look(command=("/nowhere/at/all",))
    assert guarded.said == ["`/nowhere/at/all` cannot be started: no such file or directory"]
