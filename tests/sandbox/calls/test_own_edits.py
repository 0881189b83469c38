# SPDX-License-Identifier: Apache-2.0
"""What an agent's own tool replaces is kept before it runs, and can be put back afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy
from sandbox.audit.call_entry import CallEntry
from sandbox.calls.supervisor import Supervisor
from sandbox.calls.tickets import Tickets
from sandbox.cell.landing import land as landing
from sandbox.cell.landing import room
from sandbox.cell.landing.settle import locked
from sandbox.config.settings import Dirs, HookSettings, Settings
from sandbox.hooks.service import HookDoor
from sandbox.workspaces.registry import Registry

WAIT = 20.0
NOBODY = "nobody saw what its tool left"


class Session:
    """An agent whose hooks speak to a supervisor without cells; what it edits, it edits here."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.place = root / "home" / "work"
        self.place.mkdir(parents=True)
        self.dirs = Dirs.under(root / "l").create()
        Registry(self.dirs, home=root / "home").add(str(self.place))
        self.settings = settings or Settings()
        self.uses = 0

    def hook(self, event: str, tool: str, params: Mapping[str, Any], use: str) -> Any:
        """Return what the hook answers; a supervisor of its own hears it."""
        said = {
            "session_id": "s",
            "cwd": str(self.place),
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": params,
            "tool_use_id": use,
        }

        async def work() -> Any:
            supervisor = Supervisor(self.dirs, policy=Policy.default(), settings=self.settings)
            async with asyncio.timeout(WAIT), supervisor:
                hooks = HookSettings(wait_seconds=0.2, unattended_seconds=0.1)
                door = HookDoor(self.dirs, supervisor, Tickets(), hooks)
                return await door.answer("claude-code", json.dumps(said), peer=0, environment={})

        out = json.loads(asyncio.run(work()).stdout or "{}")
        return out.get("hookSpecificOutput", {})

    def before(self, path: str, content: str = "", tool: str = "Write", **more: Any) -> str:
        """Let the hook admit a tool; return the id of its use."""
        self.uses += 1
        use = f"t{self.uses}"
        params = {"file_path": path, **({"content": content} if tool == "Write" else {}), **more}
        answer = self.hook("PreToolUse", tool, params, use)
        assert answer["permissionDecision"] == "allow", answer
        return use

    def after(self, use: str, path: str, tool: str = "Write") -> None:
        """Say that a tool is done."""
        self.hook("PostToolUse", tool, {"file_path": path}, use)

    def write(self, path: str, content: str) -> None:
        """Use the tool Write, as an agent does: hook, edit in place, hook."""
        use = self.before(path, content)
        target = self.place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        self.after(use, path)

    def calls(self) -> list[CallEntry]:
        """Return the calls of the record, newest first."""
        return Supervisor(self.dirs, settings=self.settings)._record.store.calls(limit=50)

    def undo(self, call: str) -> list[str]:
        """Undo a call as a keeper does; return the paths in its way."""
        done = landing.undo(str(self.place), call, f"{call}-back")
        return list(done.conflicts)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield Session(tmp_path)


def tree(place: Path) -> dict[str, tuple[int, int, str]]:
    """Return all that a workspace holds, but for Lockgate's own."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        status = path.lstat()
        if name.startswith(".lockgate"):
            continue
        held = ""
        if path.is_symlink():
            held = str(path.readlink())
        elif path.is_file():
            held = path.read_text()
        times = 0 if path.is_dir() else status.st_mtime_ns
        found[name] = (stat.S_IMODE(status.st_mode), times, held)
    return found


def test_what_a_tool_wrote_over_comes_back_with_its_mode_and_time(session: Session) -> None:
    file = session.place / "run.sh"
    file.write_text("old\n")
    file.chmod(0o751)
    os.utime(file, ns=(10**18, 10**18))
    before = tree(session.place)
    session.write("run.sh", "new\n")
    call = session.calls()[0]
    assert (call.ending, call.landed) == ("outside", True)
    assert [(one["path"], one["kind"]) for one in call.changes or ()] == [("run.sh", "modified")]
    assert session.undo(call.id) == []
    assert tree(session.place) == before


def test_a_new_file_goes_with_the_folders_that_were_made_for_it(session: Session) -> None:
    (session.place / "src").mkdir()
    before = tree(session.place)
    session.write("src/a/b/new.py", "x = 1\n")
    call = session.calls()[0]
    assert [(one["path"], one["kind"]) for one in call.changes or ()] == [
        ("src/a/b/new.py", "created")
    ]
    assert session.undo(call.id) == []
    assert tree(session.place) == before


def test_an_undo_is_itself_undone(session: Session) -> None:
    (session.place / "a").write_text("old")
    session.write("a", "new")
    call = session.calls()[0].id
    assert session.undo(call) == []
    assert (session.place / "a").read_text() == "old"
    landing.undo(str(session.place), f"{call}-back", "again")
    assert (session.place / "a").read_text() == "new"


@pytest.mark.parametrize("replaced", [False, True])
def test_edits_of_one_file_are_taken_back_one_after_the_other(
    session: Session, *, replaced: bool
) -> None:
    (session.place / "a").write_text("0")
    before = tree(session.place)
    for number in "123":
        use = session.before("a", number)
        if replaced:  # as an agent that writes beside and renames
            (session.place / "draft").write_text(number)
            (session.place / "draft").rename(session.place / "a")
        else:
            (session.place / "a").write_text(number)
        session.after(use, "a")
    calls = [one.id for one in session.calls()]
    assert session.undo(calls[1]) == ["a"]
    assert (session.place / "a").read_text() == "3"
    assert [session.undo(call) for call in calls] == [[], [], []]
    assert tree(session.place) == before


def test_what_a_person_changed_since_stays(session: Session) -> None:
    (session.place / "a").write_text("old")
    session.write("a", "new")
    (session.place / "a").write_text("mine")
    assert session.undo(session.calls()[0].id) == ["a"]
    assert (session.place / "a").read_text() == "mine"


def test_what_came_into_a_new_folder_since_stays(session: Session) -> None:
    session.write("made/a", "new")
    (session.place / "made" / "mine").write_text("mine")
    assert session.undo(session.calls()[0].id) == ["made/mine"]
    (session.place / "made" / "mine").unlink()
    assert session.undo(session.calls()[0].id) == []
    assert not (session.place / "made").exists()


def test_two_edits_into_one_new_folder_at_once(session: Session) -> None:
    before = tree(session.place)
    uses = {path: session.before(path, path) for path in ("made/a", "made/b")}
    (session.place / "made").mkdir()
    for path in uses:
        (session.place / path).write_text(path)
    session.after(uses["made/a"], "made/a")
    session.after(uses["made/b"], "made/b")
    assert [session.undo(one.id) for one in session.calls()] == [[], []]
    assert tree(session.place) == before


@pytest.mark.parametrize("first", ["one", "two"])
def test_two_edits_of_one_file_at_once(session: Session, first: str) -> None:
    (session.place / "a").write_text("0")
    before = tree(session.place)
    uses = {"one": session.before("a", "1"), "two": session.before("a", "2")}
    for name in ("one", "two") if first == "one" else ("two", "one"):
        (session.place / "a").write_text(name)
    session.after(uses["one"], "a")
    session.after(uses["two"], "a")
    landed = [one.id for one in session.calls() if one.landed]
    assert [session.undo(call) for call in landed] == [[]] * len(landed)
    assert tree(session.place) == before


def test_a_tool_that_changed_nothing_leaves_nothing_to_undo(session: Session) -> None:
    (session.place / "a").write_text("same")
    use = session.before("a", "new")
    session.hook("PostToolUseFailure", "Write", {"file_path": "a"}, use)
    assert session.calls()[0].landed is False
    assert list((session.place / ".lockgate" / "edits").glob("c*")) == []


def test_the_diff_is_kept_with_its_secrets_masked(session: Session) -> None:
    token = "ghp_" + "a1B2" * 9
    (session.place / "a.py").write_text("x = 1\n")
    session.write("a.py", f'token = "{token}"\n')
    diff = Supervisor(session.dirs)._record.store.diff(session.calls()[0].id)
    assert "-x = 1" in diff
    assert "+token" in diff
    assert token not in diff


def test_a_tool_that_names_one_file_and_writes_another(session: Session) -> None:
    (session.place / "named").write_text("named")
    (session.place / "other").write_text("other")
    use = session.before("named", "x")
    (session.place / "other").write_text("changed")
    session.after(use, "named")
    assert session.calls()[0].landed is False
    assert (session.place / "other").read_text() == "changed"


def test_a_link_that_comes_into_a_files_place_is_not_followed(
    session: Session, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    (session.place / "a").write_text("old")
    use = session.before("a", "new")
    (session.place / "a").unlink()
    (session.place / "a").symlink_to(outside)
    session.after(use, "a")
    assert session.undo(session.calls()[0].id) == []
    assert (session.place / "a").read_text() == "old"
    assert not (session.place / "a").is_symlink()
    assert outside.read_text() == "theirs"


def test_a_folder_that_becomes_a_link_is_not_followed(session: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("theirs")
    (session.place / "in").mkdir()
    (session.place / "in" / "a").write_text("old")
    session.write("in/a", "new")
    (session.place / "in").rename(session.place / "moved")
    (session.place / "in").symlink_to(outside)
    assert session.undo(session.calls()[0].id) == ["in/a"]
    assert (outside / "a").read_text() == "theirs"


def test_a_link_within_the_workspace_is_edited_where_it_leads(session: Session) -> None:
    (session.place / "real").write_text("old")
    (session.place / "link").symlink_to("real")
    before = tree(session.place)
    session.write("link", "new")
    assert [one["path"] for one in session.calls()[0].changes or ()] == ["real"]
    assert session.undo(session.calls()[0].id) == []
    assert tree(session.place) == before


@pytest.mark.parametrize("kind", ["fifo", "huge"])
def test_what_cannot_be_kept_is_asked_about(session: Session, kind: str) -> None:
    path = session.place / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(33 << 20)
    answer = session.hook("PreToolUse", "Write", {"file_path": "odd", "content": "x"}, "t")
    assert answer["permissionDecision"] == "deny"  # nobody answers the question
    assert "no-before-image" in answer["permissionDecisionReason"]
    assert session.calls()[0].verdict == "ask"


@pytest.mark.parametrize("other", ["in/hook", "../store.js"])
def test_a_file_with_further_names_is_asked_about(session: Session, other: str) -> None:
    path = session.place / "a.sh"
    path.write_text("old")
    write = ("PreToolUse", "Write", {"file_path": "a.sh", "content": "new"})
    assert session.hook(*write, "t1")["permissionDecision"] == "allow"
    (session.place / "in").mkdir()
    (session.place / other).hardlink_to(path)
    answer = session.hook(*write, "t2")
    assert answer["permissionDecision"] == "deny"  # nobody answers the question
    assert "several-names" in answer["permissionDecisionReason"]


def test_a_store_that_cannot_be_written_lets_no_tool_through(session: Session) -> None:
    (session.place / ".lockgate").write_text("in the way")
    answer = session.hook("PreToolUse", "Write", {"file_path": "a", "content": "x"}, "t")
    assert answer["permissionDecision"] == "deny"
    assert "no before-image could be kept" in answer["permissionDecisionReason"]
    (session.place / ".lockgate").unlink()
    session.write("a", "x")


def test_an_edit_of_which_nobody_heard_again_is_known_by_what_it_was_to_leave(
    session: Session,
) -> None:
    (session.place / "a").write_text("old")
    session.before("a", "new")
    (session.place / "a").write_text("new")

    async def settle() -> None:
        async with Supervisor(session.dirs, settings=session.settings) as supervisor:
            await supervisor._flow.edits.settle()

    asyncio.run(settle())
    call = session.calls()[0]
    assert call.landed is True
    assert session.undo(call.id) == []
    assert (session.place / "a").read_text() == "old"


def test_an_edit_that_left_something_else_unheard_is_not_undone(session: Session) -> None:
    (session.place / "a").write_text("old")
    session.before("a", "new")
    (session.place / "a").write_text("mine")

    async def why() -> str:
        async with Supervisor(session.dirs, settings=session.settings) as supervisor:
            await supervisor._flow.edits.settle()
            return await supervisor._flow.edits.why_open(session.calls()[0].id)

    said = asyncio.run(why())
    assert NOBODY in said
    assert Path(said.rpartition("lies in `")[2][:-1], "o0").read_text() == "old"


def test_a_draft_that_a_killed_supervisor_left_is_in_nobodys_way(session: Session) -> None:
    (session.place / "a").write_text("old")
    session.write("a", "new")
    edits = session.place / ".lockgate" / "edits"
    (edits / "cdead.new").mkdir()
    (edits / "cdead.new" / "o0").write_text("half")
    (edits / "cbad.done").mkdir()
    (edits / "cbad.done" / "note").write_text('{"v": 1, "files": [["../../x", null]]}')
    session.write("a", "newer")
    assert not (edits / "cdead.new").exists()
    assert [session.undo(one.id) for one in session.calls()] == [[], []]
    assert (session.place / "a").read_text() == "old"


def test_what_agents_wrote_themselves_drives_nothing_out_that_a_person_had(
    session: Session,
) -> None:
    (session.place / "a").write_text("a person's")
    session.write("a", "x" * 4000)
    first = session.calls()[0].id
    for _ in range(4):
        session.write("a", os.urandom(2000).hex())
    root = str(session.place)
    with locked(root) as vault:
        assert room.clear(vault, 1000, 17_000, "main").last
        assert first in [name for name, _ in vault.kept()]
        assert room.clear(vault, 1000, 1 << 20, "main").last == []


def test_edits_of_tools_that_run_still_take_up_room(session: Session) -> None:
    (session.place / "a").write_text("x" * 8_000)
    session.before("a", "new")
    with locked(str(session.place)) as vault:
        assert room.clear(vault, 1_000, 8_500, "main").last
        assert room.clear(vault, 1_000, 9_500, "main").last == []


def test_an_edit_that_never_came_back_makes_room_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, Settings(undo_mib=1))
    for name in "ab":
        (session.place / name).write_text("x" * 700_000)
    session.before("a", "new")
    (session.place / "a").write_text("another")
    first = session.calls()[0].id
    answer = session.hook("PreToolUse", "Write", {"file_path": "b", "content": "y"}, "t9")
    assert "take up all" in str(answer) or "no before-image" in str(answer)
    monkeypatch.setattr("sandbox.host.before_images.AGED_SECONDS", -1)
    session.write("b", "y")
    assert not (session.place / ".lockgate" / "edits" / first).exists()
    assert session.calls()[0].landed is True


def test_a_file_that_a_tool_takes_away_comes_back(session: Session) -> None:
    (session.place / "a").write_text("old")
    before = tree(session.place)
    use = session.before("a", "x")
    (session.place / "a").unlink()
    session.after(use, "a")
    assert [one["kind"] for one in session.calls()[0].changes or ()] == ["deleted"]
    assert session.undo(session.calls()[0].id) == []
    assert tree(session.place) == before


def test_an_agent_that_asks_twice_for_one_use_leaves_nothing_open(session: Session) -> None:
    (session.place / "a").write_text("old")
    params = {"file_path": "a", "content": "new"}
    for event in ("PreToolUse", "PermissionRequest"):
        session.hook(event, "Write", params, "t")
    (session.place / "a").write_text("new")
    session.after("t", "a")
    assert list((session.place / ".lockgate" / "edits").glob("c*[!e]")) == []
    (landed,) = [one.id for one in session.calls() if one.landed]
    assert session.undo(landed) == []
    assert (session.place / "a").read_text() == "old"


def test_a_workspace_that_is_gone_is_in_nobodys_way(session: Session) -> None:
    other = session.place.parent / "other"
    other.mkdir()
    Registry(session.dirs, home=session.place.parent).add(str(other))
    other.rmdir()
    session.write("a", "x")
    assert session.calls()[0].landed is True
