# SPDX-License-Identifier: Apache-2.0
"""Templates, and how text is made visible in them.

Every value that a template shows passes `visible`, whoever wrote it, and is then escaped: control
characters, what reorders and what shows as nothing stand there as escapes, as on a terminal.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from sandbox.audit.query import seconds_of
from sandbox.page import wording
from sandbox.present import render
from sandbox.text.durations import say_duration
from sandbox.text.terminal import cut, safe_line

MOST_LINES = 3000
"""Lines of a diff or an output that a page shows."""
MOST_CHARS = 400_000
_OF_NOW = 120.0
"""What is younger (seconds) is of now, so that a page does not count seconds."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,32}m")
_SIGNS = {"+": "added", "-": "removed", "@": "place"}


def environment() -> Environment:
    """Return the templates with what they use. A field that a record lacks is shown as nothing."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        line=line, ago=ago, lasts=say_duration, diff=diff_lines, output=output_text, size=say_size,
        plain=plain_value, when=when, subject=render.subject,
        state=wording.state_of, prose=prose_text, about_call=wording.about_call,
    )  # fmt: skip
    return made


def visible(value: Any) -> Any:
    """Return text with everything in it visible; lines and tabs stay."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join("\t".join(map(safe_line, part.split("\t"))) for part in value.split("\n"))


def prose_text(text: object) -> Markup:
    """Return a text of ours for people, with commands in it as code."""
    return wording.prose(str(visible(str(text or ""))))


def line(text: object, most: int = 160) -> str:
    """Return text as one line that is not too long."""
    return cut(safe_line(str(text)[: 4 * most]), most)


def plain_value(value: object) -> str:
    """Return a value as text; what is no text as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def ago(stamp: str | float | None) -> str:
    """Say how long ago an instant was."""
    at = seconds_of(stamp) if isinstance(stamp, str) else stamp or 0.0
    passed = time.time() - at
    if not at:
        return ""
    return f"{say_duration(passed)} ago" if passed >= _OF_NOW else "just now"


def when(stamp: str | float | None) -> str:
    """Return an instant in local time."""
    at = seconds_of(stamp) if isinstance(stamp, str) else stamp or 0.0
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else ""


def say_size(count: float | None) -> str:
    """Return a number of bytes as people read it."""
    size = float(count or 0)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def output_text(text: str) -> str:
    """Return output as it is shown: without colours, and its end where it is long."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n")
    if len(plain) <= MOST_CHARS:
        return plain
    return f"... {len(plain) - MOST_CHARS} characters before this\n{plain[-MOST_CHARS:]}"


def diff_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a diff, each with what it is: file, added, removed, place, same."""
    lines = text.split("\n")
    while lines and not lines[-1]:
        lines.pop()
    for shown in lines[:MOST_LINES]:
        kind = (
            "file" if shown.startswith(("+++", "---", "diff ")) else _SIGNS.get(shown[:1], "same")
        )
        yield kind, shown
    if len(lines) > MOST_LINES:
        yield "place", f"... and {len(lines) - MOST_LINES} more lines"
