# SPDX-License-Identifier: Apache-2.0
"""What `make check` says of the corpora: rates, wrong verdicts, false alarms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy.model import Verdict
from sandbox.policy_tools.rates import main, rates


def corpus(folder: Path, name: str, *cases: tuple[str, list[str]]) -> Path:
    file = folder / f"{name}.jsonl"
    lines = (json.dumps({"command": command, "accept": accept}) for command, accept in cases)
    file.write_text("\n".join(lines) + "\n")
    return file


def test_right_verdicts_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = corpus(tmp_path, "denied", ("rm -rf src", ["deny"]), ("rm -rf lib", ["deny"]))
    assert main([str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("denied          2 commands: 100.0% denied,   0.0% asked")
    assert said.endswith("0 wrong, 0 false alarms\n")


def test_a_wrong_verdict_is_shown_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = corpus(tmp_path, "denied", ("ls -la", ["deny"]), ("rm -rf src", ["deny"]))
    assert main([str(file)]) == 1
    said = capsys.readouterr().out
    assert "1 wrong, 0 false alarms\n  allow: 'ls -la'\n" in said


def test_refused_work_is_a_false_alarm() -> None:
    found = rates("allowed", [("rm -rf src", ["allow", "report"]), ("ls", ["allow"])])
    assert found.false_alarms == 1
    assert found.verdicts == {Verdict.DENY: 1, Verdict.ALLOW: 1}


def test_a_line_that_is_no_case_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"command": "ls"}\n')
    with pytest.raises(SystemExit, match=r"x\.jsonl:1: write an object with"):
        main([str(file)])
