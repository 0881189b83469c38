# SPDX-License-Identifier: Apache-2.0
"""Each agent's own file tools are known: what they name is kept, and put back by an undo."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy
from sandbox.audit.call_entry import CallEntry
from sandbox.calls.supervisor import Supervisor
from sandbox.calls.tickets import Tickets
from sandbox.cell.landing import land as landing
from sandbox.config.settings import Dirs, HookSettings, Settings
from sandbox.hooks.service import HookDoor
from sandbox.workspaces.registry import Registry

WAIT = 20.0
PATCH = """\
*** Begin Patch
*** Update File: a.txt
@@
-old
+new
*** Add File: made/b.txt
+b
*** End Patch"""
NOTEBOOK = {"notebook_path": "a.txt", "new_source": "x", "cell_id": "1"}
TOOLS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "Claude's Edit": (
        "claude-code",
        "PreToolUse",
        "Edit",
        {"file_path": "a.txt", "old_string": "old", "new_string": "new"},
    ),
    "Claude's MultiEdit": (
        "claude-code",
        "PreToolUse",
        "MultiEdit",
        {"file_path": "a.txt", "edits": [{"old_string": "old", "new_string": "new"}]},
    ),
    "Claude's NotebookEdit": ("claude-code", "PreToolUse", "NotebookEdit", NOTEBOOK),
    "Codex' apply_patch": ("codex", "PreToolUse", "apply_patch", {"command": PATCH}),
    "Gemini's replace": (
        "gemini",
        "BeforeTool",
        "replace",
        {"file_path": "a.txt", "old_string": "old", "new_string": "new"},
    ),
    "Gemini's write_file": (
        "gemini",
        "BeforeTool",
        "write_file",
        {"file_path": "a.txt", "content": "new\n"},
    ),
}
AFTER = {"PreToolUse": "PostToolUse", "BeforeTool": "AfterTool"}


@pytest.mark.parametrize(("agent", "before", "tool", "params"), TOOLS.values(), ids=TOOLS)
def test_what_an_agents_tool_changed_is_put_back(
    tmp_path: Path, agent: str, before: str, tool: str, params: dict[str, Any]
) -> None:
    place = tmp_path / "home" / "work"
    place.mkdir(parents=True)
    (place / "a.txt").write_text("old\n")
    dirs = Dirs.under(tmp_path / "l").create()
    Registry(dirs, home=tmp_path / "home").add(str(place))
    settings = HookSettings(wait_seconds=0.2, unattended_seconds=0.1)

    async def hook(supervisor: Supervisor, event: str) -> Any:
        said = {
            "session_id": "s",
            "cwd": str(place),
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": params,
        }
        door = HookDoor(dirs, supervisor, Tickets(), settings)
        return await door.answer(agent, json.dumps(said), peer=0, environment={})

    async def work() -> CallEntry:
        made = Supervisor(dirs, policy=Policy.default(), settings=Settings())
        async with asyncio.timeout(WAIT), made as supervisor:
            answer = await hook(supervisor, before)
            assert answer.status == 0
            assert "deny" not in answer.stdout, answer
            (place / "a.txt").write_text("new\n")
            if tool == "apply_patch":
                (place / "made").mkdir()
                (place / "made" / "b.txt").write_text("b\n")
            await hook(supervisor, AFTER[before])
            await supervisor._record.flush()
            (call,) = supervisor._record.store.landed(10)
            return call

    call = asyncio.run(work())
    assert call.session == "s"
    assert landing.undo(str(place), call.id, "back").state == "undone"
    held = {str(one.relative_to(place)) for one in place.rglob("*") if ".lockgate" not in str(one)}
    assert held == {"a.txt"}
    assert (place / "a.txt").read_text() == "old\n"
