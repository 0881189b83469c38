# SPDX-License-Identifier: Apache-2.0
"""Which session of an agent a call belongs to, so that a session can be looked at and undone whole.

An agent's hooks name its session; whatever else its processes do (MCP, `lockgate run`) belongs to
the one named last. An agent under watch without hooks has one session from its start to its end.
INVARIANT (P8, "no borrowed session"): for an agent under watch that goes by whose process calls,
never by what the call says of itself.
"""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from pathlib import Path

from sandbox.agents.registry import Agent, Registry
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs

CURRENT: ContextVar[str] = ContextVar("session", default="")
"""The session that the task at work makes calls for; a door sets it."""
OWN, SERVED = "run-", "mcp-"
"""What ids begin with that Lockgate makes: of an agent under watch, of one MCP server. No agent may
use them; of a caller that is not under watch an id counts only where a server made it."""
MOST_CHARS = 128
_SHORT = 12
_TOLD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


def checked(session: str) -> str:
    """Return an id that an agent gave its session; nothing where none can be used."""
    good = len(session) <= MOST_CHARS and _TOLD.fullmatch(session) is not None
    return session if good and not session.startswith((OWN, SERVED)) else ""


class ToldSessions:
    """The sessions that agents under watch have named."""

    def __init__(self, dirs: Dirs) -> None:
        self._folder = dirs.state / "agents"
        self._known: dict[str, str] = {}

    def note(self, agent: Agent, session: str) -> None:
        """Note what an agent calls its session now. Raises Unavailable."""
        if self._known.get(agent.token) != session:
            own_files.write(self._path(agent), json.dumps([agent.token, session]))
            self._known = {**dict(list(self._known.items())[-100:]), agent.token: session}

    def of(self, agent: Agent) -> str:
        """Return the session in which an agent is now."""
        try:
            token, session = json.loads(own_files.read(self._path(agent)))
        except (OSError, ValueError, TypeError):
            token, session = "", ""
        own = OWN + agent.token[:_SHORT]
        return checked(str(session)) or own if token == agent.token else own

    def living(self, registry: Registry) -> frozenset[str]:
        """Return the sessions in which agents under watch are now, those of which nothing runs any
        more left out."""
        registry.drop_ended()
        return frozenset(self.of(agent) for agent in registry.all())

    def of_caller(self, around: Agent | None, said: object) -> str:
        """Return the session of a call: of an agent under watch its own; else what an MCP server of
        ours says that it serves."""
        if around is not None:
            return self.of(around)
        if not isinstance(said, str) or not said.startswith(SERVED) or len(said) > MOST_CHARS:
            return ""
        return said if _TOLD.fullmatch(said) else ""

    def _path(self, agent: Agent) -> Path:
        return self._folder / f"{agent.id}.session"
