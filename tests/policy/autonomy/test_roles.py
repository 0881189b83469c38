# SPDX-License-Identifier: Apache-2.0
"""The matrix of safety-guardrails.md ("Sub-Agent Constraints"), cell by cell, and own roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.autonomy.roles import MatrixCell, Role, Roles, RolesFile
from policy.facts import Facts, How, Touch
from policy.model import (
    Access,
    ActionPlan,
    LayerAnswer,
    Limits,
    Params,
    Rights,
    Tier,
    Verdict,
    strictest,
)
from policy.rules.tiers import VERDICTS, answers
from policy.values.strict_yaml import PolicyError, build, parse
from tests.policy.asking import CONTEXT

ROLES = Roles.default()
ALLOW, REPORT, ASK, DENY = Verdict
ORDER = list(Verdict)
WIDTH = list(Access)


def facts(*touches: tuple[How, str], rule: str = "", tier: Tier = Tier.CAUTION) -> Facts:
    """Return what a call does: paths, and one finding of the tier layer."""
    found = Facts()
    for how, path in touches:
        found.touch(Touch(how, path))
    if rule:
        found.find(tier, rule, f"`program`: {rule}")
    return found


READ = facts((How.READ, "/workspace/a.py"))
WRITE_IN = facts((How.WRITE, "/workspace/a.py"))
WRITE_OUT = facts((How.WRITE, "/srv/other/a.py"))
WRITE_TEMPORARY = facts((How.WRITE, "/tmp/x"))
DELETE = facts((How.DELETE, "/workspace/a.py"), rule="delete", tier=Tier.DANGER)
TESTS = facts(rule="tests")
CODE = facts(rule="code")
INSTALL = facts(rule="packages")
UNKNOWN = facts(rule="never-heard-of", tier=Tier.DANGER)
PUSH = facts(rule="git-push", tier=Tier.DANGER)


def verdict(role: str | None, done: Facts, command: str | None = None) -> Verdict:
    plan = ActionPlan(
        tool="Bash", params=Params(command=command), workspace="/workspace", role=role
    )
    said, _ = ROLES.answers(plan, done, answers(done), CONTEXT)
    return strictest(one.verdict for one in said) if said else ALLOW


MATRIX = {
    "Researcher can read: yes": ("Researcher", READ, ALLOW),
    "Researcher can write: no": ("Researcher", WRITE_IN, DENY),
    "Researcher can execute: no": ("Researcher", TESTS, DENY),
    "Researcher can push: no": ("Researcher", PUSH, DENY),
    "Coder can read: yes": ("Coder", READ, ALLOW),
    "Coder can write: project only, in the project": ("Coder", WRITE_IN, ALLOW),
    "Coder can write: project only, a temporary file": ("Coder", WRITE_TEMPORARY, ALLOW),
    "Coder can write: project only, elsewhere": ("Coder", WRITE_OUT, DENY),
    "Coder can write: project only, a deletion": ("Coder", DELETE, ALLOW),
    "Coder can execute: tests only, tests": ("Coder", TESTS, ALLOW),
    "Coder can execute: tests only, other code": ("Coder", CODE, DENY),
    "Coder can execute: tests only, an installation": ("Coder", INSTALL, DENY),
    "Coder can execute: tests only, what nobody knows": ("Coder", UNKNOWN, DENY),
    "Coder can push: no": ("Coder", PUSH, DENY),
    "Critic can read: yes": ("Critic", READ, ALLOW),
    "Critic can write: no": ("Critic", WRITE_IN, DENY),
    "Critic can execute: no": ("Critic", TESTS, DENY),
    "Critic can push: no": ("Critic", PUSH, DENY),
    "Deployer can read: yes": ("Deployer", READ, ALLOW),
    "Deployer can write: with approval": ("Deployer", WRITE_IN, ASK),
    "Deployer can write: with approval, elsewhere": ("Deployer", WRITE_OUT, ASK),
    "Deployer can execute: with approval": ("Deployer", CODE, ASK),
    "Deployer can execute: with approval, tests": ("Deployer", TESTS, ASK),
    "Deployer can push: with approval": ("Deployer", PUSH, ASK),
}
RIGHTS = {
    "Researcher": Access.READ,
    "Coder": Access.WRITE,
    "Critic": Access.READ,
    "Deployer": Access.WRITE,
}


@pytest.mark.parametrize("role, done, wanted", MATRIX.values(), ids=MATRIX)
def test_a_cell_of_the_matrix(role: str, done: Facts, wanted: Verdict) -> None:
    for spelling in (role, role.lower(), role.upper()):
        assert verdict(spelling, done) is wanted


@pytest.mark.parametrize("role, access", RIGHTS.items(), ids=RIGHTS)
def test_the_widest_rights_of_a_role(role: str, access: Access) -> None:
    found = ROLES.find(role)
    assert found is not None
    assert found.rights().workspace is access


def test_a_plan_without_a_role_is_not_bound() -> None:
    plan = ActionPlan(tool="Bash", workspace="/workspace")
    assert ROLES.answers(plan, CODE, answers(CODE), CONTEXT) == ([], None)


def test_an_unknown_role_may_do_nothing() -> None:
    plan = ActionPlan(tool="Bash", workspace="/workspace", role="emperor")
    said, rights = ROLES.answers(plan, READ, answers(READ), CONTEXT)
    assert rights == Rights()
    assert said == [
        LayerAnswer(
            layer="role",
            verdict=DENY,
            reason="there is no role `emperor`; roles are researcher, coder, critic, deployer",
            rule="role-unknown",
        )
    ]


def test_the_reason_names_role_and_act() -> None:
    plan = ActionPlan(tool="Write", workspace="/workspace", role="Critic")
    said, rights = ROLES.answers(plan, WRITE_IN, answers(WRITE_IN), CONTEXT)
    assert rights is not None and rights.workspace is Access.READ
    assert (
        LayerAnswer(
            layer="role",
            verdict=DENY,
            reason="`Critic` may not write: it writes in the project",
            rule="role-write",
        )
        in said
    )


TEST_COMMANDS = {
    "pytest": ("pytest -q tests", True),
    "pytest through python": ("python -m pytest -x", True),
    "npm test": ("npm test", True),
    "npm run test": ("npm run test -- --watch=false", True),
    "cargo test": ("cargo test --all", True),
    "go test": ("go test ./...", True),
    "make test": ("make test", True),
    "tests after a change of directory": ("cd web && npm test", True),
    "tests whose output is cut": ("pytest 2>&1 | tail -n 20", True),
    "tests with a setting": ("CI=1 npm test", True),
    "no tests at all": ("npm run build", False),
    "nothing but what stands beside tests": ("cd web && ls", False),
    "code beside tests": ("pytest && python evil.py", False),
    "code in the background of tests": ("npm test & python evil.py", False),
    "tests after code": ("python evil.py; npm test", False),
    "a substitution in tests": ("npm test $(python evil.py)", False),
    "a second line": ("npm test\npython evil.py", False),
    "a quoted sign": ("npm test '&&' python evil.py", False),
    "an odd sign": ("npm test ;& python evil.py", False),
    "an open quote": ("npm test 'x", False),
    "a mention of tests": ("echo pytest", False),
}


@pytest.mark.parametrize("command, tests", TEST_COMMANDS.values(), ids=TEST_COMMANDS)
def test_tests_are_recognised(command: str, tests: bool) -> None:
    assert ROLES.tests(command) is tests
    assert verdict("coder", INSTALL, command) is (ALLOW if tests else DENY)


def test_a_setting_of_the_loader_is_not_explained_by_tests() -> None:
    done = facts(rule="environment", tier=Tier.DANGER)
    assert verdict("coder", done, "LD_PRELOAD=./x.so npm test") is DENY


def test_publishing_is_a_push() -> None:
    done = facts(rule="network", tier=Tier.DANGER)
    done.programs["gh"] = None
    assert verdict("deployer", done) is ASK
    assert verdict("coder", done) is DENY


OWN = """
roles:
  Reviewer: {read: "yes", write: {within: ask, beyond: deny}, execute: tests only}
  coder: {read: "yes", write: "no", execute: "yes", push: "yes"}
"""


def file(text: str) -> RolesFile:
    return build(RolesFile, parse(text, "roles.yaml"), "roles.yaml")


def test_own_roles_and_what_they_do_not_say() -> None:
    reviewer = ROLES.extended(file(OWN)).find("reviewer")
    assert reviewer == Role(
        read=MatrixCell(within=ALLOW, beyond=ALLOW),
        write=MatrixCell(within=ASK, beyond=DENY),
        execute=MatrixCell(within=ALLOW, beyond=DENY),
        push=MatrixCell(within=DENY, beyond=DENY),
    )


def test_an_own_role_of_a_built_in_name_is_the_intersection() -> None:
    coder = ROLES.extended(file(OWN)).find("coder")
    assert coder is not None
    assert (coder.write.within, coder.execute.within, coder.push.within) == (DENY, ALLOW, DENY)
    assert coder.execute.beyond is DENY


WRONG = {
    "a permission that does not exist": (
        "roles: {x: {read: perhaps}}",
        r"roles.yaml: `roles.x.read`: .*`perhaps` is not a permission; use one of yes, no, with",
    ),
    "a column that does not exist": ("roles: {x: {reed: 'yes'}}", r"roles.yaml: `roles.x.reed`"),
    "a name that joins parent and child": (
        "roles: {a/b: {read: 'yes'}}",
        r"roles.yaml: `roles`: .*`a/b` cannot name a role",
    ),
    "more beyond the project than within": (
        "roles: {x: {write: {within: deny, beyond: allow}}}",
        "as strict as what lies within",
    ),
}


@pytest.mark.parametrize("text, message", WRONG.values(), ids=WRONG)
def test_a_wrong_role_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        file(text)


def test_a_child_is_named_after_its_parent() -> None:
    assert ROLES.child("coder", "deployer") == "coder/deployer"
    assert ROLES.child("coder", None) == "coder"
    assert ROLES.child(None, "critic") == "critic"
    assert ROLES.child(None, None) is None
    assert ROLES.find("coder/emperor") is None


def test_a_deployer_under_a_coder_asks_within_the_project_alone() -> None:
    assert verdict("coder/deployer", WRITE_IN) is ASK
    assert verdict("coder/deployer", WRITE_OUT) is DENY
    assert verdict("coder/deployer", PUSH) is DENY
    assert verdict("critic/coder", WRITE_IN) is DENY


CELLS = st.tuples(st.sampled_from(ORDER), st.sampled_from(ORDER)).map(
    lambda two: MatrixCell(within=min(two, key=ORDER.index), beyond=max(two, key=ORDER.index))
)
LIMITS = st.integers(1, 1000).map(lambda seconds: Limits(seconds=seconds))
ANY_ROLE = st.builds(Role, read=CELLS, write=CELLS, execute=CELLS, push=CELLS, limits=LIMITS)
RULES = st.sampled_from(["tests", "code", "git-push", "delete", "write", "network", "x", "read"])
DONE = st.builds(
    lambda paths, rule, tier: facts(*paths, rule=rule, tier=tier),
    st.lists(
        st.tuples(st.sampled_from(How), st.sampled_from(["/workspace/a", "/srv/b", "/tmp/c"]))
    ),
    RULES,
    st.sampled_from(Tier),
)
COMMANDS = st.sampled_from([None, "npm test", "ls", "python a.py && npm test"])


def answer(roles: Roles, name: str, done: Facts, command: str | None) -> tuple[int, Rights]:
    plan = ActionPlan(
        tool="Bash", params=Params(command=command), workspace="/workspace", role=name
    )
    said, rights = roles.answers(plan, done, answers(done), CONTEXT)
    assert rights is not None
    return ORDER.index(strictest(one.verdict for one in said)), rights


@given(ANY_ROLE, ANY_ROLE, DONE, COMMANDS)
def test_a_child_is_never_wider_than_its_parent(
    parent: Role, child: Role, done: Facts, command: str | None
) -> None:
    roles = ROLES.extended(RolesFile(roles={"p": parent, "c": child}))
    joint, rights = answer(roles, "p/c", done, command)
    for name in ("p", "c"):
        alone, wide = answer(roles, name, done, command)
        assert joint >= alone
        assert WIDTH.index(rights.workspace) <= WIDTH.index(wide.workspace)
        assert rights.limits == rights.limits.meet(wide.limits)


@given(ANY_ROLE, ANY_ROLE, ANY_ROLE)
def test_intersections_do_not_depend_on_order(one: Role, two: Role, three: Role) -> None:
    assert one.meet(two) == two.meet(one)
    assert one.meet(two).meet(three) == one.meet(two.meet(three))
    assert one.meet(one) == one


@given(ANY_ROLE, st.sampled_from(ROLES.names), DONE, COMMANDS)
def test_adding_a_role_never_loosens_another(
    role: Role, name: str, done: Facts, command: str | None
) -> None:
    before = answer(ROLES, name, done, command)
    for added in ("x", name):
        after = answer(ROLES.extended(RolesFile(roles={added: role})), name, done, command)
        assert after[0] >= before[0]
        assert WIDTH.index(after[1].workspace) <= WIDTH.index(before[1].workspace)


@given(st.text(max_size=40).filter(bool), DONE, st.text(max_size=80))
def test_every_role_and_call_gets_an_answer(name: str, done: Facts, command: str) -> None:
    first = answer(ROLES, name, done, command)
    assert answer(ROLES, name, done, command) == first


@given(DONE, COMMANDS)
def test_no_role_lowers_what_a_tier_says(done: Facts, command: str | None) -> None:
    said = answers(done)
    worst = strictest(one.verdict for one in said)
    plan = ActionPlan(
        tool="Bash", params=Params(command=command), workspace="/workspace", role="coder"
    )
    found, _ = ROLES.answers(plan, done, said, CONTEXT)
    assert ORDER.index(strictest(one.verdict for one in [*said, *found])) >= ORDER.index(worst)
    assert worst in VERDICTS.values()
