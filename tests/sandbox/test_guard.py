# SPDX-License-Identifier: Apache-2.0
"""The guard on real files: what it notices, what landings explain, what it puts back."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers import inotify_c

from sandbox.dirs import Dirs
from sandbox.errors import Unavailable
from sandbox.guard import Guard, GuardSettings, Tampering
from sandbox.guarding import explain, place, ward, watch
from sandbox.store import Store
from sandbox.workspaces import Registry

HOOK = ".git/hooks/pre-commit"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Guarded:
    """A workspace with a few protected files, and what a guard of it says."""

    def __init__(self, folder: Path) -> None:
        self.dirs = Dirs.under(folder / "lockgate")
        self.top = folder / "workspace"
        self.top.mkdir()
        self.store = Store(self.dirs)
        self.said: list[str] = []
        self.told: list[Tampering] = []
        self.calls = 0
        for path in (".envrc", HOOK, "sub/.devkit-waiver.yml", "src/app.py"):
            self.write(path, "old")

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def guard(self, **settings: Any) -> Guard:
        return Guard(
            self.dirs,
            workspaces=[str(self.top)],
            settings=GuardSettings(**settings),
            say=self.said.append,
            tell=self.told.append,
        )

    def look(self, **settings: Any) -> list[tuple[str, str]]:
        """Look once; return (path, kind) of what no landing made."""
        return [(one.path, one.kind) for one in self.guard(**settings).look()]

    def landed(self, *changes: dict[str, Any], **fields: Any) -> str:
        """Record a call that landed changes just now."""
        self.calls += 1
        call = f"c{self.calls}"
        self.store.append(
            {"event": "decided", "call": call, "workspace": str(self.top), "also": []},
            durable=False,
        )
        ended = {"event": "ended", "call": call, "judgement": "land", "landed": True, "ms": 100.0}
        self.store.append({**ended, "changes": changes, **fields}, durable=False)
        return call

    def events(self) -> list[dict[str, Any]]:
        return [one for one in self.store.records() if one["event"] == "tampered"][::-1]


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def change(path: str, kind: str = "modified", **more: Any) -> dict[str, Any]:
    return {"path": path, "kind": kind, "type": "file", **more}


# What is noticed, by a guard that did not run meanwhile


def _relink(top: Path) -> None:
    (top / ".envrc").unlink()
    (top / ".envrc").symlink_to("/etc/passwd")


def _to_folder(top: Path) -> None:
    (top / ".envrc").unlink()
    (top / ".envrc").mkdir()


def _to_fifo(top: Path) -> None:
    (top / ".envrc").unlink()
    os.mkfifo(top / ".envrc")


def _ancestor_link(top: Path) -> None:
    (top / ".git/hooks").rename(top / "elsewhere")
    (top / ".git/hooks").symlink_to("../elsewhere")


def _unseen(top: Path) -> None:
    file = top / ".envrc"
    times = file.stat()
    file.write_text("new")  # as long as before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("x")


NOTICED: dict[str, tuple[Callable[[Path], object], list[tuple[str, str]]]] = {
    "other content": (lambda top: (top / ".envrc").write_text("evil"), [(".envrc", "modified")]),
    "other content of the same size and time": (_unseen, [(".envrc", "modified")]),
    "a new file": (
        lambda top: (top / ".git/hooks/post-merge").write_text("x"),
        [(".git/hooks/post-merge", "created")],
    ),
    "a new file deep below": (
        lambda top: (top / "src/.mcp.json").write_text("x"),
        [("src/.mcp.json", "created")],
    ),
    "a deleted file": (lambda top: (top / HOOK).unlink(), [(HOOK, "deleted")]),
    "another mode": (lambda top: (top / HOOK).chmod(0o777), [(HOOK, "mode")]),
    "another mode of a folder": (
        lambda top: (top / ".git/hooks").chmod(0o777),
        [(".git/hooks", "mode")],
    ),
    "a hard link": (lambda top: os.link(top / ".envrc", top / "x"), [(".envrc", "linked")]),
    "a link in its place": (_relink, [(".envrc", "replaced")]),
    "a folder in its place": (_to_folder, [(".envrc", "replaced")]),
    "a pipe in its place": (_to_fifo, [(".envrc", "replaced")]),
    "a link in place of a folder above": (
        _ancestor_link,
        [(".git/hooks", "replaced"), (HOOK, "deleted")],
    ),
    "a folder above renamed": (
        lambda top: (top / "sub").rename(top / "bus"),
        [("bus/.devkit-waiver.yml", "created"), ("sub/.devkit-waiver.yml", "deleted")],
    ),
    "a link where a folder would hold protected files": (
        lambda top: (top / ".vscode").symlink_to("/tmp"),
        [(".vscode", "created")],
    ),
    "a key of git's settings": (
        lambda top: (top / ".git/config").write_text("[core]\n\thooksPath = /tmp\n"),
        [(".git/config", "created")],
    ),
    "a name that is not UTF-8": (
        lambda top: (top / os.fsdecode(b".aider\xff")).write_text("x"),
        [(".aider\\xff", "created")],
    ),
    "a policy in the folder of records": (
        lambda top: _write(top / ".lockgate/policy.yaml"),
        [(".lockgate/policy.yaml", "created")],
    ),
}


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("act, wanted", NOTICED.values(), ids=NOTICED)
def test_noticed_told_once_and_put_back(
    guarded: Guarded,
    act: Callable[[Path], object],
    wanted: list[tuple[str, str]],
    restore: bool,
) -> None:
    before = _tree(guarded.top)
    assert guarded.look(restore=restore) == []
    act(guarded.top)
    assert guarded.look(restore=restore) == wanted
    events = guarded.events()
    assert [(one["path"], one["kind"], one["restored"]) for one in events] == [
        (path, kind, restore) for path, kind in wanted
    ]
    assert guarded.look(restore=restore) == []
    assert guarded.said == []
    if restore:
        after = _tree(guarded.top)
        assert {path: after.get(path) for path in before} == before
        assert not any(path in after for path, kind in wanted if kind == "created")
    assert guarded.store.verify() is None


def _tree(top: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(top)): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_text() if path.is_file() else "",
        )
        for path in top.rglob("*")
        if "elsewhere" not in path.parts and path.name != "sub"
    }


HARMLESS: dict[str, Callable[[Path], object]] = {
    "the same content anew": lambda top: (
        (top / "x").write_text("old"),
        (top / "x").rename(top / ".envrc"),
    ),
    "another time": lambda top: os.utime(top / ".envrc", (1, 1)),
    "an ordinary file": lambda top: (top / "src/app.py").write_text("new"),
    "an empty folder that rules name": lambda top: (top / ".github/workflows").mkdir(parents=True),
    "an ordinary key of git's settings": lambda top: (top / ".git/config").write_text(
        "[user]\n\tname = A\n"
    ),
    "what landings write": lambda top: _write(top / ".lockgate/undo/c1/journal"),
    "a sample": lambda top: (top / ".git/hooks/x.sample").write_text("x"),
}


@pytest.mark.parametrize("act", HARMLESS.values(), ids=HARMLESS)
def test_harmless(guarded: Guarded, act: Callable[[Path], object]) -> None:
    guarded.look()
    act(guarded.top)
    assert guarded.look() == []
    guarded.write(".envrc", "evil")  # the control
    assert guarded.look() == [(".envrc", "modified")]


def test_the_event_says_what_was_and_what_is_and_nothing_is_lost(guarded: Guarded) -> None:
    guarded.look(restore=True)
    guarded.write(".envrc", "evil")
    (one,) = guarded.guard(restore=True).look()
    event = guarded.events()[0]
    assert {**event, "ts": "", "n": 0, "prev": ""} == {
        **one.record(),
        "ts": "",
        "n": 0,
        "prev": "",
    }
    assert (event["before"], event["after"]) == (sha("old"), sha("evil"))
    assert event["workspace"] == str(guarded.top)
    assert Path(event["kept"]).read_text() == "evil"
    folder = guarded.dirs.state / "guard"
    assert all(
        stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0
        for path in folder.rglob("*")
        if "tampered" not in path.parts
    )


def test_what_was_known_is_kept_where_it_is_not_restored(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "evil")
    guarded.look()
    kept = next((guarded.dirs.state / "guard").rglob(f"tampered/{sha('old')}"))
    assert kept.read_text() == "old"


def test_ignored_patterns_leave_out_obeyed_files_only(guarded: Guarded) -> None:
    ignore = (".envrc", ".devkit-waiver*")
    guarded.look(ignore=ignore)
    guarded.write(".envrc", "new")
    guarded.write("sub/.devkit-waiver.yml", "new")
    assert guarded.look(ignore=ignore) == [("sub/.devkit-waiver.yml", "modified")]


# What landings explain


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
    guarded.store.append({"event": "landed", "call": call, "landed": True}, durable=False)
    assert guarded.look() == []


def test_an_undo_explains_what_it_put_back(guarded: Guarded) -> None:
    guarded.look()
    guarded.write(".envrc", "new")
    call = guarded.landed(change(".envrc"))
    assert guarded.look() == []
    guarded.write(".envrc", "old")
    undone = {"event": "undone", "call": "u1", "undone": call, "workspace": str(guarded.top)}
    guarded.store.append({**undone, "changes": [change(".envrc")]}, durable=False)
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


# Restoring


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


# The state of the guard


def test_a_second_guard_of_a_workspace_says_so(guarded: Guarded) -> None:
    kept = place.Place(guarded.dirs, str(guarded.top))
    try:
        guarded.look()
        assert guarded.said == [
            f"another guard watches `{guarded.top}`; end it, or name other workspaces"
        ]
    finally:
        kept.close()


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


# While it runs


def wait_for(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    waiting = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError(f"{what}: not within {seconds} s")


@contextmanager
def running(guarded: Guarded, **settings: Any) -> Any:
    guard = guarded.guard(**settings)
    stopping = threading.Event()
    thread = threading.Thread(target=guard.run, args=(stopping,))
    thread.start()
    try:
        wait_for(guard.ready.is_set, "ready")
        yield guard
    finally:
        stopping.set()
        thread.join(20)
        assert not thread.is_alive()


def _wait_for_clock(top: Path) -> None:
    """Wait until the file system's clock has moved on by more than is allowed for it."""
    probe = top / "clock"
    probe.touch()
    first = probe.stat().st_ctime_ns

    def passed() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns - first > 50_000_000

    wait_for(passed, "a tick")


def test_noticed_at_once_among_six_thousand_folders(guarded: Guarded) -> None:
    """Watching all of them without an event filter would deliver nothing (watchdog 7.1)."""
    for number in range(6_000):
        (guarded.top / f"a{number % 50}" / f"b{number // 50}").mkdir(parents=True)
    guarded.write("a7/b9/.devkit-waiver.yml", "old")
    with running(guarded, every_seconds=3600.0, walk_seconds=0.0) as guard:
        folders = next(iter(guard._wards.values())).scanner.folders
        assert len(folders) < 150  # few, in a huge tree
        guarded.write("a7/b9/.devkit-waiver.yml", "evil")
        wait_for(lambda: len(guarded.told) == 1, "told", 5.0)
        guarded.write("new/deep/down/.envrc", "evil")
        wait_for(lambda: len(guarded.told) == 2, "told of a new folder's file", 5.0)
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
        watcher._observer.join(20)
        guarded.write(".envrc", "evil")
        wait_for(lambda: guarded.told, "told")
        wait_for(lambda: "the watching works again" in guarded.said, "revived")
        guarded.write(HOOK, "evil")
        wait_for(lambda: len(guarded.told) == 2, "told by the new observer")
    assert guarded.said == [
        "the observer is dead; every protected file is looked at now and again",
        "the watching works again",
    ]


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
        thread.join(20)


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
