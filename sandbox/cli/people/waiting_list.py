# SPDX-License-Identifier: Apache-2.0
"""The live list of questions, as lines for a terminal of some size. Pure.

INVARIANT (P8, waiting list): whatever an agent wrote is one safe line of its own, cut at the width,
so that it cannot stand where another question or a word of ours stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.text.durations import say_duration
from sandbox.text.terminal import cut, safe_line

if TYPE_CHECKING:
    from rich.text import Text

    from sandbox.approvals.store.request import Request

KEYS = "enter details  o once  s session  a always here  n deny  j/k move  q quit"
_RISK = {"caution": "yellow", "danger": "red", "forbidden": "red"}
_PER_QUESTION = 2
_AROUND = 4
"""Lines beside the questions: the head, the message and the keys, with one between."""
_HOST_CHARS = 60
"""Of a host's name, whose end says whose it is."""
_TEXT_CHARS = 1000
"""Of a call's text; no terminal shows as many in a line."""


@dataclass(frozen=True, slots=True)
class View:
    """What the list shows."""

    questions: Sequence[Request]
    """The oldest first, each once."""
    chosen: str
    """The call of the chosen question."""
    message: str
    """What became of the last answer."""


def waiting_list(view: View, *, now: float, width: int, height: int) -> Text:
    """Return the list as so many lines at most; the chosen question is among them."""
    from rich.text import Text

    count = len(view.questions)
    said = f"{count} calls wait" if count != 1 else "1 call waits"
    lines = [Text(f"Lockgate: {said} for you" if count else "Lockgate: no call waits for you")]
    for request in _visible(view, max(1, (height - _AROUND) // _PER_QUESTION)):
        chosen = request.call == view.chosen
        risk = request.decision.tier.value
        lines.append(
            Text.assemble(
                "> " if chosen else "  ",
                (request.call, "bold" if chosen else ""),
                f"  {_left(request, now)}  ",
                (risk, _RISK.get(risk, "")),
                f"  {_cut(request.plan.agent, 24)} calls {_cut(request.plan.tool, 24)} in ",
                _end(request.plan.workspace, 40),
            )
        )
        lines.append(Text(f"    {safe_line(_text(request)[:_TEXT_CHARS])}"))
    lines += [Text(safe_line(view.message), style="italic"), Text(KEYS, style="dim")]
    for line in lines:
        line.truncate(max(width, 1), overflow="ellipsis")
    return Text("\n").join(lines)


def _visible(view: View, most: int) -> Sequence[Request]:
    """Return the questions that there is room for, around the chosen one."""
    calls = [question.call for question in view.questions]
    at = calls.index(view.chosen) if view.chosen in calls else 0
    first = max(0, min(at - most // 2, len(calls) - most))
    return view.questions[first : first + most]


def _text(request: Request) -> str:
    params = request.plan.params
    if (reach := request.reach) is not None:
        host = _end(reach.host.words(), _HOST_CHARS)
        return f"{host} wanted by {reach.call}: {params.command or ''}"
    if said := params.command or params.file_path:
        return said
    given = params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return ", ".join(f"{key}: {value}" for key, value in given.items())


def _left(request: Request, now: float) -> str:
    return f"{say_duration(now - request.asked)} old, {say_duration(request.until - now)} left"


def _cut(text: str, most: int) -> str:
    return cut(safe_line(text), most)


def _end(path: str, most: int) -> str:
    """Return the end of a path, which tells more than its beginning."""
    path = safe_line(path)
    return path if len(path) <= most else "…" + path[1 - most :]
