# SPDX-License-Identifier: Apache-2.0
"""Whether a person sits at an agent that a hook speaks for: at its terminal, or in its editor.

It decides how long a question is waited for, and nothing else. What is not known counts as nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandbox.processes.table import Host

ATTENDED = "CLAUDE_CODE_SESSION_ATTENDED"
"""What Claude Code says of itself: `0` where nobody sits there."""
EDITORS = ("cursor",)
"""Agents that are windows, and have no terminal."""
_ALONE = {
    "claude": ("-p", "--print"),
    "codex": ("exec", "e"),
    "gemini": ("-p", "--prompt"),
    "cursor": ("-p", "--print"),
}
"""Words with which an agent's program does one task, and asks nobody."""
_SERVES = {"codex": ("app-server",), "gemini": ("--acp", "--experimental-acp")}
"""Words with which it serves an editor, in which somebody sits."""


def is_attended(agent: str, process: int | None, said: Mapping[str, str], host: Host) -> bool:
    """Whether somebody sits at an agent (`claude`, `codex`, ...), whose own process is `process`.

    `said` are the variables that its hook was given.
    """
    if said.get(ATTENDED) == "0" or process is None:
        return False
    words = host.words(process)
    if _runs_alone(agent, words):
        return False
    if agent in EDITORS or said.get(ATTENDED) == "1" or _has(_SERVES.get(agent, ()), words):
        return True
    return host.has_terminal(process)


def _runs_alone(agent: str, words: Sequence[str]) -> bool:
    return _has(_ALONE.get(agent, ()), words)


def _has(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether one of the words is wanted, as it is or with `=VALUE`; the program itself is none."""
    return any(word.split("=", 1)[0] in wanted for word in words[1:])
