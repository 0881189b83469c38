# SPDX-License-Identifier: Apache-2.0
"""Run a call for show before a person is asked about it: in a fresh cell, and nothing lands.

The card then shows what it did: its status, its last lines, its real diff, what gate 2 would say.
INVARIANT (P8, rehearsed): what lands afterwards are exactly the effects that were shown; `effects`
names them by a digest over every changed path, what it is, and its content.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy.model import Access, Decision, FileType, Kind, Outcome
from policy.protected.paths import PathPolicy
from sandbox.approvals.stdin_capture import pieces
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import Exit
from sandbox.cells.transaction import Transaction
from sandbox.gates.gate2 import Effects, weigh
from sandbox.gates.masked_diff import masked_diff
from sandbox.present.card import CONTENT_LINES
from sandbox.text.redaction import mask, mask_bytes
from sandbox.text.terminal import safe
from sandbox.workspaces.ignore_ledger import Ledger

EFFECTS = "effects"
"""The key of a preview under which the digest of what was shown stands."""
NAMED = "named"
"""The key under which the paths stand that an approval names, beside what was shown."""
WHOLE = "whole"
"""The key that says whether the card shows every changed line, and none of it masked."""
SKIPPED = "skipped"
"""The key that says why there was no rehearsal."""
LAST_LINES = 20
MOST_OUTPUT = 64 * 1024
"""Bytes at the end of the output that are kept for the card."""
MOST_DIFF = 256 * 1024
"""Characters of a diff that a question keeps."""
_NO_TEXT = re.compile(r"(?m)^(?![+\- @]).* differ \(|^\.\.\. and ")
"""Lines of a diff that stand for what it does not show."""
_COMPARED = ("kind", "type", "path", "source", "mode", "target")
_WITH_CONTENT = (FileType.FILE.value, FileType.SYMLINK.value)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What is to be rehearsed."""

    request: Mapping[str, Any]
    """What the runner is asked for."""
    decision: Decision
    workspaces: tuple[str, ...]
    paths: PathPolicy
    seconds: float
    ledger: Ledger
    stdin: bytes = b""
    """What it is given on standard input, as a person is shown it too."""

    @property
    def writes(self) -> bool:
        """Whether the call would get a layer that it can write to."""
        return self.decision.rights.workspace is Access.WRITE

    async def run(self, cell: Cell) -> tuple[dict[str, Any], Effects | None]:
        """Return what is shown of it, secrets masked, and its effects. Raises SandboxError."""
        began = time.perf_counter()
        last = _Last()
        limits = self.decision.rights.limits
        name = f"rehearsal-{secrets.token_hex(5)}"
        async with Transaction(cell, name, write=self.writes) as transaction:
            done = await cell.run(
                {**self.request},
                on_output=last.take,
                seconds=self.seconds,
                most_bytes=limits.output_bytes,
                stdin=pieces(self.stdin) if self.stdin else None,
            )
            shown = _ended(done, last)
            if not self.writes:
                return {**shown, "ms": _ms(began)}, None
            raw, diff = await transaction.close()
            effects = await asyncio.to_thread(
                weigh, self.decision, raw, self.workspaces, self.paths, self.ledger
            )
            effects = transaction.watched.over(effects, self.paths)
            digest = await effects_digest(transaction, raw)
        masked = await asyncio.to_thread(mask, diff)
        return {
            **shown,
            "judgement": _judged(effects),
            "diff": _bounded(await asyncio.to_thread(masked_diff, diff)),
            WHOLE: masked == diff and _fits(diff),
            "changes": effects.total,
            EFFECTS: digest,
            "ms": _ms(began),
        }, effects


async def as_shown(
    preview: Mapping[str, Any] | None,
    transaction: Transaction,
    raw: Sequence[Sequence[Mapping[str, Any]]],
    effects: Effects,
) -> Effects:
    """Return the effects of a closed transaction, held where a person was shown others."""
    shown = (preview or {}).get(EFFECTS)
    if shown is None or not effects.total or effects.judgement.outcome is Outcome.DISCARD:
        return effects
    same = await effects_digest(transaction, raw) == shown
    return effects if same else effects.not_as_rehearsed()


async def effects_digest(
    transaction: Transaction, raw: Sequence[Sequence[Mapping[str, Any]]]
) -> str:
    """Return what names the effects of a closed transaction: SHA-256 over all changes, in hex."""
    wanted = [
        [
            str(item["path"])
            for item in items
            if item["kind"] != Kind.DELETED.value and item["type"] in _WITH_CONTENT
        ]
        for items in raw
    ]
    contents = await transaction.digests(wanted) if any(wanted) else [{} for _ in raw]
    return await asyncio.to_thread(_digest, raw, contents)


def _digest(
    raw: Sequence[Sequence[Mapping[str, Any]]], contents: Sequence[Mapping[str, str]]
) -> str:
    listed = [
        [index, *(item.get(key) for key in _COMPARED), found.get(str(item["path"]))]
        for index, (items, found) in enumerate(zip(raw, contents, strict=True))
        for item in items
    ]
    text = "\n".join(sorted(json.dumps(one) for one in listed))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class _Last:
    """The end of what a command writes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.cut = False

    def take(self, _channel: int, data: bytes) -> None:
        """Take a piece of output."""
        self.data += data
        if len(self.data) > 2 * MOST_OUTPUT:
            del self.data[:-MOST_OUTPUT]
            self.cut = True

    def lines(self) -> str:
        """Return the last lines, secrets masked and safe to print."""
        lines = safe(mask_bytes(bytes(self.data))).rstrip("\n").split("\n")
        more = len(lines) - LAST_LINES
        if more > 0 or self.cut:
            lines = ["... lines before these are left out", *lines[-LAST_LINES:]]
        return "\n".join(lines)


def _ended(done: Exit, last: _Last) -> dict[str, Any]:
    return {
        "ending": done.ended or ("out of memory" if done.oom else "ran"),
        "exit_status": done.status,
        "output": last.lines() or (f"lockgate: {done.error}" if done.error else ""),
    }


def _judged(effects: Effects) -> str:
    if not effects.total:
        return "it changes nothing"
    word = effects.judgement.outcome.value
    message = mask(effects.judgement.message)
    return f"{word}: {message}" if effects.judgement.outcome is not Outcome.LAND else word


def _fits(diff: str) -> bool:
    """Whether a card shows a diff whole: nothing is cut, and nothing in it is no text."""
    short = len(diff) <= MOST_DIFF and diff.count("\n") < CONTENT_LINES
    return short and not _NO_TEXT.search(diff)


def _bounded(diff: str) -> str:
    if len(diff) <= MOST_DIFF:
        return diff
    return diff[:MOST_DIFF] + f"\n... and {len(diff) - MOST_DIFF} more characters\n"


def _ms(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 2)
