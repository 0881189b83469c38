# SPDX-License-Identifier: Apache-2.0
"""docs/seed-tables.md names only tests, and rows of tests, that exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "seed-tables.md"
TEST = re.compile(
    r"^`(?P<module>(?:\w+/)*\w+)\.py::(?P<test>\w+)`\n(?P<rows>(?:\n- .+)*)", re.MULTILINE
)


def tables() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return module, test and rows of each table of the page."""
    text = PAGE.read_text("utf-8")
    return [
        (one["module"], one["test"], tuple(re.findall(r"^- (.+)$", one["rows"], re.MULTILINE)))
        for one in TEST.finditer(text)
    ]


def rows(test: object) -> Iterable[tuple[str, ...]]:
    """Yield the names of the rows of each parameter of a test."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            ids = mark.kwargs.get("ids") or mark.args[1]
            yield tuple(map(ids, mark.args[1])) if callable(ids) else tuple(map(str, ids))


@pytest.mark.parametrize("module, test, named", tables(), ids=[test for _, test, _ in tables()])
def test_every_row_of_a_table_is_tested(module: str, test: str, named: tuple[str, ...]) -> None:
    function = getattr(importlib.import_module(module.replace("/", ".")), test)
    assert any(set(named) <= set(found) for found in rows(function)) or not named


def test_the_page_has_all_documents() -> None:
    titles = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert titles == [
        "safety-guardrails.md",
        "autonomy-levels.md",
        "autonomy-policy.ts",
        "orchestration.md",
        "policy-check.md",
    ]
    assert len(tables()) > 60
