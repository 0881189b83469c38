# SPDX-License-Identifier: Apache-2.0
"""Gate 1 answers where digits are none that `int` reads: `²`, and thousands of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Decision, Verdict, Workspace
from policy.values.numbers import BEYOND, natural

POLICY = Policy.default()
CONTEXT = Context((Workspace("/w"),), home="/home/me")
TEMPLATES = (
    """python3 -c "for i in range('{}'): open(f'a{{i}}', 'w')\"""",
    """python3 -c "import sys; print([1, 2]['{}'])\"""",
    """python3 -c "print(chr('{}'))\"""",
    """python3 -c "import os; os.chmod('a', '{}')\"""",
    "shift {}",
    "ls | xargs -n {} echo",
    "a[{}]=1; echo ${{a[{}]}}",
    "set -- a b; echo ${{{}}}",
    "printf '%.{}s' a",
    "head -n {} a | tail -n +{} | cut -c {}-",
    "echo ${{PATH:{}}} {{1..{}}}",
    "sleep {}; timeout {} ls; seq {}",
)
DIGITS = ("²", "٣", "1²", "\u0d66", "9" * 5000, "0" * 5000 + "1", "-²")


def decided(command: str) -> Decision:
    plan = {"tool": "Bash", "params": {"command": command}, "workspace": "/w"}
    return decide(ActionPlan.model_validate(plan), CONTEXT, POLICY)


@pytest.mark.parametrize("template", TEMPLATES)
def test_odd_digits_are_answered(template: str) -> None:
    for digits in DIGITS:
        decided(template.replace("{}", digits).replace("{{", "{").replace("}}", "}"))


@given(st.sampled_from(TEMPLATES), st.text("²³¹٣५０①½-+.0123456789", min_size=1, max_size=6))
def test_any_digits_are_answered(template: str, digits: str) -> None:
    decided(template.replace("{}", digits).replace("{{", "{").replace("}}", "}"))


@pytest.mark.parametrize(
    "command, verdict",
    [
        ('set -- a rm -rf /; shift 1; "$@"', Verdict.DENY),
        ('set -- rm echo a; shift 1; "$@"', Verdict.ALLOW),
        ("echo -rf / | xargs -n 2 rm", Verdict.DENY),
    ],
)
def test_numbers_count_as_before(command: str, verdict: Verdict) -> None:
    assert decided(command).verdict is verdict


def test_what_a_number_is() -> None:
    assert [natural(one) for one in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]
    assert natural("9" * 19) == natural("9" * 5000) == BEYOND
    assert natural("0" * 5000 + "1") == 1
    assert [natural(one) for one in ("", "²", "٣", "-1", "+1", " 1", "1_0")] == [None] * 7
