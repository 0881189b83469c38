# SPDX-License-Identifier: Apache-2.0
"""P7 for policy files: a file that is not trusted never loosens; what a file says is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind, Outcome, Verdict
from policy.protected.paths import PathPolicy
from policy.sources.document import Document
from policy.sources.precedence import Effective, Layer, Source, combine
from policy.sources.schema import PolicyDocument
from policy.values.comparison import normal
from policy.values.strict_yaml import PolicyError
from tests.examples import examples
from tests.policy.asking import CONTEXT, plan

POLICY, PATHS = Policy.default(), PathPolicy.default()
VERDICTS, OUTCOMES = list(Verdict), list(Outcome)

NAMES = st.sampled_from(["a.py", "src/**", "*.pem", ".env*", "db/*.sql", "/LICENSE"])
SOME = st.lists(NAMES, min_size=1, max_size=2)
PROGRAMS = st.sampled_from(["git *", "git push", "touch", "cat", "npm run", "ls"])
LEVELS = st.sampled_from(["green", "yellow", "red"])
CHECK = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abc"),
        "decision": st.sampled_from(["allow", "deny", "allow_with_constraints"]),
        "writes": SOME,
    },
    optional={
        "reads": SOME,
        "required_fields": st.just(["owner"]),
        "constraints": st.sampled_from([{"workspace": "read"}, {"limits": {"seconds": 9000}}]),
    },
)
RULE = st.fixed_dictionaries(
    {
        "id": st.sampled_from("xyz"),
        "name": st.just("A rule"),
        "because": st.just("of a test"),
        "triggers": st.fixed_dictionaries(
            {"file_patterns": SOME}, optional={"command_patterns": st.lists(PROGRAMS, max_size=1)}
        ),
        "enforcement": st.fixed_dictionaries({"checks": st.lists(CHECK, min_size=1, max_size=3)}),
    }
)
COMMAND = st.fixed_dictionaries(
    {
        "id": st.sampled_from("pq"),
        "programs": st.lists(PROGRAMS, min_size=1, max_size=2),
        "tier": st.sampled_from(["caution", "danger", "forbidden"]),
        "because": st.just("of a test"),
        "match": st.just(["x"]),
    }
)
GOVERNED = st.fixed_dictionaries(
    {"id": st.just("g"), "name": st.just("G"), "paths": SOME, "allowed_path": st.just("ask")}
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "rules": st.lists(RULE, max_size=2),
        "commands": st.lists(COMMAND, max_size=2),
        "governance": st.lists(GOVERNED, max_size=1),
        "secrets": st.fixed_dictionaries({}, optional={"hide": SOME, "show": SOME}),
        "links": st.just([{"path": "bin/*", "target": "/usr/bin/**"}]),
        "tools": st.just({"read": ["Peek"], "write": ["Patch"]}),
        "places": st.fixed_dictionaries(
            {},
            optional={
                "agent_home": st.just([".ssh"]),
                "environment_templates": st.just(["prod"]),
                "secret_files": st.just(["a.py"]),
                "asked_writes": st.just(["src"]),
            },
        ),
        "limits": st.fixed_dictionaries({}, optional={"seconds": st.sampled_from([1, 86_000])}),
        "modes": st.fixed_dictionaries(
            {"mode": st.sampled_from(["conservative", "standard", "autonomous"])}
        ),
        "levels": st.fixed_dictionaries(
            {},
            optional={
                "users": st.fixed_dictionaries(
                    {"default": st.fixed_dictionaries({"overrides": st.dictionaries(
                        st.sampled_from(["git", "file_ops", "destructive"]), LEVELS, max_size=2)})}
                ),
                "agent_types": st.just({"main": "specialist"}),
            },
        ),
        "roles": st.just({"roles": {"boss": {"read": "yes", "write": "yes", "execute": "yes"}}}),
    },
)  # fmt: skip
CALLS = st.sampled_from(
    [
        plan("Bash", command="ls"),
        plan("Bash", command="cat a.py"),
        plan("Bash", command="touch src/a.py"),
        plan("Bash", command="git push"),
        plan("Bash", command="cat .env.prod"),
        plan("Bash", command="cat ~/.ssh/id_rsa"),
        plan("Bash", command="rm db/a.sql"),
        plan("Write", file_path="LICENSE", content="x"),
        plan("Peek", file_path="a.py"),
        plan("Patch", file_path="a.py"),
        plan("Bash", command="ls").model_copy(update={"role": "boss"}),
    ]
)
CHANGED = st.sampled_from(["a.py", "src/x", "db/a.sql", "LICENSE", "x/.envrc", "bin/python"])


def on_top(data: dict[str, Any], *, trusted: bool, base: Effective | None = None) -> Effective:
    """Return the policy with a workspace's file on top."""
    document = Document("p.yaml", repr(data), PolicyDocument.model_validate(data), {})
    start = base or Effective(POLICY, PATHS)
    source = Source(Layer.WORKSPACE, document, trusted=trusted)
    return combine(start.policy, start.paths, [source])


def tightened(data: dict[str, Any], base: Effective | None = None) -> Effective | None:
    """Return the policy with an untrusted file on top, or None where the file is refused."""
    try:
        return on_top(data, trusted=False, base=base)
    except PolicyError:
        return None  # every call is refused then


@settings(max_examples=examples(300), deadline=None)
@given(FILES, CALLS)
def test_an_untrusted_file_never_loosens_a_decision(data: dict[str, Any], call: Any) -> None:
    after = tightened(data)
    if after is None:
        return
    was, now = decide(call, CONTEXT, POLICY), decide(call, CONTEXT, after.policy)
    assert VERDICTS.index(now.verdict) >= VERDICTS.index(was.verdict)
    assert now.rights.meet(was.rights) == now.rights


@settings(max_examples=examples(200), deadline=None)
@given(FILES, st.lists(CHANGED, min_size=1, max_size=3, unique=True))
def test_an_untrusted_file_never_loosens_a_judgement(data: dict[str, Any], paths: Any) -> None:
    after = tightened(data)
    if after is None:
        return
    decision = decide(plan("Bash", command="touch a"), CONTEXT, POLICY)
    changes = [Change(path, Kind.MODIFIED, FileType.FILE) for path in paths]
    was, now = judge(decision, changes, PATHS), judge(decision, changes, after.paths)
    assert OUTCOMES.index(now.outcome) >= OUTCOMES.index(was.outcome)


@settings(max_examples=examples(200), deadline=None)
@given(FILES, FILES, st.sampled_from(["a.pem", ".env", "a.py", "x/.env.prod"]))
def test_an_untrusted_file_shows_nothing(
    mine: dict[str, Any], data: dict[str, Any], path: str
) -> None:
    try:
        base = on_top(mine, trusted=True)
    except PolicyError:
        return
    after = tightened(data, base)
    if after is not None and base.paths.is_secret(path):
        assert after.paths.is_secret(path)
        assert after.paths.secrets.covers(normal(path))


@settings(max_examples=examples(100), deadline=None)
@given(FILES)
def test_what_is_left_out_of_a_file_is_said(data: dict[str, Any]) -> None:
    after = tightened(data)
    if after is None:
        return
    secrets, places = data.get("secrets", {}), data.get("places", {})
    loosening = {"secrets.show": bool(secrets.get("show")), "links": "links" in data,
                 "places.agent_home": "agent_home" in places}  # fmt: skip
    for what, there in loosening.items():
        assert any(f"`{what}` is ignored" in line for line in after.ignored) is there
    tools = any("`tools." in line for line in after.ignored)
    assert tools is bool(data.get("tools", {}).keys() - {"ask", "deny"})


@pytest.mark.parametrize("trusted", [True, False])
def test_the_order_of_rules_in_a_file_does_not_matter(trusted: bool) -> None:
    rules = [
        {"id": str(n), "programs": ["touch"], "tier": tier, "because": "x", "match": ["touch a"]}
        for n, tier in enumerate(("danger", "forbidden", "caution"))
    ]
    call = plan("Bash", command="touch a")
    for order in (rules, rules[::-1]):
        policy = on_top({"commands": order}, trusted=trusted).policy
        assert decide(call, CONTEXT, policy).verdict is Verdict.DENY
