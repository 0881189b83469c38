# SPDX-License-Identifier: Apache-2.0
"""Which agents a glob of the settings or of a policy file names. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

KINDS = ("sub:", "cron:")
"""What begins the names of agents that others start (`main:sub:7`)."""


def names_agent(glob: str, agent: str) -> bool:
    """Whether a glob names an agent: by its whole path or, where it begins with a kind of agents
    that others start (`sub:*`), by the end of the path that begins with that kind."""
    if fnmatchcase(agent, glob):
        return True
    if not glob.startswith(KINDS):
        return False
    parts = agent.split(":")
    return any(fnmatchcase(":".join(parts[at:]), glob) for at in range(1, len(parts)))
