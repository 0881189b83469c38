# SPDX-License-Identifier: GPL-3.0-or-later
"""A second reading of shell text, in a process of its own: `python -m policy.gate1.bashlex_worker`.

This file is a separate program and the only one that imports bashlex, whose licence it carries. It
reads JSON lines `{"text": ...}` and answers each with `{"programs": [...]}`, or `{"refused": ...}`
where bashlex cannot read the text. bashlex can loop for ever: whoever starts this program gives it
a deadline, and the program ends itself when one answer takes too long or too much memory, so that
it never outlives who started it. What it says can only tighten a decision
(`policy.gate1.decide.apply_second_reading`).
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import sys
from collections.abc import Iterator
from typing import IO, Any

MOST_TEXT = 16 * 1024
"""Characters; larger texts are refused, since its time grows fast."""
MOST_SECONDS = 1.0
"""One answer; the kernel ends the program then, whatever it does."""
MOST_MEMORY = 1 << 30
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def programs(text: str) -> list[str]:
    """Return the plain names of the commands in a text; raises what bashlex raises."""
    import bashlex

    found: dict[str, None] = {}
    for tree in bashlex.parse(text):
        for name in _names(tree):
            found[name] = None
    return list(found)


def _names(node: Any) -> Iterator[str]:
    if node.kind == "command":
        words = [part for part in node.parts if part.kind == "word"]
        if words and _PLAIN.fullmatch(words[0].word) and not words[0].parts:
            yield words[0].word
    for name in ("parts", "list", "command", "output", "body"):
        below = getattr(node, name, None)
        if isinstance(below, list):
            for one in below:
                if hasattr(one, "kind"):
                    yield from _names(one)
        elif hasattr(below, "kind"):
            yield from _names(below)


def answer(line: str) -> dict[str, Any]:
    """Return the answer to one line."""
    try:
        text = json.loads(line)["text"]
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            return {"refused": "too large"}
        return {"programs": programs(text)}
    except Exception as error:  # bashlex raises five kinds, among them AttributeError
        return {"refused": type(error).__name__}


def main(source: IO[str] | None = None, sink: IO[str] | None = None) -> int:
    """Answer every line of standard input."""
    sys.setrecursionlimit(2_000)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with contextlib.suppress(ImportError):
        import bashlex  # noqa: F401 - loaded now, so that no answer has to wait for it
    out = sink or sys.stdout
    for line in source or sys.stdin:
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        said = answer(line)
        signal.setitimer(signal.ITIMER_REAL, 0)
        out.write(json.dumps(said) + "\n")
        out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
