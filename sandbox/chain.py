# SPDX-License-Identifier: Apache-2.0
"""A hash chain over lines: what was written cannot be changed, reordered or cut unnoticed.

Each line is one JSON object that ends in `"prev"`, the SHA-256 of the line before. The head (number
and hash of the last line) is kept beside the log as well, so that a cut tail shows. Pure.
INVARIANT (P9).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

START = "0" * 64


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: how many lines, and the hash of the last."""

    count: int
    hash: str


EMPTY = Head(0, START)


def line(record: dict[str, Any], head: Head) -> tuple[bytes, Head]:
    """Return the next line (with its newline) and the head after it."""
    text = json.dumps(
        {"n": head.count + 1, **record, "prev": head.hash}, separators=(",", ":")
    ).encode("ascii")
    return text + b"\n", Head(head.count + 1, hashlib.sha256(text).hexdigest())


def verify(lines: Iterable[bytes], kept: Head | None) -> str | None:
    """Return what is wrong with a log, naming the first broken line, or None.

    `kept` is the head that was kept elsewhere; a chain that ends before it was cut.
    """
    head = EMPTY
    passed = kept is None or kept == EMPTY
    for number, raw in enumerate(lines, 1):
        if not raw.endswith(b"\n"):
            return f"line {number} is not complete"
        text = raw[:-1]
        try:
            record = json.loads(text)
            linked = record["prev"] == head.hash and record["n"] == number
        except (ValueError, KeyError, TypeError):
            return f"line {number} is not a record"
        if not linked:
            return f"line {number} does not follow line {number - 1}"
        head = Head(number, hashlib.sha256(text).hexdigest())
        passed = passed or head == kept
    if passed:
        return None
    assert kept is not None
    if head.count < kept.count:
        return f"the log ends at line {head.count}, but {kept.count} lines were written"
    return f"line {kept.count} was rewritten"
