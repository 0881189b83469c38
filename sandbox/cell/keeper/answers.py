# SPDX-License-Identifier: Apache-2.0
"""What the keeper's answers look like: in parts where they are long, cut short where they must be.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

from typing import Any

from .. import protocol

MOST_AT_ONCE = 1 << 20
"""Bytes of an answer from which on its changes are sent in parts."""
PART_ITEMS = 1000
_LISTS = ("close", "look_held", "outlook", "net")
"""Requests that list changes, and make none themselves."""
_CHANGES = ("changes", "rest")
"""Fields of an answer that list changes, per workspace."""
_DOES = ("land", "land_held", "undo", "fate")
"""Requests that change files, or say that this was done; their answers list what changed."""


def pack_answer(answer: dict[str, Any]) -> bytes:
    """Return an answer as frames that are short enough, the answer itself last.

    Where nothing was done, an error takes the place of a list that is too long. What was done is
    told all the same: with the first entries of each list, and how many there were.
    """
    frame = protocol.pack(answer)
    if len(frame) <= protocol.MAX_BODY:
        return frame if len(frame) <= MOST_AT_ONCE else _pack_in_parts(answer)
    if answer["op"] in _LISTS:
        error = "more changed than can be listed; make fewer changes in one call"
        if answer["op"] == "close":
            listed = answer_unlisted(len(answer["changes"]), error)
            return protocol.pack({"op": answer["op"], "n": answer["n"], **listed})
        return protocol.pack({"op": answer["op"], "n": answer["n"], "error": error})
    if answer["op"] not in _DOES:
        return frame
    most = protocol.MAX_BODY // 64
    while len(frame) > protocol.MAX_BODY:
        frame = protocol.pack({**_cut(answer, most), "n": answer["n"]})
        most //= 4
    return frame


def _pack_in_parts(answer: dict[str, Any]) -> bytes:
    """Return an answer with its long lists of changes sent ahead, so many at a time.

    Whoever reads it does other work between two parts.
    """
    frames = []
    short = dict(answer)
    for key in _CHANGES:
        if not answer.get(key):
            continue
        short[key] = [[] for _ in answer[key]]
        for at, items in enumerate(answer[key]):
            for start in range(0, len(items), PART_ITEMS):
                part = {"op": "part", "n": answer["n"], "key": key, "at": at}
                part["items"] = items[start : start + PART_ITEMS]
                frames.append(protocol.pack(part))
    return b"".join((*frames, protocol.pack(short)))


def answer_unlisted(workspaces: int, why: str) -> dict[str, Any]:
    """Return the answer on a transaction that is closed and cannot be listed: nothing may land."""
    return {"changes": [[] for _ in range(workspaces)], "empty": True, "diff": "", "unlisted": why}


def explain_error(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "folders are nested too deep" if isinstance(error, RecursionError) else str(error)


def _cut(value: Any, most: int) -> Any:
    """Return an answer with at most so many entries in each list and signs in each text.

    `total` of an answer says how many changes there were of each list of them.
    """
    if isinstance(value, dict):
        cut = {key: _cut(each, most) for key, each in value.items()}
        totals = {key: sum(map(len, value[key])) for key in _CHANGES if key in value}
        return {**cut, "total": totals} if totals else cut
    if isinstance(value, list):
        return [_cut(each, most) for each in value[:most]]
    return value[:most] if isinstance(value, str) else value
