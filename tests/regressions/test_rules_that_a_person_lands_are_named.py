# SPDX-License-Identifier: Apache-2.0
"""A `.gitignore` among 1,500 new files of a held call was in no list, though who landed the call
made its rules their own; and what landed was counted by the list that was cut."""

from __future__ import annotations

from typing import Any

import pytest

from policy.protected.paths import PathPolicy
from sandbox.cli.calls.outcome import say_landed
from sandbox.gates.shown_changes import SHOWN, shown_of

ROOT = "/srv/app"


def created(path: str) -> dict[str, Any]:
    return {
        "path": path,
        "kind": "created",
        "type": "file",
        "mode": 0o100644,
        "size": 1,
        "conflict": False,
    }


@pytest.mark.parametrize("rules", ["zz/.gitignore", ".gitignore", "zz/.git/info/exclude"])
def test_what_ignores_others_is_listed_among_any_number_of_files(rules: str) -> None:
    many = [created(f"a/f{number:05}") for number in range(SHOWN + 500)]
    shown = shown_of([[*many, created(rules), created("zz/.envrc")]], (ROOT,), PathPolicy.default())
    assert shown.total == SHOWN + 502
    assert {one.path for one in shown.views[:2]} == {rules, "zz/.envrc"}
    assert len(shown.views) == SHOWN
    assert shown.views[2].path == "a/f00000"  # the control: the rest as it comes


def test_all_that_landed_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [created(f"f{number}") for number in range(3)]
    say_landed({"id": "c1", "message": "", "changes": listed, "changes_total": 20_002})
    say_landed({"id": "c2", "message": "", "changes": listed})  # of an undo, say
    said = capsys.readouterr().err.splitlines()
    assert "landed 20002 changes" in said[0]
    assert "landed 3 changes" in said[1]
