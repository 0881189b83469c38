# SPDX-License-Identifier: Apache-2.0
"""A keeper's long answer comes in parts, none of which keeps the supervisor's loop for long."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from sandbox.cell import protocol
from sandbox.cell.keeper.answers import pack_answer
from sandbox.cells.cell import Cell
from sandbox.cells.cell_spec import CellSpec

MANY = 100_000
LONGEST = 1 << 20
"""Bytes that are read as one piece."""


def answer(count: int) -> dict[str, Any]:
    """Return what a keeper answers to `close` where a call has changed many files."""
    fields = {"kind": "created", "type": "file", "size": 1, "mode": 0o644, "conflict": False}
    changes = [{"path": f"m/p{number // 100}/{number}.js", **fields} for number in range(count)]
    return {"op": "close", "n": 1, "changes": [changes, changes[:3]], "empty": False, "diff": ""}


def lengths(data: bytes) -> list[int]:
    """Return how long each frame is."""
    found, at = [], 0
    while at < len(data):
        size = protocol._HEADER.size + protocol._HEADER.unpack_from(data, at)[0]
        found.append(size)
        at += size
    return found


def test_a_long_answer_arrives_whole_in_short_parts() -> None:
    async def work() -> None:
        spec = CellSpec("c", "main", ("/w", "/v"), cast(Any, None), cast(Any, None), {})
        cell = Cell(cast(Any, None), spec)
        asked = asyncio.ensure_future(cell.ask({"tx": "t"}, op="close"))
        await asyncio.sleep(0)
        said = answer(MANY)
        data = pack_answer(said)
        assert len(data) > 5 * LONGEST
        assert max(lengths(data)) < LONGEST
        decoder = protocol.Decoder()
        for start in range(0, len(data), 65_536):
            cell._keeper.link.take(decoder, data[start : start + 65_536])
        assert await asked == said
        assert cell._keeper._parts == {}

    asyncio.run(work())


def test_a_short_answer_is_one_frame() -> None:
    assert len(lengths(pack_answer(answer(100)))) == 1


def test_of_more_than_can_be_listed_no_part_is_sent() -> None:
    said = {**answer(1), "changes": [[{"path": "x" * 4000}] * 20_000]}
    (length,) = lengths(pack_answer(said))
    assert length < LONGEST
