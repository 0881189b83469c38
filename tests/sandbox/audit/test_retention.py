# SPDX-License-Identifier: Apache-2.0
"""What calls wrote is kept up to a quota; what waits for a person stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.audit.events.reading import record_of
from sandbox.audit.retention import UNTIL, Dropped, Retention, until
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs, Settings
from tests.fakes import lines_of

KIB = 1024


def wrote(calls: Path, name: str, when: float, size: int = 16 * KIB) -> None:
    """Make the folder of a call that ended at an instant."""
    folder = calls / name
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(b"x" * size)
    os.utime(folder, (when, when))


def left(calls: Path) -> list[str]:
    """Return whose folders are there."""
    return sorted(one.name for one in calls.iterdir() if one.is_dir())


def test_the_oldest_go_until_there_is_room(tmp_path: Path) -> None:
    for number in range(10):
        wrote(tmp_path, f"c{number}", 1000 + number)
    assert Retention(tmp_path, 1 << 30, tuple).look(0, ()) is None
    assert len(left(tmp_path)) == 10
    dropped = Retention(tmp_path, 100 * KIB, tuple).look(0, ())
    assert dropped == Dropped(6, "c0", "c5")
    assert left(tmp_path) == ["c6", "c7", "c8", "c9"]
    assert until(tmp_path) == 1005


def test_what_is_held_or_runs_stays_and_so_do_its_parts(tmp_path: Path) -> None:
    for number, name in enumerate(("held", "held-1", "runs", "old", "new", "heldover")):
        wrote(tmp_path, name, 1000 + number)
    found = Retention(tmp_path, 1, lambda: ["held"]).look(0, ["runs"])
    assert found == Dropped(3, "old", "heldover")
    assert left(tmp_path) == ["held", "held-1", "runs"]
    assert Retention(tmp_path, 1, tuple).look(0, ()) == Dropped(3, "held", "runs")


def test_it_looks_again_only_when_much_was_written(tmp_path: Path) -> None:
    kept = Retention(tmp_path, 160 * KIB, tuple)
    assert kept.look(0, ()) is None
    wrote(tmp_path, "c1", 1000, 320 * KIB)
    assert kept.look(10 * KIB, ()) is None
    assert kept.look(11 * KIB, ()) == Dropped(1, "c1", "c1")


@pytest.mark.parametrize("said", [b"", b"soon", b"\xff"])
def test_a_damaged_note_of_when_is_none(tmp_path: Path, said: bytes) -> None:
    (tmp_path / UNTIL).write_bytes(said)
    assert until(tmp_path) == 0
    assert until(tmp_path / "missing") == 0


def test_show_says_that_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox.cli.calls.calls import show

    dirs = Dirs.under(tmp_path).create()
    monkeypatch.setattr("sandbox.cli.terminal.dirs", lambda: dirs)
    store = Store(dirs)
    decided = {"event": "decision", "call": "c1", "tool": "Bash", "ts": "2026-01-01T00:00:00Z"}
    store.append(record_of(decided), durable=True)
    store.keep_output("c1", "stdout", b"the words\n")
    assert CliRunner().invoke(show, ["c1", "--output"]).stdout == "the words\n"
    Retention(store.folders, 1, tuple).look(0, ())
    said = CliRunner().invoke(show, ["c1", "--output"])
    assert said.stdout == ""
    assert "no longer kept" in said.stderr


def test_a_supervisor_keeps_to_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox.calls.supervisor import Supervisor

    monkeypatch.setattr("sandbox.calls.flow.live._REAP_SECONDS", 0.01)
    dirs = Dirs.under(tmp_path).create()
    store = Store(dirs)
    wrote(store.folders, "c1", 1000, 1 << 20)
    wrote(store.folders, "c2", 2000, KIB)

    async def wait() -> None:
        async with Supervisor(dirs, workspaces=(), settings=Settings(outputs_mib=1)):
            for _ in range(6000):
                await asyncio.sleep(0.01)
                if dropped():
                    return

    def dropped() -> list[int]:
        return [one["calls"] for one in lines_of(store) if one["event"] == "outputs_dropped"]

    asyncio.run(wait())
    assert left(store.folders) == ["c2"]
    assert dropped() == [1]
