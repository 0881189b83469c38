# SPDX-License-Identifier: Apache-2.0
"""Levels, modes, trust and roles as layers of gate 1: what configuration changes, and what not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.autonomy.authority import AutonomyLayers
from policy.autonomy.levels import LevelsFile
from policy.autonomy.modes import Mode, ModesFile
from policy.autonomy.reputation import TrustLevel
from policy.autonomy.roles import RolesFile
from policy.autonomy.trust import TrustFile
from policy.gate1.decide import Policy, apply_second_reading, decide
from policy.model import (
    Access,
    ActionPlan,
    Decision,
    Landing,
    Network,
    Params,
    Rights,
    Tier,
    Verdict,
)
from policy.rules.matching import PolicyFile
from policy.values.strict_yaml import PolicyError, build, parse
from tests.examples import examples
from tests.policy.asking import CONTEXT, bash
from tests.policy.autonomy.test_levels import AGENT_FILES, AGENTS, USERS

POLICY = Policy.default()
ORDER = list(Verdict)
WIDTH = list(Access)
OTTO = POLICY.autonomy.extended(levels=build(LevelsFile, parse(USERS, "u"), "u")).extended(
    levels=build(LevelsFile, parse(AGENTS, "a"), "a")
)


def ask(
    command: str,
    standing: AutonomyLayers | None = None,
    *,
    user: str = "default",
    agent: str = "main",
    role: str | None = None,
    trust: tuple[tuple[str, str], ...] = (),
) -> Decision:
    plan = ActionPlan(
        tool="Bash",
        params=Params(command=command),
        workspace="/workspace",
        user=user,
        agent=agent,
        role=role,
    )
    policy = replace(POLICY, autonomy=standing or POLICY.autonomy)
    return decide(plan, replace(CONTEXT, trust=trust), policy)


def levels(text: str) -> AutonomyLayers:
    return POLICY.autonomy.extended(levels=build(LevelsFile, parse(text, "x"), "x"))


UNCONFIGURED = {
    "a reader runs": ("ls", "allow"),
    "a commit is reported": ("git commit -m x", "report"),
    "a push asks": ("git push", "ask"),
    "a deletion of a tree is denied": ("rm -rf src", "deny"),
}


@pytest.mark.parametrize("command, verdict", UNCONFIGURED.values(), ids=UNCONFIGURED)
def test_without_configuration_the_tiers_decide(command: str, verdict: str) -> None:
    decision = ask(command)
    assert decision.verdict is Verdict(verdict)
    assert decision.landing is Landing.AT_ONCE
    assert all(not one.rule for one in decision.layers if one.layer in ("level", "mode", "trust"))


OTTOS = {
    "otto's push needs no question and no report": ("git push", "allow"),
    "otto's commit needs no report": ("git commit -m x", "allow"),
    "otto's deletion asks": ("rm a.txt", "ask"),
    "otto's push beside a deletion asks": ("git push && rm a.txt", "ask"),
    "otto's installation is reported": ("pip install x", "report"),
    "otto's scheduling needs no question": ("crontab -l", "allow"),
    "otto's deletion of a tree is denied": ("rm -rf src && git push", "deny"),
    "otto's governance file is denied": ("git push && touch .devkit-waiver.yml", "deny"),
    "otto's secret is denied": ("git push && cat ~/.ssh/id_rsa", "deny"),
    "otto's cleaning of the worktree asks": ("git clean -f notes.txt", "ask"),
    "a program that git runs asks": ("git -c core.pager=x log", "ask"),
}


@pytest.mark.parametrize("command, verdict", OTTOS.values(), ids=OTTOS)
def test_a_users_override_lowers_its_category_alone(command: str, verdict: str) -> None:
    assert ask(command, OTTO, user="otto").verdict is Verdict(verdict)


def test_an_override_does_not_narrow_rights_or_hide_the_tier() -> None:
    decision = ask("git push", OTTO, user="otto")
    assert (decision.tier, decision.rights.workspace) == (Tier.DANGER, Access.WRITE)
    assert decision.message == (
        "allowed: `git push`: it leaves the machine; commit locally if that is enough"
        " (green by the word of `otto`: Git Operations) (rule `git-push`)"
    )


def test_publishing_is_not_a_mere_installation() -> None:
    free = levels("users: {default: {overrides: {packages: green}}}")
    assert ask("pip install x", free).verdict is Verdict.ALLOW
    assert ask("twine upload dist/x", free).verdict is Verdict.ASK


def test_an_override_of_one_user_is_nobody_elses() -> None:
    assert ask("git push", OTTO, user="mallory").verdict is Verdict.ASK


def test_an_override_never_lowers_a_role() -> None:
    assert ask("git push", OTTO, user="otto", role="coder").verdict is Verdict.DENY
    assert ask("git push", OTTO, user="otto", role="deployer").verdict is Verdict.ASK


def test_an_override_never_lowers_a_rule() -> None:
    file = build(
        PolicyFile,
        {
            "commands": [
                {
                    "id": "no-push",
                    "programs": ["git push"],
                    "tier": "danger",
                    "because": "x",
                    "match": ["git push"],
                }
            ]
        },
        "x",
    )
    plan = ActionPlan(
        tool="Bash", params=Params(command="git push"), workspace="/workspace", user="otto"
    )
    policy = replace(POLICY.tightened(file), autonomy=OTTO)
    decision = decide(plan, CONTEXT, policy)
    assert (decision.verdict, decision.rules[0]) == (Verdict.ASK, "no-push")


AGENTS_ASK = {
    "a cron agent of otto pushes and reports": ("git push", "cron:nightly", "report"),
    "a sub-agent of otto pushes": ("git push", "sub:1", "allow"),
    "a widget agent asks before a commit": ("pip install x", "specialist:widget", "ask"),
    "a widget agent reads": ("ls", "specialist:widget", "allow"),
}


@pytest.mark.parametrize("command, agent, verdict", AGENTS_ASK.values(), ids=AGENTS_ASK)
def test_an_agents_level_tightens(command: str, agent: str, verdict: str) -> None:
    trusted = OTTO.extended(trust=TrustFile(start=TrustLevel.AUTONOMOUS))
    assert ask(command, trusted, user="otto", agent=agent).verdict is Verdict(verdict)


def test_what_a_sub_agent_may_not_do_is_escalated() -> None:
    found = [one for one in ask("rm a.txt", agent="sub:1").layers if one.layer == "level"]
    assert found[0].reason == (
        "Destructive Ops: red for `default`; `sub:1` may at most do yellow,"
        " its parent must ask for it"
    )


def test_a_level_that_decides_names_its_rule() -> None:
    decision = ask("git commit -m x", levels("users: {default: {overrides: {git: red}}}"))
    assert decision.verdict is Verdict.ASK
    assert ask("ls", levels("agent_overrides: {main: {code_exec: red}}")).message == (
        "a person must approve: Code Execution: red for `default` (rule `level-code_exec`); "
        "instead: work on, and let a person approve this call"
    )


MODES = {
    "conservative asks before a command": ("conservative", "ls", "ask", "mode-conservative"),
    "standard asks before a command": ("standard", "ls", "ask", "mode-standard"),
    "autonomous does not": ("autonomous", "ls", "allow", "read"),
    "conservative denies what is forbidden": (
        "conservative", "rm -rf src", "deny", "recursive-delete"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode, command, verdict, rule", MODES.values(), ids=MODES)
def test_a_mode_acts(mode: str, command: str, verdict: str, rule: str) -> None:
    decision = ask(command, POLICY.autonomy.extended(modes=ModesFile(mode=Mode(mode))))
    assert (decision.verdict, decision.rules[0]) == (Verdict(verdict), rule)


TRUST = {
    "propose works out a proposal": ("propose", "touch a", "report", Landing.PROPOSAL),
    "propose reads": ("propose", "ls", "allow", Landing.PROPOSAL),
    "supervised asks before a write": ("supervised", "touch a", "ask", Landing.APPROVED),
    "supervised reads": ("supervised", "ls", "allow", Landing.APPROVED),
    "semi-auto writes": ("semi-auto", "touch a", "report", Landing.DELAYED),
    "autonomous writes": ("autonomous", "touch a", "report", Landing.AT_ONCE),
}


@pytest.mark.parametrize("level, command, verdict, landing", TRUST.values(), ids=TRUST)
def test_trust_acts(level: str, command: str, verdict: str, landing: Landing) -> None:
    decision = ask(command, agent="a", trust=(("code_changes", level),))
    assert (decision.verdict, decision.landing) == (Verdict(verdict), landing)


def test_trust_is_kept_per_domain() -> None:
    earned = (("code_changes", "autonomous"), ("deployments", "propose"))
    assert ask("touch a", agent="a", trust=earned).landing is Landing.AT_ONCE
    assert ask("terraform apply", agent="a", trust=earned).landing is Landing.PROPOSAL


def test_an_installation_is_reported_though_green_lists_it_too() -> None:
    decision = ask("npm install lodash")
    assert decision.verdict is Verdict.REPORT, "the stricter of both tables counts"
    assert next(one for one in decision.layers if one.layer == "level").reason == (
        "Package Installation: yellow for `default`"
    )


def test_a_users_word_for_an_agent_unpins_it() -> None:
    own = TrustFile.model_validate({"agents": {"main": "semi-auto"}})
    assert ask("touch a", POLICY.autonomy.extended(trust=own)).landing is Landing.DELAYED
    pinned = TrustFile.model_validate({"pins": {"main": "supervised"}})
    assert ask("touch a", POLICY.autonomy.extended(trust=pinned)).landing is Landing.APPROVED
    other = TrustFile.model_validate({"agents": {"other": "semi-auto"}})
    assert ask("touch a", POLICY.autonomy.extended(trust=other)).landing is Landing.AT_ONCE


def test_a_call_in_two_domains_is_trusted_as_in_the_lower() -> None:
    both = "touch a && terraform apply"
    for code, deployments in (("propose", "autonomous"), ("autonomous", "propose")):
        earned = (("code_changes", code), ("deployments", deployments))
        assert ask(both, agent="a", trust=earned).landing is Landing.PROPOSAL
    earned = (("code_changes", "autonomous"), ("deployments", "autonomous"))
    assert ask(both, agent="a", trust=earned).landing is Landing.AT_ONCE


WAITS = {
    "five seconds unless said": (None, None, 5),
    "as a user says": (2, None, 2),
    "not at all": (0, None, 0),
    "longer where a stricter file says so": (2, 30, 30),
    "never shorter than a user says": (20, 3, 20),
}


@pytest.mark.parametrize("own, stricter, seconds", WAITS.values(), ids=WAITS)
def test_changes_of_a_semi_auto_agent_wait(
    own: float | None, stricter: float | None, seconds: float
) -> None:
    standing = POLICY.autonomy
    if own is not None:
        standing = standing.extended(trust=TrustFile(objection_seconds=own))
    if stricter is not None:
        standing = standing.tightened(trust=TrustFile(objection_seconds=stricter))
    for level in TrustLevel:
        decision = ask("touch a", standing, agent="a", trust=(("code_changes", level.value),))
        waits = seconds if decision.landing is Landing.DELAYED else 0
        assert decision.objection_seconds == waits
        assert (decision.landing is Landing.DELAYED) is (level is TrustLevel.SEMI_AUTO)


def test_a_stricter_file_limits_only_what_it_names() -> None:
    said = {"bounds": {"deployments": {"highest": "supervised"}}}
    standing = POLICY.autonomy.tightened(trust=TrustFile.model_validate(said))
    assert ask("touch a", standing).landing is Landing.AT_ONCE
    assert ask("terraform apply", standing).landing is Landing.APPROVED
    named = TrustFile.model_validate({"agents": {"main": "propose", "x*": "autonomous"}})
    assert ask("touch a", POLICY.autonomy.tightened(trust=named)).landing is Landing.PROPOSAL
    assert ask("touch a", POLICY.autonomy.tightened(trust=named), agent="xy").landing is (
        Landing.PROPOSAL
    ), "it names another level than the agent has, which is lower"


def test_a_new_agents_changes_are_proposals() -> None:
    assert ask("touch a", agent="stranger").landing is Landing.PROPOSAL


ROLES = {
    "a Researcher reads": ("researcher", "grep -rn x .", "allow", Access.READ),
    "a Researcher writes nothing": ("researcher", "touch a", "deny", Access.NONE),
    "a Researcher runs no tests": ("researcher", "pytest", "deny", Access.NONE),
    "a Critic runs no code": ("critic", "python a.py", "deny", Access.NONE),
    "a Coder writes": ("coder", "touch a", "report", Access.WRITE),
    "a Coder commits": ("coder", "git commit -m x", "report", Access.WRITE),
    "a Coder runs tests": ("coder", "pytest -q", "report", Access.WRITE),
    "a Coder runs npm's tests": ("coder", "cd web && npm test", "report", Access.WRITE),
    "a Coder runs cargo's tests": ("coder", "cargo test", "report", Access.WRITE),
    "a Coder installs nothing": ("coder", "npm install x", "deny", Access.NONE),
    "a Coder runs no other code": ("coder", "python a.py", "deny", Access.NONE),
    "a Coder hides no code behind tests": ("coder", "pytest; python a.py", "deny", Access.NONE),
    "a Coder writes nothing elsewhere": ("coder", "touch /srv/a", "deny", Access.NONE),
    "a Coder never pushes": ("coder", "git push", "deny", Access.NONE),
    "a Deployer reads": ("deployer", "cat a.py", "allow", Access.READ),
    "a Deployer asks before a write": ("deployer", "touch a", "ask", Access.WRITE),
    "a Deployer asks before a push": ("deployer", "git push", "ask", Access.WRITE),
    "a Deployer deletes no tree": ("deployer", "rm -rf src", "deny", Access.NONE),
    "a Deployer under a Coder never pushes": ("coder/deployer", "git push", "deny", Access.NONE),
    "an unknown role does nothing": ("emperor", "ls", "deny", Access.NONE),
}


@pytest.mark.parametrize("role, command, verdict, access", ROLES.values(), ids=ROLES)
def test_a_role_acts(role: str, command: str, verdict: str, access: Access) -> None:
    decision = ask(command, role=role)
    assert (decision.verdict, decision.rights.workspace) == (Verdict(verdict), access)


def test_a_second_reading_does_not_widen_a_role() -> None:
    plan = ActionPlan(
        tool="Bash", params=Params(command="ls"), workspace="/workspace", role="critic"
    )
    decision = apply_second_reading(decide(plan, CONTEXT, POLICY), ["python"], POLICY)
    assert (decision.verdict, decision.rights.workspace) == (Verdict.ASK, Access.READ)


def test_a_folder_holds_a_users_own_files(tmp_path: Path) -> None:
    (tmp_path / "autonomy.yaml").write_text(USERS)
    (tmp_path / "modes.yaml").write_text("mode: standard\n")
    (tmp_path / "trust.yaml").write_text("agents: {helper: supervised}\n")
    (tmp_path / "roles.yaml").write_text("roles: {auditor: {read: 'yes'}}\n")
    standing = POLICY.autonomy.with_folder(tmp_path)
    assert standing.modes.tool("Bash") == "shell.exec"
    assert standing.modes.mode is Mode.STANDARD
    assert ask("git push", standing, user="otto").rules[0] == "mode-standard"
    assert ask("touch a", standing, agent="helper").landing is Landing.APPROVED
    assert ask("touch a", standing, agent="main").landing is Landing.AT_ONCE
    assert ask("ls", standing, role="auditor").rights == Rights(workspace=Access.READ)


def test_an_empty_folder_changes_nothing(tmp_path: Path) -> None:
    assert ask("git push", POLICY.autonomy.with_folder(tmp_path)) == ask("git push")


def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "modes.yaml").write_text("mood: standard\n")
    with pytest.raises(PolicyError, match=f"{tmp_path}/modes.yaml:1: `mood` is not a key"):
        POLICY.autonomy.with_folder(tmp_path)


def test_a_category_that_there_is_not_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "levels.yaml").write_text("users:\n  a:\n    overrides: {gti: green}\n")
    with pytest.raises(PolicyError, match=f"{tmp_path}/levels.yaml:3: .*`gti` is not a category"):
        POLICY.autonomy.with_folder(tmp_path)


def test_two_files_on_levels_are_one_too_many(tmp_path: Path) -> None:
    for name in ("levels.yaml", "autonomy.yaml"):
        (tmp_path / name).write_text(USERS)
    with pytest.raises(
        PolicyError, match=r"autonomy\.yaml: `levels\.yaml` says the same and counts"
    ):
        POLICY.autonomy.with_folder(tmp_path)


WORK = st.sampled_from(
    ["ls", "touch a", "git push", "git commit -m x", "rm a", "pytest", "pip install x", "frob",
     "rm -rf a", "crontab -l", "curl https://host.invalid", "chmod 600 a", "cat /etc/hostname"]
)  # fmt: skip
USER = st.sampled_from(["default", "otto"])
AGENT = st.sampled_from(["main", "sub:1", "specialist:widget", "stranger"])
ROLE = st.sampled_from([None, "researcher", "coder", "critic", "deployer"])
TRUST_FILES = st.builds(
    TrustFile,
    start=st.sampled_from(TrustLevel),
    agents=st.dictionaries(st.sampled_from(["main", "*", "sub:*"]), st.sampled_from(TrustLevel)),
)


def narrower(after: Decision, before: Decision) -> bool:
    """Whether a decision is at least as strict as another, and lands no sooner."""
    lands = list(Landing)
    return (
        ORDER.index(after.verdict) >= ORDER.index(before.verdict)
        and WIDTH.index(after.rights.workspace) <= WIDTH.index(before.rights.workspace)
        and lands.index(after.landing) <= lands.index(before.landing)
    )


@settings(max_examples=examples(150), deadline=None)
@given(WORK, USER, AGENT, ROLE, AGENT_FILES, st.sampled_from(Mode), TRUST_FILES)
def test_tightening_never_loosens(
    command: str,
    user: str,
    agent: str,
    role: str | None,
    added: LevelsFile,
    mode: Mode,
    trust: TrustFile,
) -> None:
    tighter = OTTO.tightened(levels=added, modes=ModesFile(mode=mode), trust=trust)
    before = ask(command, OTTO, user=user, agent=agent, role=role)
    assert narrower(ask(command, tighter, user=user, agent=agent, role=role), before)


@settings(max_examples=examples(100), deadline=None)
@given(WORK, USER, AGENT, ROLE, ROLE)
def test_a_role_never_loosens_and_a_child_is_never_wider(
    command: str, user: str, agent: str, parent: str | None, child: str | None
) -> None:
    joint = POLICY.autonomy.roles.child(parent, child)
    after = ask(command, OTTO, user=user, agent=agent, role=joint)
    for role in (parent, child, None):
        assert narrower(after, ask(command, OTTO, user=user, agent=agent, role=role))


@settings(max_examples=examples(100), deadline=None)
@given(WORK, USER, AGENT, st.sampled_from(["green", "yellow", "red"]))
def test_a_category_of_ones_own_never_loosens(
    command: str, user: str, agent: str, level: str
) -> None:
    own = {"level": level, "programs": ["git push", "frob", "rm"], "rules": ["packages", "write"]}
    added = OTTO.extended(levels=build(LevelsFile, {"categories": {"mine": own}}, "x"))
    before, after = (ask(command, one, user=user, agent=agent) for one in (OTTO, added))
    assert narrower(after, before)


@settings(max_examples=examples(100), deadline=None)
@given(WORK, st.dictionaries(st.sampled_from(list(OTTO.levels.categories)), st.just("green")))
def test_no_override_makes_forbidden_or_a_rule_or_a_place_milder(
    command: str, overrides: dict[str, str]
) -> None:
    file = build(LevelsFile, {"users": {"default": {"overrides": overrides}}}, "x")
    after = ask(command, POLICY.autonomy.extended(levels=file))
    before = bash(command)
    kept = [one.verdict for one in before.layers if one.layer in ("workspace", "rules")]
    kept += [one.verdict for one in before.layers if one.verdict is Verdict.DENY]
    assert ORDER.index(after.verdict) >= max(map(ORDER.index, kept))
    assert after.tier is before.tier
    assert after.rights.meet(before.rights) == after.rights  # a host is opened by a person's yes
    without = {"network": Network()}
    assert after.rights.model_copy(update=without) == before.rights.model_copy(update=without)


def test_roles_of_ones_own_come_from_a_file() -> None:
    file = build(RolesFile, {"roles": {"writer": {"read": "yes", "write": "project only"}}}, "x")
    standing = POLICY.autonomy.extended(roles=file)
    assert ask("touch a", standing, role="writer").verdict is Verdict.REPORT
    assert ask("pytest", standing, role="writer").verdict is Verdict.DENY
