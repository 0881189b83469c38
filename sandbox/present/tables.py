# SPDX-License-Identifier: Apache-2.0
"""Tables for a person: framed by rich on a terminal, plain columns otherwise. Returns text.

Imports nothing heavy: what must answer at once shows tables too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from sandbox.text.terminal import safe_line

KEPT = ("id", "workspace")
"""Columns of a framed table that stay readable on a narrow terminal."""
KEPT_CHARS = 16


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

    framed = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, column in enumerate(columns):
        longest = max((len(row[at]) for row in cells), default=0)
        least = min(longest, KEPT_CHARS) if column in KEPT else None
        framed.add_column(column, min_width=least)
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
