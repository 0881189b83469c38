# SPDX-License-Identifier: Apache-2.0
"""Patterns of rules: paths that are partly known, commands in any spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import Access, Decision, Verdict
from policy.rules.matching import PolicyFile
from policy.sources.schema import PolicyDocument
from policy.values.partial import HOLE, STAR
from policy.values.path_index import Index
from policy.values.paths import Fit
from tests.policy.asking import CONTEXT, plan

PATHS = {
    "a name at any depth": ("a.sql", "/w/x/a.sql", Fit.SURE),
    "what lies below a name": ("db", "/w/db/x/y", Fit.SURE),
    "another name": ("a.sql", "/w/ba.sql", Fit.NO),
    "in any case": ("A.sql", "/w/a.SQL", Fit.SURE),
    "a name with its folder": ("db/a.sql", "/w/x/db/a.sql", Fit.SURE),
    "a name in another folder": ("db/a.sql", "/w/x/dc/a.sql", Fit.NO),
    "at the root": ("/a.sql", "/w/a.sql", Fit.SURE),
    "not at the root": ("/a.sql", "/w/x/a.sql", Fit.NO),
    "outside the workspace": ("/a.sql", "/other/a.sql", Fit.NO),
    "outside the workspace, at any depth": ("a.sql", "/other/a.sql", Fit.SURE),
    "an ending": ("*.sql", "/w/x/a.sql", Fit.SURE),
    "a star stays in its name": ("db/*.sql", "/w/db/x/a.sql", Fit.NO),
    "two stars do not": ("db/**/*.sql", "/w/db/x/y/a.sql", Fit.SURE),
    "two stars can be nothing": ("db/**/*.sql", "/w/db/a.sql", Fit.SURE),
    "all that a folder holds": ("db/**", "/w/db/x", Fit.SURE),
    "a question mark is one letter": ("a?.sql", "/w/ab.sql", Fit.SURE),
    "either": ("{a,b}.sql", "/w/b.sql", Fit.SURE),
    "a name that cannot be known": ("db/a.sql", f"/w/db/{HOLE}", Fit.MAYBE),
    "a path that cannot be known": ("db/a.sql", f"/w/{HOLE}", Fit.MAYBE),
    "a name that is known enough": ("a.sql", f"/w/a.s{HOLE}", Fit.SURE),
    "an ending that cannot be it": ("*.sql", f"/w/{HOLE}.py", Fit.NO),
    "an ending that can be it": ("*.sql", f"/w/{HOLE}.sql", Fit.MAYBE),
    "a beginning that cannot be it": ("a*", f"/w/b{STAR}", Fit.NO),
    "nothing is known of the place": ("a.sql", HOLE, Fit.NO),
}


@pytest.mark.parametrize("pattern, path, fit", PATHS.values(), ids=PATHS)
def test_paths(pattern: str, path: str, fit: Fit) -> None:
    assert Index([pattern]).hits(path, "/w").get(pattern, Fit.NO) is fit


NAMES = st.sampled_from(["a", "b", "*", "**", "a*", "?", "{a,b}"])
PATTERNS = (
    st.lists(NAMES, min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda one: one.split("/").count("**") <= 3)
)


@given(st.lists(PATTERNS, max_size=6), PATTERNS, st.lists(st.sampled_from("abc"), max_size=4))
def test_more_patterns_change_nothing_for_the_others(
    others: list[str], pattern: str, names: list[str]
) -> None:
    path = "/w/" + "/".join(names)
    alone = Index([pattern]).hits(path, "/w").get(pattern)
    assert Index([*others, pattern]).hits(path, "/w").get(pattern) is alone


COMMANDS = {
    "a program": ("docker", "docker ps", True),
    "with its folder": ("docker", "/usr/bin/docker ps", True),
    "in a wrapper": ("docker", "timeout 5 docker ps", True),
    "in a substitution": ("docker", "echo $(docker ps)", True),
    "a mention": ("docker", "echo docker", False),
    "a verb": ("gh pr create", "gh pr create --title x", True),
    "a verb behind an option": ("gh pr create", "gh -R o/r pr create", True),
    "a verb behind options between": ("gh pr create", "gh pr --repo=o/r create", True),
    "another verb": ("gh pr create", "gh pr list", False),
    "a verb as another's operand": ("git push", "git log push", False),
    "a verb as an option's value": ("git push", "git commit -m push", False),
    "a verb as the catalog reads it": ("git push", "git -C sub push origin", True),
    "any verb": ("kubectl *", "kubectl delete pod x", True),
    "any verb needs one": ("kubectl *", "kubectl", False),
    "a verb by its beginning": ("npm run de*", "npm run deploy", True),
    "an option": ("git push --force", "git push origin main --force", True),
    "an option with a value": (
        "git push --force-with-lease",
        "git push --force-with-lease=x",
        True,
    ),
    "without the option": ("git push --force", "git push origin main", False),
    "a verb that cannot be known": ("kubectl delete", 'kubectl "$VERB" pod x', True),
    "a version in the name": ("python -m pip", "python3.11 -m pip install x", True),
    "programs by a pattern": ("terra*", "terraform apply", True),
}


def ruled(pattern: str, command: str) -> Decision:
    """Return the decision where commands of a pattern are forbidden."""
    rule = {"id": "r", "programs": [pattern], "tier": "forbidden", "because": "x", "match": ["y"]}
    file = PolicyFile.model_validate({"commands": [rule]})
    return decide(plan("Bash", command=command), CONTEXT, Policy.default().tightened(file))


@pytest.mark.parametrize("pattern, command, fits", COMMANDS.values(), ids=COMMANDS)
def test_commands(pattern: str, command: str, fits: bool) -> None:
    assert ("r" in ruled(pattern, command).rules) is fits


CHECK = {"id": "c", "decision": "allow_with_constraints"}


def constrained(command: str, intent: str = "", **check: object) -> Decision:
    """Return the decision where pull requests are allowed with constraints."""
    rule = {
        "id": "r",
        "name": "R",
        "because": "x",
        "triggers": {"command_patterns": ["touch"], "keywords": ["deploy"]},
        "enforcement": {"checks": [{**CHECK, **check}]},
        "match": ["touch a"],
    }
    document = PolicyDocument.model_validate({"rules": [rule]})
    policy = Policy.default().tightened(PolicyFile(rules=document.rules))
    asked = plan("Bash", command=command).model_copy(update={"intent": intent})
    return decide(asked, CONTEXT, policy)


def test_constraints_are_narrower_rights() -> None:
    decision = constrained("touch a", constraints={"workspace": "read", "limits": {"seconds": 5}})
    assert (decision.verdict, decision.rules[0]) == (Verdict.REPORT, "r")
    assert decision.rights.workspace is Access.READ
    assert decision.rights.limits.seconds == 5


def test_constraints_widen_nothing() -> None:
    decision = constrained("touch a", constraints={"limits": {"seconds": 86_000}})
    before = decide(plan("Bash", command="touch a"), CONTEXT, Policy.default())
    assert decision.rights == before.rights


FIELDS = {
    "in the command": ("touch a 'owner: me, reason: x'", "", Verdict.REPORT),
    "in the intent": ("touch a", "Owner=me; reason: none", Verdict.REPORT),
    "one is missing": ("touch a 'owner: me'", "", Verdict.ASK),
    "in another word": ("touch a 'owners reasoned'", "", Verdict.ASK),
}


@pytest.mark.parametrize("command, intent, verdict", FIELDS.values(), ids=FIELDS)
def test_required_fields_must_be_named(command: str, intent: str, verdict: Verdict) -> None:
    decision = constrained(command, intent, required_fields=["owner", "reason"])
    assert decision.verdict is verdict


def test_a_word_of_the_intent_triggers_a_rule() -> None:
    decision = constrained("ls", "deploy it", required_fields=["ticket"])
    assert decision.verdict is Verdict.ASK
    assert decision.message.startswith("a person must approve: R: it does not name ticket")
    assert [one.trigger_type for one in decision.matched_rules] == ["keyword"]
