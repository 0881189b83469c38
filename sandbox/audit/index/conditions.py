# SPDX-License-Identifier: Apache-2.0
"""Conditions and times of questions to the index, as SQL."""

from __future__ import annotations

import math
from typing import Any

from sandbox.audit.query import Query

DAY = 86_400


def condition_of_place(workspace: str | None) -> tuple[str, list[str]]:
    """Return a condition on the call of a record `r`, and its values: it was in a workspace."""
    if workspace is None:
        return "", []
    where = (
        " AND EXISTS (SELECT 1 FROM places p WHERE p.call = r.call AND p.workspace ="
        " (SELECT id FROM names WHERE name = ?))"
    )
    return where, [workspace]


def whole_days(query: Query) -> tuple[int | None, int | None]:
    """Return the first whole day of a time and the one after the last; None: no bound."""
    first = None if query.since is None else math.ceil(query.since / DAY)
    last = None if query.until is None else math.floor(query.until / DAY)
    return first, last


def partial_days(query: Query) -> list[tuple[float | None, float | None]]:
    """Return the parts of a time that are no whole days."""
    first, last = whole_days(query)
    if first is not None and last is not None and last < first:
        return [(query.since, query.until)]
    parts: list[tuple[float | None, float | None]] = []
    if first is not None:
        parts.append((query.since, float(first * DAY)))
    if last is not None:
        parts.append((float(last * DAY), query.until))
    return parts


_HELD = (
    "SELECT d.n FROM records h JOIN records d ON d.call = h.call WHERE h.held = 1 AND NOT EXISTS"
    " (SELECT 1 FROM records later WHERE later.call = h.call AND later.held = 0 AND later.n > h.n)"
)


def entries_of(query: Query) -> str:
    """Return the tables of a query: a search goes through the texts, and looks up the rest."""
    return "entries e" if query.text is None else "texts t CROSS JOIN entries e ON e.n = t.n"


def conditions_of(query: Query, *, own: bool) -> tuple[str, list[Any]]:
    """Return the WHERE of a query over entries `e`, and its values."""
    parts: list[str] = [] if own else ["e.decided = 1"]
    values: list[Any] = []
    named = "(SELECT id FROM names WHERE name = ?)"
    for column, value in (("tool", query.tool), ("agent", query.agent)):
        if value is not None:
            parts.append(f"e.{column} = {named}")
            values.append(value)
    if query.verdicts is not None:
        marks = ", ".join("?" * len(query.verdicts))
        parts.append(f"e.verdict IN (SELECT id FROM names WHERE name IN ({marks}))")  # noqa: S608
        values += sorted(query.verdicts)
    if query.rule is not None:
        parts.append(f"instr(e.rules, ',' || {named} || ',')")
        values.append(query.rule)
    for sign, instant in ((">=", query.since), ("<", query.until)):
        if instant is not None:
            parts.append(f"e.at {sign} ?")
            values.append(instant)
    if query.session is not None:
        parts.append(f"e.session = {named}")
        values.append(query.session)
    if query.before is not None:
        parts.append("e.n < ?")
        values.append(query.before)
    if query.held:
        parts.append(f"e.n IN ({_HELD})")
    if query.text is not None:
        parts.append("instr(t.text, ?)")
        values.append(query.text.casefold())
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values
