# SPDX-License-Identifier: Apache-2.0
"""`hook`: named here for the help and for completion; `sandbox.cli.entry` runs it without click."""

from __future__ import annotations

import click


@click.command(short_help="Judge one event of a coding agent (agents call it).")
@click.argument("agent", type=click.Choice(["claude-code", "codex", "gemini", "cursor", "generic"]))
def hook(agent: str) -> int:
    """Judge one event of AGENT: JSON on standard input, the agent's own answer on standard output.

    Agents call it before every tool call; `lockgate connect AGENT` sets it up. Whatever goes wrong
    is a block: status 2, with a line on standard error.

    \b
    Example:
      echo '{"event":"before","tool":"Bash","params":{"command":"ls"},"cwd":"'$PWD'"}' |
        lockgate hook generic
    """
    from sandbox.client import hook_program as entry

    return entry.main([agent])
