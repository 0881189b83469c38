# SPDX-License-Identifier: Apache-2.0
"""`mcp`: serve the Model Context Protocol, on standard input and output or on loopback."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import click

from sandbox.cli import terminal


@click.command(short_help="Serve an agent's tools over MCP.")
@click.option("-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in.")
@click.option("--agent", default="main", metavar="ID", help="Agent that the calls belong to.")
@click.option("--role", metavar="ROLE", help="Role of the agent; it can only narrow.")
@click.option(
    "--ask-seconds",
    type=click.FloatRange(0, 1800),
    default=50.0,
    metavar="SECONDS",
    help="How long a call waits for a person before it says how to go on; default: 50.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Put the program that starts this server (over HTTP: each client) under watch, so that a "
    "stop ends it.",
)
@click.option(
    "--tools",
    type=click.Choice(["work", "all"]),
    default="work",
    help="`work` (default): commands and files. `all`: also those that ask about permissions, "
    "trust and workspaces.",
)
@click.option("--http", is_flag=True, help="Serve streamable HTTP on loopback instead of stdio.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, help="Port for --http.")
def mcp(
    workspace: str | None, agent: str, role: str | None, ask_seconds: float, **rest: Any
) -> int:
    """Serve the tools bash, read, write, edit, glob, grep, ls and background jobs; with `--tools
    all` the governance tools too. Over HTTP a token is needed; it is printed once, as a file's
    name.

    \b
    Examples:
      lockgate mcp
      lockgate mcp --http --port 8642
    """
    import asyncio

    from sandbox.agents.allowed import check_path
    from sandbox.mcp.governance.standpoint import Who
    from sandbox.mcp.session import Door
    from sandbox.workspaces.registry import Registry

    registry = Registry(terminal.dirs().create())
    here = os.path.abspath(workspace or _here())  # noqa: PTH100
    found = registry.find(here) if workspace else registry.around(here)
    door = Door(
        terminal.dirs(),
        Who(agent=check_path(agent), role=role, workspace=found.path),
        ask_seconds=ask_seconds,
    )

    watch = None
    if rest["watch"]:
        from sandbox.hooks.sessions import Sessions

        sessions = Sessions(terminal.dirs())
        watch = partial(sessions.watch_itself, "mcp")
        if not rest["http"]:
            sessions.watch("mcp", os.getpid())

    async def serve() -> None:
        async with door:
            if rest["http"]:
                from sandbox.mcp.http import serve_http

                await serve_http(
                    door, port=rest["port"], say=terminal.say, watch=watch, tools=rest["tools"]
                )
                return
            from sandbox.mcp.server import build

            await build(door, tools=rest["tools"]).run_stdio_async()

    try:
        asyncio.run(serve())
    except* ConnectionError:  # the client is gone, and with it who would be told
        pass
    return 0


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return "/"
