# SPDX-License-Identifier: Apache-2.0
"""Landing, undo and recovery on real overlay mounts: every step is cut short once."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.cell import fs
from sandbox.cell.journal import format as journal
from sandbox.cell.journal import vault
from sandbox.cell.journal.apply import Runner
from sandbox.cell.landing import land as landing
from sandbox.cell.landing.land import LandingError
from sandbox.cell.overlay import sides as pieces
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, Tree, missing

PREPARE = """
mkdir -p d/e big sub empty
echo a >a; echo b >b; echo da >d/a; echo deb >d/e/b; ln -s a d/link; ln -s a link
echo 1 >big/1; echo 2 >big/2; echo s >sub/s; echo t >sub/t; ln sub/s sub/hard
touch -d '2020-01-01' a b d/a d/e/b big/1 big/2 sub/s
"""
EVERYTHING = """
echo x >>a; mv b b2; touch link -h; chmod 600 sub/t; chmod 700 sub
mv d x; echo x >>x/a; rm x/link; echo n >x/n; chmod 700 x/e
rm -r big; mkdir big; echo 1 >big/1
mkdir -p n/m; echo x >n/m/x; ln n/m/x n/hard; ln -s m n/link; mv empty n/empty
rm sub/hard; mkdir sub/hard; echo h >sub/hard/h
"""
Fault = Callable[[str], None]


@pytest.fixture(scope="session", autouse=True)
def _able() -> None:
    if reason := missing():
        cannot_run(reason)


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    with Overlay(prepare=PREPARE) as opened:
        yield opened


SCRIPTS = {
    "a created file": "echo x >x",
    "a modified file": "echo x >>a",
    "a deleted file": "rm a",
    "a file of another mode": "chmod 600 a",
    "a file of another time": "touch a",
    "a root of another mode": "chmod 700 .",
    "a retargeted link": "ln -sfn b link",
    "a deleted folder": "rm -r d",
    "a new tree": "mkdir -p n/m; echo x >n/m/x; chmod 500 n/m; ln -s x n/l",
    "hard links between new files": "echo x >x; mkdir n; ln x n/y; ln x z",
    "a renamed folder, changed inside": "mv d x; echo x >>x/a; rm x/link; echo n >x/n",
    "a folder out of a renamed one": "mv d x; mv x/e y",
    "a folder out of a deleted one": "mv d/e y; rm -r d",
    "folders that trade places": "mv big t; mv empty big; mv t empty",
    "a new folder in place of a moved one": "mv d x; mkdir d; mv x/e d/e; echo q >d/a",
    "a folder that becomes a file": "rm -r big; echo x >big",
    "a file that becomes a folder": "rm a; mkdir a; echo x >a/x",
    "a folder that becomes a link": "rm -r big; ln -s d big",
    "a folder made anew": "rm -r big; mkdir big; echo 2 >big/2; echo 3 >big/3",
    "all hard links deleted": "rm sub/s sub/hard",
    "everything at once": EVERYTHING,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_landing_gives_what_the_call_saw_and_undo_gives_it_back(
    overlay: Overlay, script: str
) -> None:
    before = overlay.real()
    overlay.call(script)
    seen = overlay.seen()
    walked = overlay.walk()
    assert overlay.land(walked) == landing.Landing("landed", "c1")
    assert overlay.real() == seen
    assert overlay.undo("c1", "u1").state == "undone"
    assert overlay.real() == before
    assert overlay.undo("u1", "u2").state == "undone"
    assert overlay.real() == seen
    assert overlay.undo("u2", "u3").state == "undone"
    assert overlay.real() == before
    assert overlay.unfinished() == []


def test_hard_links_between_new_files_stay_links(overlay: Overlay) -> None:
    overlay.call("echo x >x; mkdir n; ln x n/y; ln a z")
    overlay.land(overlay.walk())
    assert (overlay.lower / "x").stat().st_ino == (overlay.lower / "n/y").stat().st_ino
    assert (overlay.lower / "a").stat().st_nlink == 1


def test_attributes_land_and_come_back() -> None:
    overlay = Overlay(prepare=PREPARE)
    os.setxattr(overlay.lower / "a", "user.old", b"1")
    with overlay:
        before = overlay.real()
        os.setxattr(overlay.merged / "a", "user.new", b"2")
        os.removexattr(overlay.merged / "a", "user.old")
        (overlay.merged / "x").write_text("x")
        os.setxattr(overlay.merged / "x", "user.x", b"3")
        seen = overlay.seen()
        overlay.land(overlay.walk())
        assert overlay.real() == seen
        overlay.undo("c1", "u1")
        assert overlay.real() == before


# Crashes


def _crashing(number: int) -> Fault:
    """Return a fault that ends the process before step `number`, as a power cut would."""
    left = [number]

    def fault(_step: str) -> None:
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1

    return fault


def _in_child(work: Callable[[], object]) -> int:
    """Run something in a process that may be killed; return its exit status."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    assert child.exitcode is not None
    return child.exitcode


def _steps(work: Callable[[Fault], object]) -> list[str]:
    steps: list[str] = []
    work(steps.append)
    return steps


def _count_steps(script: str) -> list[str]:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(script)
        walked = overlay.walk()
        return _steps(lambda fault: overlay.land(walked, fault=fault))


def _assert_whole(overlay: Overlay, before: Tree, after: Tree) -> bool:
    """Assert that recovery left one of both states, and that all can go on; True if it landed."""
    assert overlay.unfinished() == []
    now = overlay.real()
    assert now in (before, after)
    if now == after and before != after:
        assert [entry["call"] for entry in landing.list_undo(str(overlay.lower))] == ["c1"]
        assert overlay.undo("c1", "u1").state == "undone"
        assert overlay.real() == before
        return True
    return False


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "no exchange"])
def test_a_crash_at_any_step_of_a_landing_leaves_all_or_nothing(
    exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(fs, "rename", _unsupported)
    steps = _count_steps(EVERYTHING)
    assert len(steps) > 20
    landed = []
    for number, step in enumerate(steps):
        with Overlay(prepare=PREPARE) as overlay:
            before = overlay.real()
            overlay.call(EVERYTHING)
            after = overlay.seen()
            walked = overlay.walk()
            work = lambda: overlay.land(walked, fault=_crashing(number))  # noqa: B023, E731
            assert _in_child(work) == 9, step
            landing.recover(str(overlay.lower))
            landed.append(_assert_whole(overlay, before, after))
    if exchange:  # without, a landing cut short within a replacement may be taken back instead
        first = steps.index("do 0")
        assert landed == [number >= first for number in range(len(steps))]


def _unsupported(*_: object) -> None:
    raise OSError(errno.EINVAL, "no flags here")


def test_a_crash_at_any_step_of_recovery_is_recovered_from() -> None:
    steps = _count_steps(EVERYTHING)
    for number in range(steps.index("do 0"), len(steps), 4):
        for again in range(0, 30, 3):
            with Overlay(prepare=PREPARE) as overlay:
                before = overlay.real()
                overlay.call(EVERYTHING)
                after = overlay.seen()
                walked = overlay.walk()
                _in_child(lambda: overlay.land(walked, fault=_crashing(number)))  # noqa: B023
                root = str(overlay.lower)
                status = _in_child(lambda: landing.recover(root, fault=_crashing(again)))  # noqa: B023
                landing.recover(root)
                assert _assert_whole(overlay, before, after)
            if status == 0:
                break


def test_a_crash_at_any_step_of_an_undo_leaves_all_or_nothing() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(EVERYTHING)
        overlay.land(overlay.walk())
        steps = _steps(lambda fault: landing.undo(str(overlay.lower), "c1", "u1", fault=fault))
    undone = []
    for number, step in enumerate(steps):
        with Overlay(prepare=PREPARE) as overlay:
            before = overlay.real()
            overlay.call(EVERYTHING)
            after = overlay.seen()
            overlay.land(overlay.walk())
            root = str(overlay.lower)
            work = lambda: landing.undo(root, "c1", "u1", fault=_crashing(number))  # noqa: B023, E731
            assert _in_child(work) == 9, step
            landing.recover(root)
            assert overlay.unfinished() == []
            now = overlay.real()
            assert now in (before, after)
            undone.append(now == before)
            again = ("u1", after) if now == before else ("c1", before)
            assert overlay.undo(again[0], "u2").state == "undone", step
            assert overlay.real() == again[1]
    first = next(n for n, step in enumerate(steps) if step.startswith("undo "))
    assert undone == [number >= first for number in range(len(steps))]


def test_the_next_landing_finishes_one_that_was_cut_short(overlay: Overlay) -> None:
    overlay.call("echo x >>a; echo y >>b")
    seen = overlay.seen()
    walked = overlay.walk()
    steps = _count_steps("echo x >>a; echo y >>b")
    _in_child(lambda: overlay.land(walked, fault=_crashing(steps.index("do 1"))))
    assert overlay.real() not in (seen,)
    with pytest.raises(LandingError, match="has landed already"):
        overlay.land(walked)
    assert overlay.real() == seen


# Conflicts

LATER = {
    "a modified file was modified": ("echo x >>a", "echo y >>a", ("a",)),
    "a modified file was deleted": ("echo x >>a", "rm a", ("a",)),
    "a modified file was replaced by a folder": ("echo x >>a", "rm a; mkdir a", ("a",)),
    "a modified file was replaced by a link": ("echo x >>a", "rm a; ln -s b a", ("a",)),
    "a modified file got another mode": ("echo x >>a", "chmod 600 a", ("a",)),
    "a new name was taken": ("echo x >x", "echo y >x", ("x",)),
    "a new folder's name was taken": ("mkdir n; echo x >n/x", "mkdir n; echo y >n/y", ("n",)),
    "a deleted file was modified": ("rm a", "echo y >>a", ("a",)),
    "a deleted folder got a file": ("rm -r d", "echo y >d/y", ("d/y",)),
    "a file in a deleted folder was modified": ("rm -r d", "echo y >>d/e/b", ("d/e/b",)),
    "a renamed folder is gone": ("mv d x", "rm -r d", ("d",)),
    "a renamed folder's new name was taken": ("mv d x", "mkdir x", ("x",)),
    "a folder on the way became a link": (
        "echo x >>d/e/b",
        "mv d real; ln -s real d",
        ("d/e/b",),
    ),
    "a mode changed on both sides": ("chmod 600 a", "chmod 640 a", ("a",)),
    "a folder's mode changed on both sides": ("chmod 700 d", "chmod 750 d", ("d",)),
    "the last of many": ("echo 1 >n1; rm -r big; mv d x; echo z >>b", "echo y >>b", ("b",)),
}


@pytest.mark.parametrize("script, meanwhile, paths", LATER.values(), ids=LATER)
def test_a_change_after_the_walk_stops_the_whole_landing(
    overlay: Overlay, script: str, meanwhile: str, paths: tuple[str, ...]
) -> None:
    overlay.call(script)
    walked = overlay.walk()
    overlay.edit(meanwhile)
    before = overlay.real()
    result = overlay.land(walked)
    assert (result.state, result.conflicts) == ("conflict", paths)
    assert overlay.real() == before
    assert overlay.unfinished() == []
    assert landing.list_undo(str(overlay.lower)) == []


def test_a_conflict_found_by_the_walk_lands_only_by_force(overlay: Overlay) -> None:
    overlay.call("echo x >>a")
    seen = overlay.seen()
    overlay.close()
    overlay.edit("echo y >>a")
    before = overlay.real()
    walked = overlay.walk()
    assert overlay.land(walked).conflicts == ("a",)
    assert overlay.real() == before
    assert overlay.land(walked, force=True).state == "landed"
    assert overlay.real() == seen
    overlay.undo("c1", "u1")
    assert overlay.real() == before


WRITTEN = {
    "a modified file": ("echo x >>a; echo n >n", "a"),
    "a deleted file": ("rm a; echo n >n", "a"),
    "a file of a deleted folder": ("echo n >n; rm -r big", "big/1"),
    "a file of a deleted folder in another": ("echo n >n; rm -r d", "d/e/b"),
    "a file in whose place a folder comes": ("rm a; mkdir a; echo n >n", "a"),
}


@pytest.mark.parametrize("script, path", WRITTEN.values(), ids=WRITTEN)
def test_what_somebody_has_open_for_writing_is_not_taken_away(
    overlay: Overlay, script: str, path: str
) -> None:
    overlay.call(script)
    walked = overlay.walk()
    before = overlay.real()
    with (overlay.lower / path).open("a") as file:  # nothing is written yet
        result = overlay.land(walked)
        assert (result.state, result.conflicts) == ("conflict", (path,))
        assert overlay.real() == before
        file.write("mine\n")
    assert (overlay.lower / path).read_text().endswith("mine\n")


@pytest.mark.parametrize("script, path", WRITTEN.values(), ids=WRITTEN)
def test_what_somebody_reads_is_replaced(overlay: Overlay, script: str, path: str) -> None:
    overlay.call(script)
    walked = overlay.walk()
    with (overlay.lower / path).open():
        assert overlay.land(walked).state == "landed"


def test_by_force_also_what_is_being_written_is_replaced(overlay: Overlay) -> None:
    overlay.call("echo x >>a")
    walked = overlay.walk()
    with (overlay.lower / "a").open("a"):
        assert overlay.land(walked, force=True).state == "landed"
    assert (overlay.lower / "a").read_text() == "a\nx\n"


def test_a_file_that_is_moved_may_be_written_to_meanwhile(overlay: Overlay) -> None:
    overlay.call("mv d x")
    walked = overlay.walk()
    with (overlay.lower / "d" / "a").open("a") as file:
        assert overlay.land(walked).state == "landed"
        file.write("mine\n")
    assert (overlay.lower / "x" / "a").read_text() == "da\nmine\n"


def test_an_undo_takes_nothing_away_that_is_being_written(overlay: Overlay) -> None:
    overlay.call("echo x >>a; echo n >n")
    overlay.land(overlay.walk())
    with (overlay.lower / "n").open("a"):
        assert overlay.undo("c1", "u1").refused == ("n",)
        assert (overlay.lower / "a").read_text() == "a\nx\n"
    assert overlay.undo("c1", "u1").state == "undone"
    assert not (overlay.lower / "n").exists()


def test_an_edit_between_check_and_exchange_is_not_lost(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay.call("echo x >>a; echo n >n")
    walked = overlay.walk()
    original = Runner._exchange
    edits = ["echo mine >>a"]

    def racing(self: Runner, *arguments: object) -> None:
        if edits:
            overlay.edit(edits.pop())
        original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Runner, "_exchange", racing)
    assert overlay.land(walked).conflicts == ("a",)
    assert (overlay.lower / "a").read_text() == "a\nmine\n"
    assert not (overlay.lower / "n").exists()


UNDO_LATER = {
    "a landed file was modified": ("echo x >>a", "echo y >>a", ("a",)),
    "a landed file was deleted": ("echo x >x", "rm x", ("x",)),
    "a landed file was replaced": ("echo x >>a", "rm a; echo x >a", ("a",)),
    "a deleted name was taken": ("rm a", "echo y >a", ("a",)),
    "a new folder got a file": ("mkdir n; echo x >n/x", "echo y >n/y", ("n/y",)),
    "a file in a new folder was modified": ("mkdir n; echo x >n/x", "echo y >>n/x", ("n/x",)),
    "a mode was changed": ("chmod 600 a", "chmod 640 a", ("a",)),
    "several": ("echo x >>a; echo y >>b", "echo z >>a; echo z >>b", ("a", "b")),
}


@pytest.mark.parametrize("script, later, paths", UNDO_LATER.values(), ids=UNDO_LATER)
def test_an_undo_refuses_where_a_later_change_would_be_lost(
    overlay: Overlay, script: str, later: str, paths: tuple[str, ...]
) -> None:
    overlay.call(script)
    overlay.land(overlay.walk())
    overlay.edit(later)
    before = overlay.real()
    result = overlay.undo("c1", "u1")
    assert (result.state, result.refused) == ("conflict", paths)
    assert overlay.real() == before


def test_files_in_a_renamed_folder_may_change_before_the_undo(overlay: Overlay) -> None:
    overlay.call("mv d x")
    overlay.land(overlay.walk())
    overlay.edit("echo y >>x/a; echo n >x/new")
    assert overlay.undo("c1", "u1").state == "undone"
    assert (overlay.lower / "d/a").read_text() == "da\ny\n"
    assert (overlay.lower / "d/new").exists()


def test_an_undo_says_what_it_changed(overlay: Overlay) -> None:
    overlay.call("echo x >>a; rm b; mkdir n; echo x >n/x; mv d y; chmod 600 sub/t")
    overlay.land(overlay.walk())
    changes = overlay.undo("c1", "u1").changes
    assert sorted((c["kind"], c["type"], c["path"], c.get("source")) for c in changes) == [
        ("created", "file", "b", None),
        ("deleted", "directory", "n", None),
        ("deleted", "file", "n/x", None),
        ("meta", "file", "sub/t", None),
        ("modified", "file", "a", None),
        ("renamed", "directory", "d", "y"),
        ("renamed", "directory", "d/e", "y/e"),
        ("renamed", "file", "d/a", "y/a"),
        ("renamed", "file", "d/e/b", "y/e/b"),
        ("renamed", "symlink", "d/link", "y/link"),
    ]


def test_calls_are_undone_in_turn() -> None:
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call("echo 1 >>a")
        overlay.land(overlay.walk(), "c1")
        with pytest.raises(LandingError, match="nothing is kept of call `c2`"):
            overlay.undo("c2", "u1")
        overlay.undo("c1", "u1")
        with pytest.raises(LandingError, match="`c1` was taken back by `u1`; undo that"):
            overlay.undo("c1", "u2")


# Room, rights, names


def test_the_oldest_before_images_go_when_the_quota_is_reached() -> None:
    with Overlay() as overlay:
        root = str(overlay.lower)
        results = []
        for number in range(4):
            overlay.edit(f"head -c 1000 /dev/zero >f{number}")
        for number in range(4):
            fresh = Overlay()
            fresh.lower = overlay.lower
            fresh.open()
            fresh.call(f"rm f{number}")
            results.append(landing.land(root, "", fresh.walk(), f"c{number}", quota=2500))
            time.sleep(0.01)
        assert [result.evicted for result in results] == [(), (), ("c0",), ("c1",)]
        assert "`c1`" in results[3].message
        assert [entry["call"] for entry in landing.list_undo(root)] == ["c2", "c3"]


def test_a_full_disk_changes_nothing(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    overlay.call("echo x >x; echo y >>a; rm b")
    walked = overlay.walk()
    before = overlay.real()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(fs, "copy_content", full)
    with pytest.raises(LandingError, match="nothing was changed: the disk is full"):
        overlay.land(walked)
    monkeypatch.undo()
    assert overlay.real() == before
    assert overlay.unfinished() == []
    assert overlay.land(walked).state == "landed"


def test_a_failure_in_the_middle_takes_back_what_was_done(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay.call(EVERYTHING)
    walked = overlay.walk()
    before = overlay.real()
    original = Runner._set

    def failing(self: Runner, *arguments: object) -> object:
        raise OSError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(Runner, "_set", failing)
    with pytest.raises(LandingError, match="nothing was changed: "):
        overlay.land(walked)
    monkeypatch.setattr(Runner, "_set", original)
    assert overlay.real() == before


def test_what_cannot_be_put_back_is_kept_and_named(overlay: Overlay) -> None:
    overlay.call("echo x >n; echo x >>a; rm b")
    walked = overlay.walk()

    def fault(step: str) -> None:
        if step == "do 2":  # `b` is taken and `n` put: a person edits `n`, and `a` conflicts
            overlay.edit("echo mine >>n; echo mine >>a")

    with pytest.raises(
        LandingError, match=r"`n` could not be put back .* `\.lockgate/undo/c1\.stuck`"
    ):
        overlay.land(walked, fault=fault)
    kept = {path: (overlay.lower / path).read_text() for path in ("a", "b", "n")}
    assert kept == {"a": "a\nmine\n", "b": "b\n", "n": "x\nmine\n"}
    assert overlay.unfinished() == []
    assert landing.list_undo(str(overlay.lower)) == []


def test_a_disk_that_fills_up_at_the_end_leaves_the_rest_to_recovery(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay.call("echo x >>a")
    seen = overlay.seen()
    walked = overlay.walk()
    original = journal.append

    def full(folder: int, record: object, *, durable: bool) -> None:
        if isinstance(record, dict) and "now" in record:
            raise OSError(errno.ENOSPC, "no space left on device")
        original(folder, record, durable=durable)

    monkeypatch.setattr(journal, "append", full)
    assert overlay.land(walked).state == "landed"
    assert overlay.real() == seen
    assert overlay.unfinished() == ["c1"]
    monkeypatch.undo()
    assert [r["state"] for r in landing.recover(str(overlay.lower))] == ["landed"]
    assert overlay.undo("c1", "u1").state == "undone"


def test_records_belong_to_the_workspace_and_are_ignored_by_git() -> None:
    with Overlay(prepare="chown 1234:2345 .") as overlay:
        overlay.call("echo x >x")
        overlay.land(overlay.walk())
        folder = overlay.lower / ".lockgate"
        status = folder.stat()
        assert (status.st_uid, status.st_gid) == (1234, 2345)
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert (folder / ".gitignore").read_text() == "*\n"


def test_a_landing_never_reaches_into_the_records(overlay: Overlay) -> None:
    overlay.call("mkdir .Lockgate; echo x >.Lockgate/x")
    walked = overlay.walk()
    with pytest.raises(LandingError, match="is not changed by landings"):
        overlay.land(walked)
    assert overlay.unfinished() == []


def test_records_that_are_a_link_are_refused(overlay: Overlay, tmp_path: Path) -> None:
    overlay.call("echo x >x")
    walked = overlay.walk()
    (overlay.lower / ".lockgate").symlink_to(tmp_path)
    with pytest.raises(LandingError, match="is not a folder"):
        overlay.land(walked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["", "..", "a/b", ".hidden", "x" * 129, "a\n"])
def test_a_call_is_a_file_name(overlay: Overlay, call: str) -> None:
    overlay.call("echo x >x")
    with pytest.raises(LandingError, match="cannot be the id of a call"):
        overlay.land(overlay.walk(), call)


def test_a_landing_that_was_sent_as_data_is_checked_again(overlay: Overlay) -> None:
    overlay.call("echo x >>a")
    walked = overlay.walk()
    overlay.edit("rm a")
    with pytest.raises(LandingError, match="look again"):
        landing.land(str(overlay.lower), str(overlay.upper), walked.changes, "c1")


def test_two_keepers_land_one_after_the_other(overlay: Overlay) -> None:
    overlay.call("echo x >>a")
    walked = overlay.walk()
    fork = multiprocessing.get_context("fork")
    locked, leave = fork.Event(), fork.Event()

    def other() -> None:
        with vault.Vault(fs.open_directory(str(overlay.lower))):
            locked.set()
            leave.wait(120)

    processes = [fork.Process(target=other), fork.Process(target=lambda: overlay.land(walked))]
    processes[0].start()
    assert locked.wait(120)
    processes[1].start()
    processes[1].join(0.3)
    assert processes[1].is_alive()
    assert (overlay.lower / "a").read_text() == "a\n"
    leave.set()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (overlay.lower / "a").read_text() == "a\nx\n"


def test_without_resolving_system_call_links_are_refused_too(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing_call(*_: object) -> int:
        raise OSError(errno.ENOSYS, "function not implemented")

    monkeypatch.setattr(fs, "_syscall", missing_call)
    root = fs.open_directory(str(overlay.lower))
    overlay.edit("ln -s d to; ln -s / up")
    os.close(fs.open_beneath(root, "d/e"))
    for path in ("to", "to/e", "up/etc", "d/../../etc", "/etc"):
        with pytest.raises(OSError):
            fs.open_beneath(root, path)
    os.close(root)


# Anything a call can do

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/b", "big", "big/1", "n", "n/m", "x"])
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.integers(0, 3)),
    st.tuples(st.sampled_from(["mkdir", "rm", "chmod", "touch"]), NAMES, st.just(0)),
    st.tuples(st.sampled_from(["mv", "ln", "symlink"]), NAMES, NAMES),
)


def _perform(root: Path, action: str, name: str, more: object) -> None:
    path = root / name
    try:
        if action == "write":
            path.write_text(f"{more}\n")
        elif action == "mkdir":
            path.mkdir()
        elif action == "rm" and path.is_dir() and not path.is_symlink():
            for held in sorted(path.rglob("*"), reverse=True):
                held.rmdir() if held.is_dir() and not held.is_symlink() else held.unlink()
            path.rmdir()
        elif action == "rm":
            path.unlink()
        elif action == "chmod":
            path.chmod(0o700)
        elif action == "touch":
            os.utime(path, (1, 1), follow_symlinks=False)
        elif action == "mv":
            path.rename(root / str(more))
        elif action == "ln":
            os.link(path, root / str(more), follow_symlinks=False)
        else:
            path.symlink_to(str(more))
    except OSError:
        return  # what the file system refuses, a call cannot do either


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(OPERATIONS, max_size=12))
def test_whatever_a_call_does_lands_exactly_and_is_undone_exactly(
    operations: list[tuple[str, str, object]],
) -> None:
    with Overlay(prepare=PREPARE) as overlay:
        before = overlay.real()
        for operation in operations:
            _perform(overlay.merged, *operation)
        seen = overlay.seen()
        walked = overlay.walk()
        if walked.empty:
            assert seen == before
            return
        assert overlay.land(walked).state == "landed"
        assert overlay.real() == seen
        assert overlay.undo("c1", "u1").state == "undone"
        assert overlay.real() == before
        assert overlay.undo("u1", "u2").state == "undone"
        assert overlay.real() == seen


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(OPERATIONS, max_size=12))
def test_what_is_said_of_a_landing_and_of_its_undo_is_what_changes(
    operations: list[tuple[str, str, object]],
) -> None:
    with Overlay(prepare=PREPARE) as overlay:
        for operation in operations:
            _perform(overlay.merged, *operation)
        walked = overlay.walk()
        if walked.empty:
            return
        root = fs.open_directory(str(overlay.lower))
        listed = [change["path"] for change in walked.changes]
        told = pieces.digests(pieces.of_walk(walked, root), listed)
        os.close(root)
        before = overlay.real()
        overlay.land(walked)
        _same(told, before, overlay.real(), walked.changes)
        for call, name in (("c1", "u1"), ("u1", "u2")):
            before = overlay.real()
            look = landing.outlook(str(overlay.lower), call, lambda _: False, shown=True)
            assert overlay.real() == before
            listed = [change["path"] for change in look.changes]
            done = landing.undo(str(overlay.lower), call, name, digests=listed)
            assert done.changes == look.changes
            _same(dict(done.digests), before, overlay.real(), list(done.changes))


def test_what_moves_back_onto_a_name_in_use_is_listed_whole(overlay: Overlay) -> None:
    overlay.call("mv d n; echo x >d")
    overlay.land(overlay.walk())
    overlay.undo("c1", "u1")
    changes = overlay.undo("u1", "u2").changes
    assert [(c["kind"], c["path"], c.get("source")) for c in changes] == [
        ("created", "d", None),
        ("renamed", "n", "d"),
        ("renamed", "n/a", "d/a"),
        ("renamed", "n/e", "d/e"),
        ("renamed", "n/e/b", "d/e/b"),
        ("renamed", "n/link", "d/link"),
    ]


def _same(
    told: dict[str, str], before: Tree, after: Tree, changes: list[dict[str, object]]
) -> None:
    """Compare what was told with what became of a workspace."""
    named = {str(change["path"]) for change in changes}
    named |= {str(change["source"]) for change in changes if "source" in change}
    differing = {
        path
        for path in before.keys() | after.keys()
        if _but_time(before.get(path)) != _but_time(after.get(path))
    }
    assert differing <= named
    for path, digest in told.items():
        content = after[path][3]
        data = content if isinstance(content, bytes) else str(content).encode()
        assert digest == hashlib.sha256(data).hexdigest()
    files = {path for path, row in after.items() if not stat.S_ISDIR(int(str(row[0])))}
    assert files & named <= told.keys() | {str(c["source"]) for c in changes if "source" in c}


def _but_time(row: tuple[object, ...] | None) -> tuple[object, ...] | None:
    return None if row is None else (*row[:4], *row[5:])
