# SPDX-License-Identifier: Apache-2.0
"""Count operators and brackets outside of quotes, comments and here-documents, in linear time.

An estimate that is needed before a text is parsed: it bounds what parsing may cost.
"""

from __future__ import annotations

import re

_OPERATORS = ";|&`<>()[{}"
_TOKEN = re.compile(
    r"""
      '[^']*+'
    | "(?:[^"\\$`]++|\\.|\$(?!\())*+"
    | \\.
    | (?<![^\s;&|()])\#[^\n]*+
    | <<-?[ \t]*+(?:'(?P<single>[^'\n]++)'|"(?P<double>[^"\n]++)"|\\?(?P<bare>[\w.+!:-]++))
    | (?P<operator>[;|&`<>()\[{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RUNS = re.compile(r"\$\(|`")


def operators(text: str, most: int) -> int:
    """Return how many operators a shell sees in the text, about: none where there are
    not more than `most` at all, and no more than a few above that."""
    if sum(map(text.count, _OPERATORS)) <= most:
        return 0
    count = at = 0
    pending: list[tuple[str, bool]] = []
    missing: set[str] = set()
    while count <= most and (found := _TOKEN.search(text, at)) is not None:
        if pending and (line := text.find("\n", at, found.start())) >= 0:
            at, more = _documents(text, line, pending, missing)
            count += more
            continue
        at = found.end()
        if found["operator"]:
            count += 1
        elif delimiter := found["single"] or found["double"] or found["bare"]:
            count += 2
            if delimiter not in missing:
                pending.append((delimiter, found["bare"] is not None))
    return count


def _documents(
    text: str, line: int, pending: list[tuple[str, bool]], missing: set[str]
) -> tuple[int, int]:
    """Return where the here-documents end whose texts begin after `line`, and what they run."""
    count = 0
    for delimiter, active in pending:
        end = text.find(f"\n{delimiter}\n", line)
        if end < 0 and text.endswith(f"\n{delimiter}"):
            end = max(line, len(text) - len(delimiter) - 1)
        if end < 0 and f"\t{delimiter}" in text:
            match = re.compile(rf"\n\t+{re.escape(delimiter)}(?:\n|\Z)").search(text, line)
            end = match.start() if match else -1
        if end < 0:
            missing.add(delimiter)
            continue
        if active:
            count += len(_RUNS.findall(text, line, end))
        line = min(len(text), end + len(delimiter) + 1)
    pending.clear()
    return max(line, 0), count
