# SPDX-License-Identifier: Apache-2.0
"""The dialects of agents' hooks: read an event, write an answer. Pure.

Reading is lenient about fields that are not needed and strict about those that are; writing uses
only fields that the agent knows, since an unknown one voids the whole answer in one of them. What
each agent makes of an answer: see docs/agents.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.hooks.agents import claude, codex, cursor, gemini, generic
from sandbox.hooks.agents.fields import Json
from sandbox.hooks.events import BadEvent, Event, Printed, Say


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one agent talks to its hooks."""

    agent: str
    """Its name in `policy.tools.dialects`."""
    read: Callable[[Json], Event]
    write: Callable[[Event, Say, Json], Printed]
    rewrites: frozenset[str]
    """Events in which the agent takes another command for the one it wanted to run."""
    labels: bool = False
    """Whether what the agent shows and keeps is that other command, so that it should say what it
    stands for. Only of an agent that puts nothing behind it."""


def named(name: str) -> Dialect:
    """Return a dialect by its name on the command line. Raises BadEvent."""
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise BadEvent(f"`{name}` is no agent that is known; use one of {', '.join(DIALECTS)}")
    return dialect


DIALECTS = {
    "claude-code": Dialect(
        "claude", claude.read_event, claude.write_answer, rewrites=frozenset(("PreToolUse",))
    ),
    "codex": Dialect(
        "codex",
        codex.read_event,
        codex.write_answer,
        rewrites=frozenset(("PreToolUse",)),
        labels=True,
    ),
    "gemini": Dialect(
        "gemini", gemini.read_event, gemini.write_answer, rewrites=frozenset(("BeforeTool",))
    ),
    "cursor": Dialect(
        "cursor", cursor.read_event, cursor.write_answer, rewrites=frozenset(("preToolUse",))
    ),
    "generic": Dialect(
        "claude", generic.read_event, generic.write_answer, rewrites=frozenset(("before",))
    ),
}
"""The dialects, by their name on the command line."""
