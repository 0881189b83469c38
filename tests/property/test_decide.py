# SPDX-License-Identifier: Apache-2.0
"""Properties of gate 1: total, deterministic, free of order, never looser (P7)."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.gate1.decide import Policy, apply_second_reading, decide, lacking_second_reading
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    Landing,
    Params,
    Tier,
    Verdict,
    Workspace,
    strictest,
)
from policy.protected.paths import PathPolicy
from policy.rules.matching import Check, Checks, CommandRule, PolicyFile, Rule, Triggers
from policy.sources.document import Document, read_document
from policy.sources.precedence import Layer, Source, combine
from policy.values.paths import absolute
from tests.examples import examples

POLICY = Policy.default()
CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/home/me")
ORDER = list(Verdict)

PIECES = st.sampled_from(
    ["ls", "cat", "a", ".env", "rm", "-rf", "git", "push", "status", "|", ";", "&&", ">", "<<E\n",
     "\nE\n", "$(", ")", "`", "'", '"', "$x", "x=", "${x:-", "}", "{", "(", "\\", "\n", "#",
     "for i in", "; do", "; done", "if", "then", "fi", "[[", "]]", "*", "~", "/", "../",
     "python3 -c", "sh -c", "sed", "awk", "find . -exec", "\u202e", "\ue000", "\x00", "eval",
     "devkit.config.json", "é", "²", "shift", "xargs -n", "a[", "]="]
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


@settings(max_examples=examples(400), deadline=None)
@given(COMMANDS)
def test_every_text_gets_the_same_answer_twice(command: str) -> None:
    first = decide(plan(command), CONTEXT, POLICY)
    assert decide(plan(command), CONTEXT, POLICY) == first
    assert "\n" not in first.message


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=30), st.text(alphabet=string.printable, max_size=30))
def test_every_tool_and_path_gets_an_answer(tool: str, path: str) -> None:
    asked = ActionPlan(
        tool=tool or "x",
        params=Params(file_path=path, path=path, pattern=path),
        workspace="/workspace",
    )
    assert decide(asked, CONTEXT, POLICY).verdict in ORDER


@settings(max_examples=examples(200), deadline=None)
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


@settings(max_examples=examples(200), deadline=None)
@given(WORK, st.lists(RULES, min_size=2, max_size=4))
def test_the_order_of_rules_does_not_matter(command: str, rules: list[Rule]) -> None:
    one = decide(plan(command), CONTEXT, POLICY.tightened(PolicyFile(rules=tuple(rules))))
    other = decide(
        plan(command), CONTEXT, POLICY.tightened(PolicyFile(rules=tuple(reversed(rules))))
    )
    assert (one.verdict, one.tier, one.rights) == (other.verdict, other.tier, other.rights)


@given(COMMANDS)
@settings(max_examples=examples(200), deadline=None)
def test_whatever_is_read_only_has_no_write_right(command: str) -> None:
    decision = decide(plan(command), CONTEXT, POLICY)
    if decision.rights.workspace is Access.READ:
        tier = [one for one in decision.layers if one.layer == "tier"]
        assert {one.verdict for one in tier} == {Verdict.ALLOW}
    if decision.verdict is Verdict.DENY:
        assert decision.rights.workspace is Access.NONE


@given(COMMANDS, COMMANDS)
@settings(max_examples=examples(200), deadline=None)
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


# -- all layers: who asks, and policy files

FILES = (
    "levels: {users: {default: {overrides: {git: green}}}}\n",
    "modes: {mode: conservative}\n",
    "modes: {mode: autonomous}\n",
    "trust: {agents: {main: propose}}\n",
    "trust: {pins: {'*': supervised}}\n",
    "trust: {pins: {main: autonomous}}\n",
    "secrets: {hide: ['*.py'], match: [a.py]}\n",
    "places: {secret_files: [README.md]}\n",
    "limits: {changed_files: 1}\n",
    "commands: [{id: c, programs: [touch], tier: forbidden, because: a test, match: [touch a]}]\n",
    "governance: [{id: g, name: G, because: a test, paths: ['README.md'], allowed_path: ask,"
    " match: [README.md]}]\n",
)
DOCUMENTS = [read_document(one, "policy.yaml") for one in FILES]
ROLES = st.sampled_from(["Researcher", "Coder", "Critic", "Deployer", "Unheard-of"])
LANDING = list(Landing)


def effective(documents: list[Document], *, trusted: bool) -> Policy:
    sources = [Source(Layer.WORKSPACE, one, trusted=trusted) for one in documents]
    return combine(POLICY, PathPolicy.default(), sources).policy


def not_looser(before: Decision, after: Decision) -> None:
    assert ORDER.index(after.verdict) >= ORDER.index(before.verdict)
    assert after.rights.meet(before.rights) == after.rights
    assert LANDING.index(after.landing) <= LANDING.index(before.landing)


def test_a_file_that_nobody_trusts_can_tighten() -> None:
    """The control: the files of these tests do change decisions."""
    strict = effective(DOCUMENTS, trusted=False)
    for command in ("touch src/a.py", "cat README.md"):
        assert decide(plan(command), CONTEXT, POLICY).allowed
        assert not decide(plan(command), CONTEXT, strict).allowed


@settings(max_examples=examples(150), deadline=None)
@given(WORK, st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3))
def test_a_file_that_nobody_trusts_never_loosens_nor_widens(
    command: str, documents: list[Document]
) -> None:
    before = decide(plan(command), CONTEXT, POLICY)
    not_looser(before, decide(plan(command), CONTEXT, effective(documents, trusted=False)))


@settings(max_examples=examples(100), deadline=None)
@given(WORK, st.permutations(DOCUMENTS))
def test_the_order_of_files_that_nobody_trusts_does_not_matter(
    command: str, documents: list[Document]
) -> None:
    one = decide(plan(command), CONTEXT, effective(DOCUMENTS, trusted=False))
    other = decide(plan(command), CONTEXT, effective(documents, trusted=False))
    assert (one.verdict, one.tier, one.rights) == (other.verdict, other.tier, other.rights)


@settings(max_examples=examples(150), deadline=None)
@given(WORK, ROLES)
def test_a_role_never_loosens_nor_widens(command: str, role: str) -> None:
    asked = plan(command)
    before = decide(asked, CONTEXT, POLICY)
    not_looser(before, decide(asked.model_copy(update={"role": role}), CONTEXT, POLICY))


@settings(max_examples=examples(150), deadline=None)
@given(WORK, st.sampled_from(["propose", "supervised", "semi-auto", "autonomous", "unknown"]))
def test_less_trust_never_loosens(command: str, level: str) -> None:
    most = Context(CONTEXT.workspaces, CONTEXT.home, trust=(("code_changes", "autonomous"),))
    less = Context(CONTEXT.workspaces, CONTEXT.home, trust=(("code_changes", level),))
    not_looser(decide(plan(command), most, POLICY), decide(plan(command), less, POLICY))


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(raw: bytes) -> None:
    for text in (raw.decode("latin-1"), raw.decode("utf-8", "surrogateescape")):
        decision = decide(plan(text), CONTEXT, POLICY)
        assert decision.verdict in ORDER
        assert decision.layers


@settings(max_examples=examples(150), deadline=None)
@given(COMMANDS, st.lists(st.sampled_from(["ls", "git", "nmap", "", "x/y"]), max_size=4))
def test_a_second_reading_never_loosens(command: str, seen: list[str]) -> None:
    decision = decide(plan(command), CONTEXT, POLICY)
    for after in (apply_second_reading(decision, seen, POLICY), lacking_second_reading(decision)):
        assert ORDER.index(after.verdict) >= ORDER.index(decision.verdict)
        assert after.rights == decision.rights
