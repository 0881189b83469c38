# SPDX-License-Identifier: Apache-2.0
"""Properties of gate 1: total, deterministic, free of order, never looser (P7)."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.engine import Policy, decide
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Params,
    Tier,
    Verdict,
    Workspace,
    strictest,
)
from policy.paths import absolute
from policy.rules import Check, Checks, CommandRule, PolicyFile, Rule, Triggers

POLICY = Policy.default()
CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/home/me")
ORDER = list(Verdict)

PIECES = st.sampled_from(
    ["ls", "cat", "a", ".env", "rm", "-rf", "git", "push", "status", "|", ";", "&&", ">", "<<E\n",
     "\nE\n", "$(", ")", "`", "'", '"', "$x", "x=", "${x:-", "}", "{", "(", "\\", "\n", "#",
     "for i in", "; do", "; done", "if", "then", "fi", "[[", "]]", "*", "~", "/", "../",
     "python3 -c", "sh -c", "sed", "awk", "find . -exec", "\u202e", "\ue000", "\x00", "eval",
     "devkit.config.json", "é"]
)  # fmt: skip
COMMANDS = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=14).map(" ".join),
    st.lists(PIECES, max_size=14).map("".join),
)
NAMES = st.sampled_from(["src", "a.py", "README.md", ".devkit-waiver.yml", "docs"])
CHECKS = st.builds(
    Check,
    id=st.just("c"),
    writes=st.tuples(NAMES),
    reads=st.tuples(NAMES),
    decision=st.sampled_from(["allow", "deny", "allow_with_constraints"]),
)
RULES = st.builds(
    Rule,
    id=st.sampled_from(["r1", "r2"]),
    name=st.just("A rule"),
    triggers=st.builds(Triggers, file_patterns=st.tuples(NAMES)),
    enforcement=st.builds(Checks, checks=st.tuples(CHECKS)),
)
COMMAND_RULES = st.builds(
    CommandRule,
    id=st.just("p"),
    programs=st.tuples(st.sampled_from(["ls", "git", "cat", "touch"])),
    tier=st.sampled_from(list(Tier)),
    because=st.just("of a test"),
    match=st.just(("ls",)),
)
WORK = st.sampled_from(
    [
        "ls",
        "cat a.py",
        "touch src/a.py",
        "echo x > README.md",
        "git status",
        "rm a.py",
        "cp a.py docs/",
        "cat docs/x; touch x",
    ]
)


def plan(command: str) -> ActionPlan:
    return ActionPlan(tool="Bash", params=Params(command=command), workspace="/workspace")


@settings(max_examples=400, deadline=None)
@given(COMMANDS)
def test_every_text_gets_the_same_answer_twice(command: str) -> None:
    first = decide(plan(command), CONTEXT, POLICY)
    assert decide(plan(command), CONTEXT, POLICY) == first
    assert "\n" not in first.message


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.text(alphabet=string.printable, max_size=30))
def test_every_tool_and_path_gets_an_answer(tool: str, path: str) -> None:
    asked = ActionPlan(
        tool=tool or "x",
        params=Params(file_path=path, path=path, pattern=path),
        workspace="/workspace",
    )
    assert decide(asked, CONTEXT, POLICY).verdict in ORDER


@settings(max_examples=200, deadline=None)
@given(WORK, st.lists(RULES, max_size=3), st.lists(COMMAND_RULES, max_size=2))
def test_adding_rules_never_loosens(
    command: str, rules: list[Rule], commands: list[CommandRule]
) -> None:
    before = decide(plan(command), CONTEXT, POLICY)
    after = decide(
        plan(command),
        CONTEXT,
        POLICY.tightened(PolicyFile(rules=tuple(rules), commands=tuple(commands))),
    )
    assert ORDER.index(after.verdict) >= ORDER.index(before.verdict)
    assert after.rights.meet(before.rights) == after.rights


@settings(max_examples=200, deadline=None)
@given(WORK, st.lists(RULES, min_size=2, max_size=4))
def test_the_order_of_rules_does_not_matter(command: str, rules: list[Rule]) -> None:
    one = decide(plan(command), CONTEXT, POLICY.tightened(PolicyFile(rules=tuple(rules))))
    other = decide(
        plan(command), CONTEXT, POLICY.tightened(PolicyFile(rules=tuple(reversed(rules))))
    )
    assert (one.verdict, one.tier, one.rights) == (other.verdict, other.tier, other.rights)


@given(COMMANDS)
@settings(max_examples=200, deadline=None)
def test_whatever_is_read_only_has_no_write_right(command: str) -> None:
    decision = decide(plan(command), CONTEXT, POLICY)
    if decision.rights.workspace is Access.READ:
        tier = [one for one in decision.layers if one.layer == "tier"]
        assert {one.verdict for one in tier} == {Verdict.ALLOW}
    if decision.verdict is Verdict.DENY:
        assert decision.rights.workspace is Access.NONE


@given(COMMANDS, COMMANDS)
@settings(max_examples=200, deadline=None)
def test_a_forbidden_command_stays_forbidden_in_company(before: str, after: str) -> None:
    quiet = "".join(one for one in before if one.isalnum() or one == " ")
    tail = "".join(one for one in after if one.isalnum() or one == " ")
    assert (
        decide(plan(f"echo {quiet}; rm -rf src; echo {tail}"), CONTEXT, POLICY).verdict
        is Verdict.DENY
    )


@given(st.text(max_size=40))
def test_normalising_a_path_is_idempotent(path: str) -> None:
    once = absolute(path, "/workspace")
    assert absolute(once, "/workspace") == once


@given(st.lists(st.sampled_from(ORDER)))
def test_no_answer_at_all_means_ask(verdicts: list[Verdict]) -> None:
    assert strictest(verdicts) is (max(verdicts, key=ORDER.index) if verdicts else Verdict.ASK)
