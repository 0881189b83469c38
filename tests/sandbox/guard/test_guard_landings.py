# SPDX-License-Identifier: Apache-2.0
"""Which changes landings and undos explain to the guard, and which they do not."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.guard import explain, ward
from tests.sandbox.guard.test_guard import HOOK, Guarded, change, sha, wait_for


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def _wait_for_clock(top: Path) -> None:
    """Wait until the file system's clock has moved on by more than is allowed for it."""
    probe = top / "clock"
    probe.touch()
    first = probe.stat().st_ctime_ns

    def passed() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns - first > 50_000_000

    wait_for(passed, "a tick")


def test_a_landing_explains_what_it_landed(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    (guarded.top / HOOK).unlink()
    guarded.write(".claude/settings.json", "{}")
    guarded.landed(change(".envrc"), change(HOOK, "deleted"))
    assert guarded.look() == [(".claude/settings.json", "created")]


def test_a_change_after_a_landing_is_not_explained_by_it(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    guarded.landed(change(".envrc"))
    _wait_for_clock(guarded.top)
    guarded.write(".envrc", "evil")
    assert guarded.look() == [(".envrc", "modified")]


def test_a_change_before_a_landing_is_not_explained_by_it(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "evil")
    future = "2999-01-01T00:00:00.000+00:00"  # its landing began long after that
    guarded.landed(change(".envrc"), ts=future)
    assert guarded.look() == [(".envrc", "modified")]


@pytest.mark.parametrize("content, told", [("new", []), ("evil", [(".envrc", "modified")])])
def test_recorded_content_decides(
    guarded: Guarded, content: str, told: list[tuple[str, str]]
) -> None:
    guarded.look()
    guarded.write(".envrc", content)
    guarded.landed(change(".envrc", sha256=sha("new")))
    assert guarded.look() == told


EXPLAINS_NOT: dict[str, dict[str, Any]] = {
    "of another path": change("sub/.envrc"),
    "that deleted it": change(".envrc", "deleted"),
    "of a link": {**change(".envrc"), "type": "symlink"},
}


@pytest.mark.parametrize("landed", EXPLAINS_NOT.values(), ids=EXPLAINS_NOT)
def test_a_landing_explains_not(guarded: Guarded, landed: dict[str, Any]) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    guarded.landed(landed)
    assert guarded.look() == [(".envrc", "modified")]


def test_a_call_that_did_not_land_explains_nothing(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    call = guarded.landed(change(".envrc"), landed=False, judgement="hold")
    assert guarded.look() == [(".envrc", "modified")]
    guarded.write(".envrc", "newer")
    guarded.store.append(
        record_of({"event": "landed", "call": call, "landed": True}), durable=False
    )
    assert guarded.look() == []


def test_an_undo_explains_what_it_put_back(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    call = guarded.landed(change(".envrc"))
    assert guarded.look() == []
    guarded.write(".envrc", "old")
    undone = {"event": "undone", "call": "u1", "undone": call, "workspace": str(guarded.top)}
    guarded.store.append(record_of({**undone, "changes": [change(".envrc")]}), durable=False)
    assert guarded.look() == []


def test_a_landed_rename_of_a_folder_is_explained(guarded: Guarded) -> None:
    guarded.look()
    (guarded.top / "sub").rename(guarded.top / "bus")
    moved = change("bus/.devkit-waiver.yml", "renamed", source="sub/.devkit-waiver.yml")
    guarded.landed(moved)
    assert guarded.look() == []


def test_a_landing_on_its_way_is_waited_for(guarded: Guarded) -> None:
    """The guard sees the file before the record: it waits while the landing holds its lock."""
    guarded.look()
    folder = guarded.top / ".lockgate"
    folder.mkdir()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guarded.write(".envrc", "new")
        looked = threading.Event()
        seen = explain.awaited

        def awaited(*words: Any) -> bool:
            answer = seen(*words)
            looked.set()
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ward, "awaited", awaited)
            found: list[list[tuple[str, str]]] = []
            thread = threading.Thread(target=lambda: found.append(guarded.look()))
            thread.start()
            assert looked.wait(20)
            guarded.landed(change(".envrc"))
            fcntl.flock(lock, fcntl.LOCK_UN)
            thread.join(20)
    assert found == [[]]


def test_a_lock_that_nobody_gives_up_hides_nothing(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "LANDING_SECONDS", 0.2)
    guarded.look()
    folder = guarded.top / ".lockgate"
    folder.mkdir()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guarded.write(".envrc", "evil")
        assert guarded.look() == [(".envrc", "modified")]
