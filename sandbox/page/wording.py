# SPDX-License-Identifier: Apache-2.0
"""How the page says things: states in words that people use, and texts that were meant for a
terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

from markupsafe import Markup, escape

from sandbox.audit.call_entry import CallEntry
from sandbox.present.render import in_parts

NO_END = "no end yet"
"""Of a call of which no end is on record: it goes on, or its supervisor died over it."""
_ENDINGS: Mapping[str, str] = {
    "running": "runs",
    "timed-out": "took too long, ended",
    "flooded": "wrote too much, ended",
    "protected": "touched a protected file, ended",
    "unwatched": "could not be watched, ended",
    "traffic": "sent or received too much, ended",
    "cancelled": "was ended",
    "denied": "did not run",
    "not-approved": "not approved, did not run",
    "outside": "run by the agent itself",
}
_SEEN_TERMINAL = re.compile(r"; (?:see `lockgate show|`lockgate show) [^`]*`(?: lists it)?")
"""What tells a person at a terminal where to look; on the page it is there already."""
_COMMAND = re.compile(r"`([^`\n]+)`")
_ABOUT = re.compile(r"lockgate (show|undo) ([A-Za-z0-9_.:-]{1,128})")


def state_of(call: CallEntry) -> str:
    """Say in a few words what became of a call."""
    if call.undone_by:
        return "undone"
    if call.undone:
        return "an undo"
    if call.ending is None:
        return NO_END
    if call.ending == "outside" and call.landed:
        return "edited by the agent itself"
    if call.ending != "ran":
        return _ENDINGS.get(call.ending, call.ending)
    words = [f"failed with status {call.exit_status}"] if call.exit_status else []
    if call.parts:
        words.append(in_parts(call))
    elif call.landed:
        words.append("changes landed")
    elif call.judgement == "hold":
        words.append("changes wait for you")
    elif call.judgement == "discard":
        words.append("changes thrown away")
    return ", ".join(words) or "done"


def prose(visible: str) -> Markup:
    """Return a text of ours, everything in it visible already, with what stands between backticks
    as code, and without the hints of where to look that only a terminal needs."""
    escaped = str(escape(_SEEN_TERMINAL.sub("", visible)))
    return Markup(_COMMAND.sub(r"<code>\1</code>", escaped))  # noqa: S704


def about_call(said: str) -> tuple[str, str] | None:
    """Return (`show` or `undo`, call) where a line is a command about one call, else nothing."""
    match = _ABOUT.fullmatch(said)
    return None if match is None else (match[1], match[2])
