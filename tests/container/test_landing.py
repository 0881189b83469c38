# SPDX-License-Identifier: Apache-2.0
"""P2: the real workspace changes only by a landing that gate 2 let through."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from sandbox.errors import BadInput, Stopped
from sandbox.results import Ending
from tests.container.conftest import MakeLab
from tests.container.lab import ME, OWNERS, READ, Lab, ended, eventually, snapshot


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


CHANGES = (
    "echo new > new.txt; echo more >> README.md; mkdir -p a/b; mv src source; chmod 700 tool.sh;"
    "ln -s README.md link; touch -d 2001-01-01 .gitignore"
)
"""Writes, renames, modes, links and times; none of it deletes anything that is not moved."""


@pytest.mark.parametrize("owner", OWNERS)
def test_a_reading_call_changes_nothing(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.read(CHANGES)
    assert done.stderr.count("Read-only file system") >= 6
    assert (done.judgement, done.landed, done.changes) == (None, False, ())
    assert snapshot(lab.ws) == before


@pytest.mark.skipif(ME != 0, reason="only root gives a folder to a group that it is not in")
@pytest.mark.parametrize("owner", OWNERS)
def test_a_folder_of_another_group_passes_that_on(lab: Lab) -> None:
    shared = lab.ws / "shared"
    shared.mkdir()
    os.chown(shared, -1, 2000)
    shared.chmod(0o2777)
    assert lab.sh("mkdir shared/new; echo x > shared/new/file").landed
    found = [(shared / name).stat() for name in ("new", "new/file")]
    assert [one.st_gid for one in found] == [2000, 2000]
    assert [bool(one.st_mode & stat.S_ISGID) for one in found] == [True, False]


@pytest.mark.parametrize("owner", OWNERS)
def test_nothing_changes_while_a_writing_call_runs(lab: Lab) -> None:
    before = snapshot(lab.ws)
    seen: list[bool] = []

    def look(_stream: str, data: bytes) -> None:
        if b"ready" in data:
            seen.append(snapshot(lab.ws) == before)

    done = lab.sh(
        f"{CHANGES}; cat new.txt; grep -o -m1 volatile /proc/self/mounts; sync; echo ready; read x",
        stdin=b"\n",
        on_output=look,
        derived_from="deletes",
    )
    assert (done.stdout, seen) == ("new\nvolatile\nready\n", [True])
    assert done.landed
    assert lab.text("new.txt") == "new\n"
    assert snapshot(lab.ws) != before


ENDS = {
    "it is ended by its time limit": ("sleep 260", {"timeout": 2000}, Ending.TIMED_OUT),
    "it kills its whole session": ("kill -9 0", {}, Ending.RAN),
    "it fails": ("exit 3", {}, Ending.RAN),
}


def test_a_held_call_changes_nothing_and_can_be_landed(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(f"{CHANGES}; rm tool.sh")
    assert (done.judgement, done.landed) == ("hold", False)
    assert snapshot(lab.ws) == before
    landed = lab.run(lab.supervisor.land(done.id))
    assert landed.landed
    assert (lab.text("new.txt"), (lab.ws / "tool.sh").exists()) == ("new\n", False)
    with pytest.raises(BadInput, match="is not held"):
        lab.run(lab.supervisor.land(done.id))


def test_a_held_call_can_be_discarded(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(f"{CHANGES}; rm tool.sh")
    gone = lab.run(lab.supervisor.discard(done.id))
    assert (gone.judgement, gone.landed) == ("discard", False)
    assert snapshot(lab.ws) == before
    with pytest.raises(BadInput, match="is not held"):
        lab.run(lab.supervisor.land(done.id))


def test_a_held_call_outlives_its_cell(make_lab: MakeLab) -> None:
    lab = make_lab()
    done = lab.sh("rm tool.sh; echo kept > kept.txt")
    lab.run(lab.supervisor._live.pool.end_all())  # type: ignore[union-attr]
    assert lab.run(lab.supervisor.land(done.id)).landed
    assert (lab.text("kept.txt"), (lab.ws / "tool.sh").exists()) == ("kept\n", False)


def test_a_held_call_does_not_land_over_a_later_change(lab: Lab) -> None:
    done = lab.sh("rm tool.sh; echo mine > README.md")
    (lab.ws / "README.md").write_text("theirs\n")
    with pytest.raises(BadInput, match=r"changed meanwhile: `README\.md`"):
        lab.run(lab.supervisor.land(done.id))
    assert lab.text("README.md") == "theirs\n"
    assert (lab.ws / "tool.sh").exists()


def test_a_discarded_call_changes_nothing(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(f"{CHANGES}; echo x > .devkit-waiver.yml", derived_from="deletes")
    # who sees the protected file first decides whether the command is ended or ends by itself
    assert done.exit_status in (0, 128 + signal.SIGKILL)
    assert (done.judgement, done.landed) == ("discard", False)
    assert snapshot(lab.ws) == before


@pytest.mark.parametrize("owner", OWNERS)
def test_a_cancelled_call_changes_nothing_and_leaves_no_process(lab: Lab) -> None:
    before = snapshot(lab.ws)
    heard = asyncio.Event()

    async def cancelled() -> None:
        call = asyncio.ensure_future(
            lab.call(
                f"{CHANGES}; setsid sleep 261.5 & echo started; sleep 261.5",
                on_output=lambda *_: heard.set(),
            )
        )
        await heard.wait()
        call.cancel()
        assert isinstance(await ended(call), asyncio.CancelledError)

    lab.run(cancelled())
    assert not any("261.5" in one for one in lab.processes())
    assert snapshot(lab.ws) == before
    assert lab.sh("echo again > again.txt").landed  # the cell goes on


def test_a_stop_in_the_middle_lands_nothing(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = snapshot(lab.ws)
    heard = asyncio.Event()

    async def stopped() -> BaseException:
        call = asyncio.ensure_future(
            lab.call(f"{CHANGES}; echo started; sleep 260", on_output=lambda *_: heard.set())
        )
        await heard.wait()
        report = await lab.supervisor.stop("a test")
        assert (len(report.killed), report.left) == (1, ())
        return await ended(call)

    error = lab.run(stopped())
    assert isinstance(error, Stopped)
    assert "nothing landed" in str(error.__cause__)
    assert snapshot(lab.ws) == before
    assert lab.containers() == []
    with pytest.raises(Stopped, match=r"stopped at .*: a test"):
        lab.sh("true")


def test_a_persons_edit_during_the_call_is_a_conflict_and_nothing_is_lost(lab: Lab) -> None:
    def edit(_stream: str, _data: bytes) -> None:
        (lab.ws / "README.md").write_text("a person's words\n")

    done = lab.sh(
        "echo the call > README.md; echo new > new.txt; echo ready; read x",
        stdin=b"\n",
        on_output=edit,
    )
    assert (done.judgement, done.landed) == ("hold", False)
    assert [(c.path, c.outcome) for c in done.changes if c.outcome] == [("README.md", "hold")]
    assert lab.text("README.md") == "a person's words\n"
    assert not (lab.ws / "new.txt").exists()
    with pytest.raises(BadInput, match="changed meanwhile"):
        lab.run(lab.supervisor.land(done.id))


def test_an_edit_of_another_file_during_the_call_is_kept_and_the_call_lands(lab: Lab) -> None:
    def edit(_stream: str, _data: bytes) -> None:
        (lab.ws / "theirs.txt").write_text("theirs\n")
        (lab.ws / "tool.sh").write_text("theirs\n")

    done = lab.sh("echo mine > README.md; echo ready; read x", stdin=b"\n", on_output=edit)
    assert done.landed
    names = ("README.md", "theirs.txt", "tool.sh")
    assert [lab.text(name) for name in names] == ["mine\n", "theirs\n", "theirs\n"]


def test_a_file_that_a_person_made_meanwhile_is_not_overwritten(lab: Lab) -> None:
    def edit(_stream: str, _data: bytes) -> None:
        (lab.ws / "same.txt").write_text("theirs\n")

    done = lab.sh("echo mine > same.txt; echo ready; read x", stdin=b"\n", on_output=edit)
    assert (done.judgement, lab.text("same.txt")) == ("hold", "theirs\n")


def test_a_persons_edits_are_seen_by_the_next_call(lab: Lab) -> None:
    for text in ("one\n", "two\n", "three\n"):
        (lab.ws / "README.md").write_text(text)
        (lab.ws / "made.txt").write_text(text)
        assert lab.read("cat README.md made.txt").stdout == text * 2
        assert lab.sh("cat README.md made.txt").stdout == text * 2
    (lab.ws / "made.txt").unlink()
    assert lab.read("cat made.txt").exit_status == 1
    assert lab.sh("cat made.txt").exit_status == 1


def test_cells_of_two_agents_see_each_others_landings(make_lab: MakeLab) -> None:
    lab = make_lab()
    assert lab.sh("echo one > shared.txt", agent="one").landed
    assert lab.sh("cat shared.txt; echo two >> shared.txt", agent="two").stdout == "one\n"
    assert lab.read("cat shared.txt", agent="one").stdout == "one\ntwo\n"
    assert len(lab.containers("cell")) == 2


def test_two_agents_that_change_one_file_at_once_lose_nothing(make_lab: MakeLab) -> None:
    lab = make_lab()

    async def both() -> list[str]:
        ready = [asyncio.Event(), asyncio.Event()]

        async def gate(number: int):  # type: ignore[no-untyped-def]
            await asyncio.gather(*(event.wait() for event in ready))
            yield b"\n"

        calls = [
            lab.call(
                f"echo {number} > shared.txt; echo {number} > own{number}.txt; echo ready; read x",
                agent=f"agent{number}",
                stdin=gate(number),
                on_output=lambda *_, number=number: ready[number].set(),
            )
            for number in (0, 1)
        ]
        return sorted(str(one.judgement) for one in await asyncio.gather(*calls))

    assert lab.run(both()) == ["hold", "land"]
    won = lab.text("shared.txt").strip()
    assert [(lab.ws / f"own{n}.txt").exists() for n in (0, 1)] == [won == "0", won == "1"]


def test_two_agents_that_change_different_files_at_once_both_land(make_lab: MakeLab) -> None:
    lab = make_lab()

    async def both() -> list[bool]:
        calls = [lab.call(f"echo {n} > own{n}.txt; sleep 0.3", agent=f"agent{n}") for n in range(3)]
        return [one.landed for one in await asyncio.gather(*calls)]

    assert lab.run(both()) == [True] * 3
    assert [lab.text(f"own{n}.txt") for n in range(3)] == ["0\n", "1\n", "2\n"]


@pytest.mark.parametrize("owner", OWNERS)
def test_an_undo_restores_exactly_and_can_be_undone(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(
        f"{CHANGES}; rm -r source/deep; truncate -s 0 devkit; :> README.md", derived_from="deletes"
    )
    assert done.landed
    after = snapshot(lab.ws)
    undone = lab.run(lab.supervisor.undo(done.id))
    assert snapshot(lab.ws) == before
    with pytest.raises(BadInput, match="is undone already, by"):
        lab.run(lab.supervisor.undo(done.id))
    lab.run(lab.supervisor.undo(undone.id))
    assert snapshot(lab.ws) == after


def test_an_undo_that_would_lose_a_later_change_is_refused_with_the_names(lab: Lab) -> None:
    first = lab.sh("echo one > README.md; echo one > other.txt")
    assert lab.sh("echo two > README.md").landed
    before = snapshot(lab.ws)
    with pytest.raises(BadInput, match=r"without losing later changes of `README\.md`"):
        lab.run(lab.supervisor.undo(first.id))
    assert snapshot(lab.ws) == before


def test_a_touched_file_is_undone_and_an_edited_one_is_not(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh("echo one >> README.md; mkdir made; echo two > made/other.txt")
    left = lab.text("README.md")
    (lab.ws / "README.md").write_text(left + "mine\n")
    with pytest.raises(BadInput, match=r"without losing later changes of `README\.md`"):
        lab.run(lab.supervisor.undo(done.id))
    (lab.ws / "README.md").write_text(left)
    (lab.ws / "made" / "other.txt").touch()
    lab.run(lab.supervisor.undo(done.id))
    assert snapshot(lab.ws) == before


def test_only_what_landed_can_be_undone(lab: Lab) -> None:
    for done in (lab.read("true"), lab.sh("rm tool.sh"), lab.sh("true")):
        with pytest.raises(BadInput, match="has landed nothing"):
            lab.run(lab.supervisor.undo(done.id))
    with pytest.raises(BadInput, match="no call `nosuch`"):
        lab.run(lab.supervisor.undo("nosuch"))


@pytest.mark.parametrize(("command", "limits", "ending"), ENDS.values(), ids=ENDS)
def test_what_a_call_wrote_lands_however_it_ended(
    lab: Lab, command: str, limits: dict[str, Any], ending: Ending
) -> None:
    done = lab.sh(f"echo new > new.txt; {command}", **limits)
    assert (done.ending, done.landed, lab.text("new.txt")) == (ending, True, "new\n")


def test_the_before_images_are_hidden_and_ignored_by_git(lab: Lab) -> None:
    done = lab.sh("echo new > README.md")
    assert (lab.ws / ".lockgate" / "undo" / done.id).is_dir()
    assert ".lockgate" not in lab.sh("ls -A; git status --short").stdout
    assert ".lockgate" not in lab.git("status", "--short", "--ignored=no")
    assert lab.sh("cat .lockgate/undo/*/*").exit_status == 1
    made = lab.sh("mkdir .lockgate && echo x > .lockgate/x")
    assert (made.judgement, made.landed) == ("discard", False)


def test_a_link_out_of_the_workspace_is_held_and_one_inside_lands(lab: Lab, tmp_path: Path) -> None:
    for target in ("/etc/passwd", "../outside", "src/../../outside", str(tmp_path)):
        done = lab.sh(f"ln -sfn {target} out")
        assert (done.judgement, done.landed) == ("hold", False)
        assert not os.path.lexists(lab.ws / "out")
    done = lab.sh(f"ln -s README.md in1; ln -s ../README.md src/in2; ln -s {lab.ws}/tool.sh in3")
    assert done.landed
    assert [lab.text(n) for n in ("in1", "src/in2")] == [lab.text("README.md")] * 2


def test_sockets_and_fifos_are_left_out_of_what_lands(lab: Lab) -> None:
    bind = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"made/sock\")'"
    done = lab.sh(f"mkdir made; mkfifo made/pipe; {bind}; echo x > made/beside; mkfifo alone")
    assert (done.exit_status, done.judgement, done.landed) == (0, "land", True)
    assert "`made/pipe`" in done.message and "`made/sock`" in done.message
    assert lab.text("made/beside") == "x\n"
    assert [path.name for path in (lab.ws / "made").iterdir()] == ["beside"]
    assert not os.path.lexists(lab.ws / "alone")


def _last_change(heard: queue.Queue[FileSystemEvent], end: Path) -> str:
    """Make the file `end`, and return what was heard last of README.md before it."""
    end.touch()
    last = ""
    while (event := heard.get(timeout=60)).src_path != str(end):
        changes = event.event_type in ("created", "deleted", "modified", "moved")
        if changes and event.src_path == str(end.parent / "README.md"):
            last = event.event_type
    return last


def test_watchers_hear_last_that_a_changed_file_is_there(lab: Lab) -> None:
    heard: queue.Queue[FileSystemEvent] = queue.Queue()

    class Hearing(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            heard.put(event)

    observer = Observer()
    observer.schedule(Hearing(), str(lab.ws))
    observer.start()
    try:
        done = lab.sh("echo more >> README.md")
        assert _last_change(heard, lab.ws / "end-1") == "modified"
        lab.run(lab.supervisor.undo(done.id))
        assert _last_change(heard, lab.ws / "end-2") == "modified"
    finally:
        observer.stop()
        observer.join()


def test_a_fifo_in_place_of_a_file_is_held_as_its_deletion(lab: Lab) -> None:
    done = lab.sh("rm README.md; mkfifo README.md")
    assert (done.judgement, done.landed) == ("hold", False)
    assert lab.text("README.md")


def test_a_plain_deletion_is_held_unless_it_was_named_or_is_ignored(lab: Lab) -> None:
    (lab.ws / "build").mkdir()
    (lab.ws / "build" / "out.o").write_text("x")
    held = lab.sh("rm README.md")
    assert (held.judgement, (lab.ws / "README.md").exists()) == ("hold", True)
    assert lab.sh("rm -r build").landed
    assert not (lab.ws / "build").exists()
    assert lab.sh("rm README.md", derived_from="deletes").landed
    assert not (lab.ws / "README.md").exists()


def test_reading_calls_see_no_half_landed_change(make_lab: MakeLab) -> None:
    """A reading call that is open while another agent lands sees a whole file, old or new."""
    lab = make_lab()

    async def race() -> str:
        reader = asyncio.ensure_future(
            lab.call("for i in $(seq 400); do cat data; done | sort -u | wc -l", READ, agent="r")
        )
        await eventually(lambda: len(lab.containers("keeper")) == 1, "the reader's cell runs")
        await lab.call("head -c 100000 /dev/zero | tr '\\0' x > data", agent="w")
        return (await reader).stdout

    (lab.ws / "data").write_text("y" * 100_000)
    assert int(lab.run(race())) <= 2


def test_what_a_program_of_the_host_writes_to_is_not_replaced_under_it(lab: Lab) -> None:
    with (lab.ws / "README.md").open("a") as log:  # a server's log, say, which it keeps open
        done = lab.sh("echo of the agent >> README.md; echo more > new.txt")
        assert (done.landed, done.judgement) == (False, "hold")
        assert "README.md" in done.message
        log.write("of the server\n")
    assert lab.text("README.md").endswith("of the server\n")
    assert not (lab.ws / "new.txt").exists()
    done = lab.sh("echo of the agent >> README.md; echo more > new.txt")
    assert done.landed
    assert lab.text("README.md").endswith("of the server\nof the agent\n")
