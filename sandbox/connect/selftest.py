# SPDX-License-Identifier: Apache-2.0
"""Try a connection as the agent would use it: read its configuration back, run what stands there.

Two canaries go through it. One is forbidden to every agent and must come back denied; the other is
harmless, must be allowed, and must really run in a cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.connect import json_edit as jsontext
from sandbox.connect.agents import BEFORE, SHELL_TOOL
from sandbox.connect.edits import GUARDED, SERVER, JsonFile, TomlFile, Wanted
from sandbox.connect.texts import entries_in
from sandbox.host.self_test import SELF_TEST
from sandbox.text.terminal import safe_line

FORBIDDEN = "lockgate approve lockgate-canary"
"""No agent may approve anything, whatever the policy; and it would approve nothing."""
HARMLESS = "echo lockgate-canary"
SAID = "lockgate-canary"
SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Found:
    """How one step came out."""

    ok: bool
    what: str
    """One line."""


@dataclass(frozen=True, slots=True)
class _Answer:
    allowed: bool | None
    reason: str
    command: str | None = None


def hooks(agent: str, wanted: Wanted, folder: Path) -> list[Found]:
    """Try an agent's hook in a folder; the first step that fails ends it."""
    try:
        command = _configured_hook(agent, wanted)
    except (OSError, ValueError) as error:
        return [Found(ok=False, what=f"its configuration cannot be read: {error}")]
    if command is None:
        return [Found(ok=False, what=f"no hook of Lockgate stands before `{SHELL_TOOL[agent]}`")]
    found = []
    denied = _ask(agent, command, FORBIDDEN, folder)
    if denied.allowed is not False:
        what = f"the forbidden canary was not denied: {denied.reason or 'the hook said nothing'}"
        return [Found(ok=False, what=what)]
    if not re.search(r"agent|approve", denied.reason):
        return [Found(ok=False, what=f"the hook does not work: {denied.reason}")]
    found.append(Found(ok=True, what="a forbidden command is denied"))
    allowed = _ask(agent, command, HARMLESS, folder)
    if allowed.allowed is not True or allowed.command is None:
        what = f"the harmless canary was not let through: {allowed.reason or 'no answer'}"
        return [*found, Found(ok=False, what=what)]
    done = _run(["/bin/sh", "-c", allowed.command], "", folder)
    if done is None or SAID not in done.stdout:
        why = _last(done.stderr) if done else "it took too long"
        return [*found, Found(ok=False, what=f"the harmless canary did not run: {why}")]
    return [*found, Found(ok=True, what="a harmless one runs in a cell")]


def mcp(wanted: Wanted, folder: Path) -> list[Found]:
    """Start the MCP server that an agent's configuration names, and call its `bash`."""
    try:
        server = _configured_server(wanted)
    except (OSError, ValueError) as error:
        return [Found(ok=False, what=f"its configuration cannot be read: {error}")]
    if server is None:
        return [Found(ok=False, what=f"no MCP server `{SERVER}` is configured")]
    try:
        return asyncio.run(_over_mcp(server, folder))
    except Exception as error:
        why = "it took too long" if isinstance(_inner(error), TimeoutError) else _why(error)
        return [Found(ok=False, what=f"the server does not work: {why}")]


def _why(error: BaseException) -> str:
    return _last(str(_inner(error)) or type(_inner(error)).__name__)


def _inner(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _over_mcp(server: tuple[str, list[str]], folder: Path) -> list[Found]:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    words = [
        one.replace("${workspaceFolder}", str(folder)) for one in server[1] if one != "--watch"
    ]
    parameters = StdioServerParameters(
        command=server[0], args=words, cwd=str(folder), env=dict(os.environ)
    )
    async with asyncio.timeout(SECONDS), Client(parameters) as client:
        denied = await client.call_tool("bash", {"command": FORBIDDEN})
        said = denied.structured_content or {}
        if said.get("verdict") != "deny" or not denied.is_error:
            return [Found(ok=False, what=f"the forbidden canary was not denied: {_words(denied)}")]
        found = [Found(ok=True, what="a forbidden command is denied")]
        ran = await client.call_tool("bash", {"command": HARMLESS})
        if ran.is_error or SAID not in _text(ran):
            what = f"the harmless canary did not run: {_words(ran)}"
            return [*found, Found(ok=False, what=what)]
        return [*found, Found(ok=True, what="a harmless one runs in a cell")]


def _text(result: Any) -> str:
    return " ".join(getattr(one, "text", "") for one in result.content)


def _words(result: Any) -> str:
    return _last(_text(result))


# -- reading the configuration back


def _said(path: Path) -> Any:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else jsontext.parse(text).value


def _configured_hook(agent: str, wanted: Wanted) -> list[str] | None:
    for file in wanted.files:
        if not isinstance(file, JsonFile) or not file.path.exists():
            continue
        for one in entries_in(agent, BEFORE[agent], _said(file.path)):
            if _matches(one.get("matcher"), SHELL_TOOL[agent]):
                command = str(one.get("command"))
                args = one.get("args")
                if isinstance(args, list):
                    return [command, *map(str, args)]
                return ["/bin/sh", "-c", command]
    return None


def _matches(matcher: object, tool: str) -> bool:
    if matcher in (None, "", "*"):
        return True
    try:
        return isinstance(matcher, str) and bool(re.fullmatch(matcher, tool))
    except re.error:
        return False


def _configured_server(wanted: Wanted) -> tuple[str, list[str]] | None:
    for file in wanted.files:
        if not isinstance(file, JsonFile | TomlFile) or not file.path.exists():
            continue
        said = _said(file.path)
        for key in ("mcpServers", "servers", "mcp_servers"):
            servers = said.get(key) if isinstance(said, Mapping) else None
            found = servers.get(SERVER) if isinstance(servers, Mapping) else None
            if isinstance(found, Mapping):
                return str(found.get("command")), [str(one) for one in found.get("args") or ()]
    return None


# -- asking the hook


def _ask(agent: str, command: list[str], text: str, folder: Path) -> _Answer:
    done = _run(command, json.dumps(_event(agent, text, folder)), folder)
    if done is None:
        return _Answer(None, "it took too long")
    if done.returncode == 2 and done.stderr.strip():
        cause = done.stderr.replace(GUARDED, "").strip()
        return _Answer(allowed=False, reason=_last(cause or GUARDED))
    if done.returncode != 0:
        return _Answer(None, f"status {done.returncode}: {_last(done.stderr)}")
    try:
        said = json.loads(done.stdout)
        return _READERS[agent](said if isinstance(said, dict) else {})
    except (ValueError, AttributeError):
        return _Answer(None, f"it answers what is no JSON: {_last(done.stdout)}")


def _run(words: list[str], stdin: str, folder: Path) -> subprocess.CompletedProcess[str] | None:
    # A supervisor that is started on the way keeps no pipe of this process.
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                words,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=folder,
                timeout=SECONDS,
                check=False,
            )
    except OSError as error:
        why = f"{error.strerror}: {words[0]}".lower()
        return subprocess.CompletedProcess(words, 127, "", why)
    return None


def _event(agent: str, text: str, folder: Path) -> dict[str, Any]:
    common = {"cwd": str(folder), "hook_event_name": BEFORE[agent], "tool_name": SHELL_TOOL[agent]}
    session = "conversation_id" if agent == "cursor" else "session_id"
    return {**common, session: SELF_TEST, "tool_input": {"command": text}}


def _claude(said: Mapping[str, Any]) -> _Answer:
    inner = said.get("hookSpecificOutput") or {}
    decision = inner.get("permissionDecision")
    reason = str(inner.get("permissionDecisionReason") or "")
    if decision == "deny" and reason:
        return _Answer(allowed=False, reason=reason)
    command = (inner.get("updatedInput") or {}).get("command")
    return _Answer(allowed=True if decision == "allow" else None, reason=reason, command=command)


def _gemini(said: Mapping[str, Any]) -> _Answer:
    decision, reason = said.get("decision"), str(said.get("reason") or "")
    command = ((said.get("hookSpecificOutput") or {}).get("tool_input") or {}).get("command")
    return _Answer({"allow": True, "deny": False}.get(str(decision)), reason, command)


def _cursor(said: Mapping[str, Any]) -> _Answer:
    reason = str(said.get("user_message") or "")
    allowed = {"allow": True, "deny": False}.get(str(said.get("permission")))
    return _Answer(allowed, reason, (said.get("updated_input") or {}).get("command"))


_READERS = {"claude-code": _claude, "codex": _claude, "gemini": _gemini, "cursor": _cursor}


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return safe_line(lines[-1].strip()[:300]) if lines else "nothing was said"
