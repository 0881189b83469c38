# SPDX-License-Identifier: Apache-2.0
"""The second reading of shell text: a program of its own that can only tighten."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from policy.gate1.decide import Policy, apply_second_reading, decide
from policy.model import Verdict
from tests.policy.asking import CONTEXT, plan

ASKED = [
    "ls -la | grep x && git status",
    "cat <<'E'\nx\nE",
    "echo $(date) `pwd`",
    "case x in x) ls;; esac",
    "((",
]


def answers(lines: list[str]) -> list[dict[str, object]]:
    text = "".join(json.dumps({"text": one}) + "\n" for one in lines)
    done = subprocess.run(
        [sys.executable, "-m", "policy.gate1.bashlex_worker"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(one) for one in done.stdout.splitlines()]


def test_it_names_programs_or_refuses() -> None:
    said = answers(ASKED)
    assert said[0] == {"programs": ["ls", "grep", "git"]}
    assert said[2] == {"programs": ["echo", "date", "pwd"]}
    assert [sorted(one) for one in said] == [
        ["programs"],
        ["refused"],
        ["programs"],
        ["refused"],
        ["refused"],
    ]


def test_a_line_that_is_no_question_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "policy.gate1.bashlex_worker"],
        input='nonsense\n{"text": 5}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [sorted(json.loads(one)) for one in done.stdout.splitlines()] == [["refused"]] * 2


SEEN = {
    "the same programs change nothing": ("ls | grep x", ["ls", "grep"], Verdict.ALLOW),
    "another spelling of the path changes nothing": ("/bin/ls", ["/usr/bin/ls"], Verdict.ALLOW),
    "a version in the name changes nothing": (
        "python3 -m pytest",
        ["python3.11"],
        Verdict.REPORT,
    ),
    "a program that was overlooked is asked about": ("ls", ["ls", "nmap"], Verdict.ASK),
    "a denial stays a denial": ("rm -rf src", [], Verdict.DENY),
}


@pytest.mark.parametrize("command, seen, verdict", SEEN.values(), ids=SEEN)
def test_a_second_reading_only_tightens(command: str, seen: list[str], verdict: Verdict) -> None:
    asked = plan("Bash", command=command)
    policy = Policy.default()
    decision = decide(asked, CONTEXT, policy)
    heeded = apply_second_reading(decision, seen, policy)
    assert heeded.verdict is verdict
    assert heeded.rights == decision.rights
