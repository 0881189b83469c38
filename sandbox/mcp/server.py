# SPDX-License-Identifier: Apache-2.0
"""The tools of the MCP server. Each is a thin door to the supervisor or to `governance`.

Annotations are hints to clients; what a call may do, gate 1 decides anew each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError

from sandbox.errors import SandboxError
from sandbox.host.version import VERSION
from sandbox.mcp.answers import MOST_TEXT, as_result, shortened
from sandbox.mcp.elicitation import called
from sandbox.mcp.session import Door
from sandbox.results import Ending

INSTRUCTIONS = """\
Lockgate runs these tools in a sandbox without network, but for package indexes in a call that only
installs, and hosts that a person opened. Every call is decided first and judged after: what is
refused says why and what to do instead; do that, and do not try to get around it. Where a person
must approve, the answer names the command that they type; make the same call again afterwards.
Changes land in the workspace only when they passed the second gate; `landed` says so.
"""
Tools = Literal["work", "all"]
"""Which tools are served: those that work is done with, or also those that ask about trust."""
Answer = CallToolResult | InputRequiredResult
"""Without a schema: it would cost a model more than it tells."""
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
_NOTES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_Path = Annotated[str, Field(description="Path, absolute or relative to the workspace.")]


def build(door: Door, *, tools: Tools = "work", **options: Any) -> MCPServer:
    """Return the server with the tools that work is done with, or with all: also those that ask
    about permissions and workspaces."""
    server = MCPServer(
        "lockgate",
        title="Lockgate",
        version=VERSION,
        instructions=INSTRUCTIONS,
        log_level="ERROR",  # a refusal is an answer; clients show what is written to them
        **options,
    )
    _add_shell(server, door)
    _add_files(server, door)
    if tools == "all":
        _add_permissions(server, door)
        _add_workspaces(server, door)
    return server


def _clear(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Turn our errors into a tool's error: one line, no traceback."""

    @wraps(work)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await work(*args, **kwargs)
        except SandboxError as error:
            raise ToolError(str(error)) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ToolError(f"`{name}`: {first['msg']}" if name else first["msg"]) from None
        except ValueError as error:
            raise ToolError((str(error).splitlines() or ["the input is wrong"])[0]) from None

    return call


TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "LS")
"""The tools that make calls, by their names in policies; here they are written small."""


def _add_shell(server: MCPServer, door: Door) -> None:
    @server.tool(title="Run a command", annotations=_WRITES)
    @_clear
    async def bash(
        command: Annotated[str, Field(description="Shell text, run by bash in the workspace.")],
        context: Context,
        timeout: Annotated[
            float | None, Field(gt=0, description="Milliseconds; default 120000.")
        ] = None,
        cwd: Annotated[str | None, Field(description="Folder to start in.")] = None,
        description: Annotated[str, Field(description="Why, in a few words.")] = "",
    ) -> Answer:
        """Run a shell command in the sandboxed workspace and return its output. Its changes land
        in the real workspace if the second gate lets them."""
        params = {"command": command, "timeout": timeout}
        return await called(door, context, "Bash", params, cwd=cwd, intent=description)

    @server.tool(title="Start a background command", annotations=_WRITES)
    @_clear
    async def job_start(
        command: str, context: Context, cwd: str | None = None, description: str = ""
    ) -> Answer:
        """Start a command that goes on (a development server), in a sandbox of its own that shares
        the network of the first. `call` in the answer names it."""
        params = {"command": command, "run_in_background": True}
        result = await door.call("Bash", params, context, cwd=cwd, intent=description)
        if result.ending is Ending.RUNNING:
            door.jobs.add(result.id)
        return as_result(result)

    @server.tool(title="Read a background command's output", annotations=_READS)
    @_clear
    async def job_output(call: str) -> dict[str, Any]:
        """Return what a background command has written so far, and whether it still runs."""
        said = await door.job_output(call)
        for name in ("stdout", "stderr"):
            if isinstance(said.get(name), str):
                said[name] = shortened(said[name], MOST_TEXT // 2, call)
        return {key: one for key, one in said.items() if one is not None}

    @server.tool(title="End a background command", annotations=_WRITES)
    @_clear
    async def job_stop(call: str) -> Answer:
        """End a background command; what it changed is judged and lands."""
        return as_result(await door.end_job(call), ended=True)


def _add_files(server: MCPServer, door: Door) -> None:
    @server.tool(title="Read a file", annotations=_READS)
    @_clear
    async def read(
        file_path: _Path,
        context: Context,
        offset: Annotated[int | None, Field(ge=0, description="First line, from 1.")] = None,
        limit: Annotated[int | None, Field(ge=0, description="How many lines.")] = None,
    ) -> Answer:
        """Read a text file, with line numbers."""
        params = {"file_path": file_path, "offset": offset, "limit": limit}
        return await called(door, context, "Read", params)

    @server.tool(title="Write a file", annotations=_WRITES)
    @_clear
    async def write(file_path: _Path, content: str, context: Context) -> Answer:
        """Write a whole file; folders on the way are made."""
        params = {"file_path": file_path, "content": content}
        return await called(door, context, "Write", params)

    @server.tool(title="Edit a file", annotations=_WRITES)
    @_clear
    async def edit(
        file_path: _Path,
        old_string: str,
        new_string: str,
        context: Context,
        replace_all: bool = False,
    ) -> Answer:
        """Replace a text in a file that stands there exactly once, or everywhere."""
        params = {
            "file_path": file_path,
            "old_string": old_string,
            "new_string": new_string,
            "replace_all": replace_all,
        }
        return await called(door, context, "Edit", params)

    @server.tool(title="Find files", annotations=_READS)
    @_clear
    async def glob(
        pattern: Annotated[str, Field(description="Such as `src/**/*.py`.")],
        context: Context,
        path: Annotated[str | None, Field(description="Folder to look in.")] = None,
    ) -> Answer:
        """Find files by name."""
        return await called(door, context, "Glob", {"pattern": pattern, "path": path})

    @server.tool(title="Search files", annotations=_READS)
    @_clear
    async def grep(
        pattern: Annotated[str, Field(description="A regular expression.")],
        context: Context,
        path: str | None = None,
        glob: Annotated[str | None, Field(description="Only files with such names.")] = None,
        output_mode: Literal["content", "files_with_matches", "count"] | None = None,
        ignore_case: bool = False,
        head_limit: Annotated[int | None, Field(ge=0)] = None,
    ) -> Answer:
        """Search the contents of files."""
        params = {
            "pattern": pattern,
            "path": path,
            "glob": glob,
            "output_mode": output_mode,
            "-i": ignore_case,
            "head_limit": head_limit,
        }
        return await called(door, context, "Grep", params)

    @server.tool(title="List a folder", annotations=_READS)
    @_clear
    async def ls(context: Context, path: _Path = ".") -> Answer:
        """List a folder."""
        return await called(door, context, "LS", {"path": path})


def _add_permissions(server: MCPServer, door: Door) -> None:
    govern, itself = door.governance, door.itself

    @server.tool(title="Check a permission", annotations=_READS)
    @_clear
    async def check_permission(
        action: str, context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Say whether an action is allowed at your level of trust, before you try it. Context:
        is_destructive, affects_production, is_reversible; `command` where it is a command."""
        return await govern.permissions.check_permission(await itself(), action, context)

    @server.tool(title="Check a tool call", annotations=_READS)
    @_clear
    async def can_execute(tool_name: str, args_hint: str = "") -> dict[str, Any]:
        """Say what a tool call needs before it may run: can_execute, action_needed, reason."""
        return await govern.permissions.can_execute(await itself(), tool_name, args_hint)

    @server.tool(title="Classify an action", annotations=_READS)
    @_clear
    async def classify_action(action: str, context: dict[str, Any] | None = None) -> dict[str, Any]:
        """Say an action's domain, risk and required level of autonomy, with the reason."""
        return govern.permissions.classify_action(await itself(), action, context)

    @server.tool(title="Read your reputation", annotations=_READS)
    @_clear
    async def get_reputation(domain: str) -> dict[str, Any]:
        """Return your reputation: code_changes, incident_rca, decisions or deployments."""
        return govern.standing.get_reputation(await itself(), domain)

    @server.tool(title="Record an outcome", annotations=_NOTES)
    @_clear
    async def record_outcome(
        action: str, success: bool, confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    ) -> dict[str, Any]:
        """Say how an action of yours turned out. Your own word never raises your level."""
        return govern.standing.record_outcome(
            await itself(), action, success=success, confidence=confidence
        )

    @server.tool(title="Query decisions", annotations=_READS)
    @_clear
    async def gate_audit(
        decision: Literal["ALLOW", "DENY", "NEED_APPROVAL"] | None = None,
        tool: str | None = None,
        since: Annotated[str | None, Field(description="ISO 8601 with a time zone.")] = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 20,
    ) -> list[dict[str, Any]]:
        """Return decisions that were made, the newest first."""
        return govern.decisions.gate_audit(decision=decision, tool=tool, since=since, limit=limit)

    @server.tool(title="Autonomy status", annotations=_READS)
    @_clear
    async def autonomy_status() -> dict[str, Any]:
        """Return your overall reputation, per-domain scores, active approvals, constraints."""
        return govern.standing.autonomy_status(await itself())

    @server.tool(title="Ask for approval", annotations=_NOTES)
    @_clear
    async def request_approval(
        tool: Annotated[str, Field(description="Bash, Write, Edit, ...")],
        params: Annotated[dict[str, Any], Field(description="Exactly as in the later call.")],
        reason: str = "",
    ) -> dict[str, Any]:
        """Ask a person beforehand to approve exactly one call. Grants nothing by itself."""
        name, given, more = _later(tool, params)
        return await govern.asking.request_approval(await itself(), name, given, reason, **more)


_BESIDE = {"cwd": "cwd", "description": "intent"}
"""Parameters of `bash` that are none of the plan's own, and what they are there."""


def _later(tool: str, params: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return the call that a question is about as this server will make it: its tool by either of
    its names, its parameters, and what stands beside them."""
    name = {one.casefold(): one for one in TOOLS}.get(tool.casefold(), tool)
    beside = _BESIDE if name == "Bash" else {}
    more = {beside[key]: str(one) for key, one in params.items() if key in beside and one}
    given = {key: one for key, one in params.items() if key not in beside and one is not None}
    return name, given, more


def _add_workspaces(server: MCPServer, door: Door) -> None:
    govern, itself = door.governance, door.itself

    @server.tool(title="Workspace status", annotations=_READS)
    @_clear
    async def workspace_status() -> dict[str, Any]:
        """Return the registered workspaces and how they stand."""
        return govern.asking.workspace_status(await itself())

    @server.tool(title="Validate a path", annotations=_READS)
    @_clear
    async def workspace_validate(path: str) -> dict[str, Any]:
        """Say whether a path may be used, and why."""
        return govern.asking.workspace_validate(path)

    @server.tool(title="Add a workspace", annotations=_NOTES)
    @_clear
    async def workspace_add(path: str) -> dict[str, Any]:
        """Ask a person to register a folder as a workspace."""
        return await govern.asking.workspace_add(await itself(), path, seconds=door.ask_seconds)
