# SPDX-License-Identifier: Apache-2.0
"""Whether the version of an agent that is installed lets calls run where its hook fails."""

from __future__ import annotations

import re
import shutil
import subprocess

_SECONDS = 10.0
_CLOSED_FROM = {"claude-code": ("claude", (2, 1, 295))}
"""The program of an agent, and its first version that blocks where a hook fails."""
_OPEN = ("codex", "gemini")
"""Agents no version of which that is known blocks there (docs/agents.md)."""
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,6})")


def fails_open(agent: str) -> str | None:
    """Return a warning where the installed version runs a call whose hook fails; None where it does
    not, or where nothing is known of it."""
    if agent in _OPEN:
        return (
            f"{agent} lets a call run where its hook cannot be started or takes too long, in every "
            "version that is known; with `--mode mcp` it has no such way"
        )
    known = _CLOSED_FROM.get(agent)
    program = shutil.which(known[0]) if known else None
    if known is None or program is None:
        return None
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = _VERSION.search(done.stdout[:200])
    if match is None or tuple(map(int, match.groups())) >= known[1]:
        return None
    wanted = ".".join(map(str, known[1]))
    return (
        f"{agent} {match[0]} lets a call run where its hook cannot be started; "
        f"{wanted} and later block it"
    )
