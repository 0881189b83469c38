# SPDX-License-Identifier: Apache-2.0
"""Render decisions, calls and lists for a person. Returns text; prints nothing.

Whatever an agent may have written is made safe here. Tables come from rich on a terminal and are
plain columns otherwise; rich is imported only then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.text import safe_block, safe_line

CARD_LINES = 40
"""Lines of a command or a content that a card shows before it says how many more there are."""
ACCESS = {"none": "nothing", "read": "nothing (reads only)", "write": "files of"}
VERDICT_STYLE = {"allow": "green", "report": "yellow", "ask": "magenta", "deny": "red"}


def card(plan: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    """Return the approval card of a plan (safety-guardrails.md, Approval Checkpoints)."""
    params = plan.get("params", {})
    rows = [("agent", f"{plan.get('agent', '')} calls {plan.get('tool', '')}")]
    for key in ("command", "file_path", "path", "old_string", "new_string", "content", "pattern"):
        if params.get(key) is not None:
            rows.append((key.replace("_", " "), _excerpt(str(params[key]))))
    for number, step in enumerate(params.get("edits") or (), start=1):
        rows.append((f"edit {number}", _excerpt(f"{step['old_string']}\n->\n{step['new_string']}")))
    if plan.get("intent"):
        rows.append(("intent", _excerpt(str(plan["intent"]))))
    rows.append(("starts in", str(plan.get("cwd") or plan.get("workspace"))))
    rows.append(("risk", str(decision.get("tier", ""))))
    asking = [one for one in decision.get("layers", ()) if one.get("verdict") == "ask"]
    for one in asking:
        rule = f"{one['layer']}/{one['rule']}" if one.get("rule") else str(one["layer"])
        rows.append(("rule", rule))
        rows.append(("reason", str(one.get("reason", ""))))
    if not asking:
        rows.append(("reason", str(decision.get("message", ""))))
    rows.append(("may change", _may_change(plan, decision)))
    rows.append(("roll back", "lockgate undo, while the before-image is kept"))
    return "\n".join(["Lockgate asks: may this call run?", *(_field(*row) for row in rows)])


def _field(name: str, value: str) -> str:
    first, *rest = safe_block(value).split("\n")
    return "\n".join([f"  {name:<11}{first}", *(f"  {'':<11}{line}" for line in rest)])


def _excerpt(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= CARD_LINES:
        return text
    rest = len(lines) - CARD_LINES
    return "\n".join([*lines[:CARD_LINES], f"... and {rest} more lines"])


def _may_change(plan: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    access = str(decision.get("rights", {}).get("workspace", "none"))
    what = ACCESS.get(access, access)
    if access != "write":
        return what
    deletes = decision.get("named_deletions") or ()
    named = f", and delete {', '.join(deletes)}" if deletes else ""
    return f"{what} {plan.get('workspace')}{named}"


def changes(items: Sequence[Mapping[str, Any]], *, limit: int = 20) -> str:
    """Return changed paths, one a line."""
    lines = []
    for item in items[:limit]:
        source = f" from {safe_line(item['source'])}" if item.get("source") else ""
        objection = ""
        if item.get("outcome"):
            objection = f"  ({item['outcome']}: {safe_line(item.get('reason') or '')})"
        lines.append(f"  {item['kind']:<9}{safe_line(item['path'])}{source}{objection}")
    if len(items) > limit:
        lines.append(f"  ... and {len(items) - limit} more")
    return "\n".join(lines)


def brief(items: Sequence[Mapping[str, Any]], *, limit: int = 2) -> str:
    """Return changed paths in a few words."""
    marks = {"created": "+", "modified": "~", "deleted": "-", "renamed": ">", "meta": "~"}
    named = [f"{marks.get(i['kind'], '?')}{safe_line(i['path'])}" for i in items[:limit]]
    more = f" +{len(items) - limit} more" if len(items) > limit else ""
    return " ".join(named) + more


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, styles: Mapping[str, str] = {}
) -> str:
    """Return a table: framed and coloured on a terminal, plain columns otherwise.

    `styles` gives cells with exactly that text a colour. NO_COLOR is heeded.
    """
    cells = [[safe_line(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return _framed(columns, cells, styles)
    widths = [
        max(len(column), *(len(row[at]) for row in cells)) if cells else len(column)
        for at, column in enumerate(columns)
    ]
    lines = [list(columns), *cells]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _framed(
    columns: Sequence[str], cells: Sequence[Sequence[str]], styles: Mapping[str, str]
) -> str:
    import io

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    framed = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in cells:
        framed.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    width = os.get_terminal_size(sys.stdout.fileno()).columns or 80
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        no_color=bool(os.environ.get("NO_COLOR")),
        highlight=False,
    )
    with console.capture() as captured:
        console.print(framed)
    return captured.get().rstrip("\n")
