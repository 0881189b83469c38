# SPDX-License-Identifier: Apache-2.0
"""How the guard puts back, and what it keeps: nothing is lost, nothing is told twice."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from policy.protected.path_rules import GovernanceRule
from policy.protected.paths import PathPolicy
from sandbox.audit.store import Store
from sandbox.errors import Unavailable
from sandbox.guard import snapshots as place
from sandbox.guard import ward
from sandbox.guard.guard import Guard, GuardSettings
from tests.sandbox.guard.test_guard import HOOK, Guarded, running, wait_for


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_restoring_follows_no_link_out_of_the_workspace(guarded: Guarded, tmp_path: Path) -> None:
    guarded.look(restore=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "pre-commit").write_text("theirs")
    (guarded.top / HOOK).unlink()
    (guarded.top / ".git/hooks").rmdir()
    (guarded.top / ".git/hooks").symlink_to(outside)
    guarded.look(restore=True)
    assert (outside / "pre-commit").read_text() == "theirs"
    assert not (guarded.top / ".git/hooks").is_symlink()
    assert (guarded.top / HOOK).read_text() == "old"


def test_mode_and_time_are_restored(guarded: Guarded) -> None:
    file = guarded.top / HOOK
    file.chmod(0o755)
    os.utime(file, ns=(5, 1_000_000_007))
    guarded.look(restore=True)
    file.unlink()
    guarded.look(restore=True)
    status = file.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (0o755, 1_000_000_007)


def test_a_repository_that_is_gone_is_not_made_anew(guarded: Guarded) -> None:
    guarded.look(restore=True)
    (guarded.top / ".git").rename(guarded.top.parent / "moved")
    (one,) = guarded.guard(restore=True).look()
    assert (one.path, one.restored, one.note) == (HOOK, False, "the whole repository is gone")
    assert not (guarded.top / ".git").exists()


def test_a_file_too_long_to_be_kept_is_told_but_not_restored(guarded: Guarded) -> None:
    guarded.write(".envrc", "x" * (9 << 20))
    guarded.look(restore=True)
    guarded.write(".envrc", "evil")
    (one,) = guarded.guard(restore=True).look()
    assert (one.restored, one.note[:24]) == (False, "its content was not kept")


def test_nothing_is_replaced_that_could_not_be_kept(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.look(restore=True)
    monkeypatch.setattr(place, "MOST_TAMPERED_BYTES", -1)
    guarded.write(".envrc", "evil")
    (one,) = guarded.guard(restore=True).look()
    assert one.restored is False
    assert (guarded.top / ".envrc").read_text() == "evil"


def test_a_fight_over_a_file_ends(guarded: Guarded) -> None:
    with running(guarded, restore=True):
        for count in range(1, ward.MOST_RESTORES + 2):
            guarded.write(".envrc", f"evil {count}")
            wait_for(lambda count=count: len(guarded.told) == count, "told")  # type: ignore[misc]
    *restored, last = guarded.told
    assert all(one.restored for one in restored)
    assert last.note.startswith("it was put back 5 times within 60 s and changed again")


def test_a_second_guard_of_a_workspace_says_so(guarded: Guarded) -> None:
    kept = place.Place(guarded.dirs, str(guarded.top))
    try:
        guarded.look()
        assert guarded.said == [
            f"another guard watches `{guarded.top}`; end it, or name other workspaces"
        ]
    finally:
        kept.close()


def test_nothing_is_said_of_a_guard_that_makes_room_in_time(guarded: Guarded) -> None:
    """Found when each `guard` said of workspaces that another has them, and then took them over."""
    guarded.look()
    kept = place.Place(guarded.dirs, str(guarded.top))
    leaving = threading.Timer(0.6, kept.close)
    leaving.start()
    try:
        guarded.write(".envrc", "evil")
        assert [path for path, _ in guarded.look()] == [".envrc"]
        assert guarded.said == []
    finally:
        leaving.join()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "known": {"a": [1]}}', "\xff"])
def test_a_damaged_snapshot_is_said_and_not_taken_for_a_first_start(
    guarded: Guarded, text: str
) -> None:
    guarded.look()
    file = next((guarded.dirs.state / "guard").rglob("known.json"))
    file.write_text(text, "latin-1")
    guard = guarded.guard()
    assert guard.look() == []
    assert guard.failed == (
        f"`{file}` cannot be read, so that changes made since cannot be told; look at the "
        "protected files, then remove it",
    )


def test_a_workspace_that_is_gone_is_said(guarded: Guarded) -> None:
    guarded.look()
    guarded.top.rename(guarded.top.with_name("moved"))
    guard = guarded.guard()
    assert guard.look() == []
    assert guard.failed == (f"workspace `{guarded.top}`: No such file or directory",)
    assert guarded.events() == []


def test_what_cannot_be_recorded_is_told_again_later(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.look()
    guarded.write(".envrc", "evil")

    def full(*_: object, **__: object) -> None:
        raise Unavailable("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", full)
        guard = guarded.guard()
        assert guard.look() == []
        assert guard.failed == ("no space left on device",)
    assert guarded.look() == [(".envrc", "modified")]


def test_a_file_that_new_rules_protect_is_not_taken_away(guarded: Guarded) -> None:
    """It did not appear: only the rules did."""
    rule = {"id": "r", "name": "r", "because": "b", "paths": ["rules.txt"], "allowed_path": "a"}
    default = PathPolicy.default()
    more = default.model_copy(
        update={"governance": (*default.governance, GovernanceRule.model_validate(rule))}
    )

    def look(paths: PathPolicy) -> list[tuple[str, str]]:
        settings = GuardSettings(restore=True)
        guard = Guard(
            guarded.dirs, workspaces=[str(guarded.top)], settings=settings, paths=lambda _: paths
        )
        return [(one.path, one.kind) for one in guard.look()]

    guarded.write("rules.txt", "old")
    assert look(default) == []
    guarded.write(".envrc", "evil")
    assert look(more) == [(".envrc", "modified")]
    assert (guarded.top / "rules.txt").read_text() == "old"
    guarded.write("rules.txt", "evil")
    guarded.write("sub/rules.txt", "evil")
    assert look(more) == [("rules.txt", "modified"), ("sub/rules.txt", "created")]  # the control
    assert (guarded.top / "rules.txt").read_text() == "old"
