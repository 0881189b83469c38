# SPDX-License-Identifier: Apache-2.0
"""A program that does as a coding agent: hooks, tools of its own, commands, MCP. Not a test.

Reads its steps as JSON from its arguments and makes them in order, in the folder that it is in:
    ["write", PATH, CONTENT]   with its own tool, between its hooks
    ["sh", COMMAND]            as its hook lets it
    ["mcp", TOOL, PARAMS]      over `lockgate mcp`
    ["lockgate", WORD...]      as a command of its own, printed as a line of JSON
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

WAIT_SECONDS = 120.0


class Agent:
    """The agent and its session."""

    def __init__(self, lockgate: str, session: str) -> None:
        self._lockgate = lockgate
        self._session = session
        self._uses = 0

    def hook(self, event: str, tool: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return what the hook answers."""
        said = {
            "session_id": self._session,
            "cwd": str(Path.cwd()),
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": params,
            "tool_use_id": f"t{self._uses}",
        }
        words = [self._lockgate, "hook", "claude-code"]
        done = subprocess.run(
            words, input=json.dumps(said), capture_output=True, text=True, check=True
        )
        return dict(json.loads(done.stdout or "{}").get("hookSpecificOutput", {}))

    def admitted(self, tool: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a tool that may be used."""
        self._uses += 1
        answer = self.hook("PreToolUse", tool, params)
        assert answer["permissionDecision"] == "allow", answer
        return answer

    def write(self, path: str, content: str) -> None:
        """Write a file."""
        params = {"file_path": path, "content": content}
        self.admitted("Write", params)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)
        self.hook("PostToolUse", "Write", params)

    def sh(self, command: str) -> None:
        """Run a command."""
        answer = self.admitted("Bash", {"command": command})
        words = ["/bin/sh", "-c", answer["updatedInput"]["command"]]
        subprocess.run(words, check=True)

    def mcp(self, tool: str, params: dict[str, Any]) -> None:
        """Use a tool of ours over MCP."""

        async def work() -> None:
            server = StdioServerParameters(
                command=self._lockgate, args=["mcp"], env=dict(os.environ)
            )
            async with asyncio.timeout(WAIT_SECONDS), Client(server) as client:
                answer = await client.call_tool(tool, params)
                assert not answer.is_error, answer

        asyncio.run(work())

    def lockgate(self, *words: str) -> None:
        """Run a command of ours, and say what came of it."""
        done = subprocess.run([self._lockgate, *words], capture_output=True, text=True, check=False)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)


def main() -> None:
    """Make the steps."""
    agent = Agent(sys.argv[1], sys.argv[2])
    for name, *rest in json.loads(sys.argv[3]):
        getattr(agent, name)(*rest)


if __name__ == "__main__":
    main()
