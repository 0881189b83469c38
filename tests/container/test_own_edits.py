# SPDX-License-Identifier: Apache-2.0
"""What agents' own tools edit on the host, undone by the keeper as what landed is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.calls.tickets import Tickets
from sandbox.config.settings import HookSettings, Settings
from sandbox.errors import BadInput
from sandbox.hooks.service import HookDoor
from sandbox.operations.requests import UndoRequest
from tests.container.conftest import MakeLab
from tests.container.lab import Lab, give, snapshot

WAIT_SECONDS = 60.0


class Editor:
    """An agent whose own tools are judged by a lab's supervisor."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        settings = HookSettings(wait_seconds=0.2, unattended_seconds=0.1)
        self._door = HookDoor(lab.dirs, lab.supervisor, Tickets(), settings)
        self._uses = 0

    def hook(self, event: str, path: str, content: str) -> dict[str, Any]:
        """Return what the hook answers."""
        said = {
            "session_id": "s",
            "cwd": str(self.lab.ws),
            "hook_event_name": event,
            "tool_name": "Write",
            "tool_input": {"file_path": path, "content": content},
            "tool_use_id": f"t{self._uses}",
        }

        async def work() -> str:
            async with asyncio.timeout(WAIT_SECONDS):
                door = self._door
                answer = await door.answer("claude-code", json.dumps(said), peer=0, environment={})
                return answer.stdout

        found = json.loads(self.lab.run(work()) or "{}")
        return dict(found.get("hookSpecificOutput", {}))

    def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a file as an agent does, where its hook says so; return the answer."""
        self._uses += 1
        answer = self.hook("PreToolUse", path, content)
        if answer["permissionDecision"] == "allow":
            target = self.lab.ws / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            give(self.lab.ws, self.lab.ws.stat().st_uid)  # as a person whose files they are
            self.hook("PostToolUse", path, content)
        return answer

    def sh(self, command: str) -> None:
        """Run a command that lands, by a person's word where it takes files away."""
        done = self.lab.sh(command)
        if done.judgement == "hold":
            done = self.lab.run(self.lab.supervisor.land(done.id))
        assert done.landed, done.message + done.stderr

    def landed(self) -> list[str]:
        """Return the calls whose changes stand, newest first."""
        self.lab.run(self.lab.supervisor._record.flush())
        return [one.id for one in self.lab.supervisor._record.store.landed(50)]


def _registered(lab: Lab) -> Lab:
    from sandbox.workspaces.registry import Registry

    Registry(lab.dirs, home=lab.ws.parent).add(str(lab.ws), approved=True)
    return lab


@pytest.fixture
def editor(lab: Lab) -> Editor:
    return Editor(_registered(lab))


def test_any_mix_of_calls_and_own_edits_is_taken_back_byte_for_byte(editor: Editor) -> None:
    lab = editor.lab
    (lab.ws / "a.txt").write_text("0\n")
    (lab.ws / "b.txt").write_text("b\n")
    before = snapshot(lab.ws)
    editor.sh("echo 1 >> a.txt")
    editor.write("a.txt", "0\n1\n2\n")
    editor.sh("sed -i s/2/3/ a.txt && mkdir deep && echo x > deep/x")
    editor.write("deep/x", "y")
    editor.write("new/folder/c.txt", "c")
    editor.sh("mv new/folder/c.txt moved.txt && echo more >> moved.txt && mv b.txt kept.txt")
    editor.write("moved.txt", "mine")
    editor.write("b.txt", "again")
    editor.sh("cat a.txt >> b.txt")
    calls = editor.landed()
    assert len(calls) == 9
    for call in calls:
        lab.run(lab.supervisor.undo(call))
    assert snapshot(lab.ws) == before


def test_an_undo_shows_itself_first_and_is_undone(editor: Editor) -> None:
    lab = editor.lab
    (lab.ws / "a.txt").write_text("old\n")
    editor.write("a.txt", "new\n")
    (call,) = editor.landed()
    look = lab.run(lab.supervisor.undo(call, dry_run=True))
    assert "-new\n+old\n" in look.diff
    assert lab.text("a.txt") == "new\n"
    (lab.ws / "a.txt").touch()  # no change that could be lost
    done = lab.run(lab.supervisor.undo(call))
    assert lab.text("a.txt") == "old\n"
    lab.run(lab.supervisor.undo(done.id))
    assert lab.text("a.txt") == "new\n"


def test_an_agent_undoes_its_own_edit_but_nothing_that_counts(editor: Editor) -> None:
    lab = editor.lab
    (lab.ws / "a.txt").write_text("old\n")
    editor.write("a.txt", "new\n")
    (call,) = editor.landed()
    with pytest.raises(BadInput, match="not agent `other`'s"):
        lab.run(lab.supervisor.request(UndoRequest(call), by="other"))
    lab.run(lab.supervisor.request(UndoRequest(call), by="main"))
    assert lab.text("a.txt") == "old\n"


def test_what_a_call_changed_since_is_not_lost(editor: Editor) -> None:
    lab = editor.lab
    (lab.ws / "a.txt").write_text("old\n")
    editor.write("a.txt", "new\n")
    editor.sh("echo call >> a.txt")
    newer, call = editor.landed()
    with pytest.raises(BadInput, match=r"without losing later changes of `a\.txt`"):
        lab.run(lab.supervisor.undo(call))
    assert lab.text("a.txt") == "new\ncall\n"
    lab.run(lab.supervisor.undo(newer))
    lab.run(lab.supervisor.undo(call))
    assert lab.text("a.txt") == "old\n"


def test_a_full_store_makes_room_of_what_may_go_or_lets_no_tool_through(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    editor = Editor(_registered(make_lab(settings=Settings(undo_mib=1))))
    lab = editor.lab
    editor.sh("head -c 700000 /dev/zero > big && head -c 700000 /dev/zero > other")
    editor.sh("echo a >> big")
    (lab.ws / "small").write_text("x" * 600_000)
    assert editor.write("small", "y")["permissionDecision"] == "allow"  # the agent's own goes
    (lab.ws / "second").write_text("x" * 600_000)
    answer = editor.write("second", "y")
    assert answer["permissionDecision"] == "deny"
    assert "undo_mib" in answer["permissionDecisionReason"]
    assert lab.text("second") == "x" * 600_000
