# SPDX-License-Identifier: Apache-2.0
"""Of which calls a report is due: YELLOW ones, and those that a policy file wants reported."""

from __future__ import annotations

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Verdict
from policy.people.due import is_due
from policy.protected.paths import PathPolicy
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine
from tests.policy.asking import CONTEXT, plan

FILE = """
version: 1
tools: {report: [Read]}
commands:
  - id: looked-at
    programs: [wc]
    tier: caution
    because: we count who counts
    match: [wc -l a]
    miss: [ls]
programs:
  - id: ours
    programs: [frob]
    tier: caution
    because: it is ours
    match: [frob]
    miss: [ls]
rules:
  - id: careful
    name: Careful
    because: it is delicate
    triggers: {file_patterns: ["db/**"]}
    enforcement:
      checks: [{id: narrow, writes: ["db/**"], decision: allow_with_constraints}]
    match: [db/a.sql]
    miss: [src/a]
"""
CALLS = {
    "a tool": (plan("Read", file_path="a.txt"), True),
    "a program": (plan("Bash", command="wc -l a.txt"), True),
    "a program of one's own": (plan("Bash", command="frob"), True),
    "a rule on files": (plan("Write", file_path="db/a.sql", content="x"), True),
    "GREEN by the built-in rules": (plan("Write", file_path="src/a", content="x"), False),
    "what only reads": (plan("Bash", command="ls"), False),
}


@pytest.mark.parametrize("call, due", CALLS.values(), ids=CALLS)
def test_what_a_policy_file_wants_reported_is(call: ActionPlan, due: bool) -> None:
    source = Source(Layer.USER, read_document(FILE, "p.yaml"), True)
    policy = combine(Policy.default(), PathPolicy.default(), [source]).policy
    decision = decide(call, CONTEXT, policy)
    assert decision.verdict in (Verdict.REPORT, Verdict.ALLOW)
    assert is_due(decision) is due
    assert not is_due(decide(call, CONTEXT, Policy.default())) or "frob" in str(call.params)


def test_what_is_yellow_is_reported() -> None:
    assert is_due(decide(plan("Bash", command="git commit -m x"), CONTEXT, Policy.default()))
