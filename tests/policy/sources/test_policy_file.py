# SPDX-License-Identifier: Apache-2.0
"""Policy files: read strictly, and each mistake is said with its line and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from jsonschema import Draft202012Validator

from policy.gate1.decide import Policy
from policy.sources import examples
from policy.sources.document import read_document
from policy.sources.schema import PolicyDocument
from policy.values.strict_yaml import PolicyError, parse

POLICY = Policy.default()
STASH = """\
commands:
  - id: no-stash
    programs: [git stash]
    tier: danger
    because: work gets lost
    match: [git stash]
"""
RULE = """\
rules:
  - id: final
    name: Final
    because: it is final
    triggers: {file_patterns: [a.sql]}
    enforcement:
      checks:
        - {id: one, writes: [a.sql], decision: deny}
    match: [touch a.sql]
"""


def refusal(text: str) -> str:
    """Return what is said of a file."""
    with pytest.raises(PolicyError) as caught:
        examples.check(read_document(dedent(text), "p.yaml"), POLICY)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "version: 1\n", STASH, RULE, STASH + RULE])
def test_a_file_that_is_right_is_read(text: str) -> None:
    document = read_document(text, "p.yaml")
    examples.check(document, POLICY)
    assert set(document.lines) >= {one for one in ("no-stash", "final") if one in text}


def test_each_rule_knows_its_line() -> None:
    document = read_document(STASH + RULE, "p.yaml")
    assert document.place("no-stash") == "p.yaml:2"
    assert document.place("final") == "p.yaml:8"
    assert document.place("rules") == "p.yaml:7"
    assert document.place("nothing") == "p.yaml"


def without(text: str, line: str) -> str:
    """Return a text without the line that begins with some words."""
    kept = [one for one in text.split("\n") if not one.strip().startswith(line)]
    assert len(kept) < len(text.split("\n"))
    return "\n".join(kept)


WRONG = {
    "an unknown key": (
        "comands: []\n",
        "p.yaml:1: `comands` is not a key that is known; see `lockgate policy schema`",
    ),
    "an unknown key of a rule": (
        STASH + "    tear: 1\n",
        "p.yaml:7: rule `no-stash`: `tear` is not a key that is known; "
        "see `lockgate policy schema`",
    ),
    "a bad type": (
        "limits: {seconds: soon}\n",
        "p.yaml:1: `limits.seconds`: it should be a number",
    ),
    "a truth where a number belongs": (
        "version: 1\nlimits:\n  seconds: true\n",
        "p.yaml:3: `limits.seconds`: it should be a number; write it without quotes",
    ),
    "a number in quotes": (
        'limits: {changed_files: "60"}\n',
        "p.yaml:1: `limits.changed_files`: it should be a number; write it without quotes",
    ),
    "a part of a number": (
        "limits: {changed_files: 1.5}\n",
        "p.yaml:1: `limits.changed_files`: it should be a whole number",
    ),
    "a word where a list belongs": (
        STASH.replace("[git stash]\n    tier", "git stash\n    tier"),
        "p.yaml:3: rule `no-stash`: `programs`: it should be a list, such as `[a, b]`",
    ),
    "a word where a rule belongs": (
        "commands: [x]\n",
        "p.yaml:1: `commands.0`: it should be a mapping, such as `{a: b}`",
    ),
    "a word where a rule on obeyed files belongs": (
        "version: 1\nobeyed: [x]\n",
        "p.yaml:2: `obeyed.0`: it should be a mapping, such as `{a: b}`",
    ),
    "a truth where a permission belongs": (
        "roles:\n  roles:\n    a: {read: true}\n",
        "p.yaml:3: `roles.roles.a.read`: `true` is not a permission; "
        "use one of yes, no, with approval, project only, tests only",
    ),
    "a list with nothing in it": (
        STASH.replace("[git stash]\n    tier", "[]\n    tier"),
        "p.yaml:3: rule `no-stash`: `programs`: it should hold at least 1 entry",
    ),
    "a tab": ("limits:\n\tseconds: 3\n", "p.yaml:2: the line is indented with a tab; use spaces"),
    "two documents": (
        "version: 1\n---\nversion: 1\n",
        "p.yaml:2: it holds a second document; keep one, and remove `---`",
    ),
    "a control character": (
        "version: 1\n# é \x07\n",
        "p.yaml:2: it holds the control character U+0007; remove it",
    ),
    "a value that is none of the choices": (
        STASH.replace("danger", "dangerous"),
        "p.yaml:4: rule `no-stash`: `tier`: input should be 'safe', 'caution', 'danger' or "
        "'forbidden'",
    ),
    "a key given twice": (
        "version: 1\nversion: 1\n",
        "p.yaml:2: key `version` is given twice; keep one",
    ),
    "a list": ("- a\n", "p.yaml:1: it is no mapping; write `commands:` or another key first"),
    "no YAML": ("commands: [\n", "p.yaml:2: did not find expected node content"),
    "an alias": (
        "commands: &a []\nrules: *a\n",
        "p.yaml:2: `*a`: write it out, not by alias",
    ),
    "a rule on programs without a reason": (
        without(STASH, "because"),
        "p.yaml:2: rule `no-stash`: `because` is missing",
    ),
    "a rule on files without a reason": (
        without(RULE, "because"),
        "p.yaml:2: rule `final`: `because` is missing; say why it is there",
    ),
    "an empty reason": (
        STASH.replace("work gets lost", "''"),
        "p.yaml:2: rule `no-stash`: `because` is missing; say why it is there",
    ),
    "a rule without an example": (
        without(RULE, "match"),
        "p.yaml:2: rule `final`: `match` is missing; give an example",
    ),
    "two rules of one name": (
        STASH + RULE.replace("id: final", "id: no-stash"),
        "p.yaml:2: rule `no-stash`: another rule has this id; choose another",
    ),
    "a rule on programs that tightens nothing": (
        STASH.replace("danger", "safe"),
        "p.yaml:4: rule `no-stash`: a rule on programs can only tighten, and `tier: safe` tightens "
        "nothing; remove it",
    ),
    "a rule on programs behind a stricter one": (
        STASH
        + """\
  - id: again
    programs: [git stash]
    tier: caution
    because: x
    match: [git stash]
""",
        "p.yaml:7: rule `again`: it is never reached: rule `no-stash` says as much of the same "
        "programs; remove one",
    ),
    "a rule that says what another says": (
        RULE + RULE.removeprefix("rules:\n").replace("id: final", "id: again"),
        "p.yaml:10: rule `again`: it says what rule `final` says already; remove one",
    ),
    "a rule that nothing triggers": (
        RULE.replace("{file_patterns: [a.sql]}", "{}"),
        "p.yaml:5: rule `final`: it is never reached: `triggers` names no file, program or word",
    ),
    "a check without files": (
        RULE.replace("writes: [a.sql], ", ""),
        "p.yaml:8: rule `final`: check `one`: it is never reached: name files in `writes` or "
        "`reads`",
    ),
    "a check behind another": (
        RULE.replace(
            "decision: deny}",
            "decision: deny}\n        - {id: two, writes: [a.sql], decision: allow}",
        ),
        "p.yaml:9: rule `final`: check `two`: it is never reached: an earlier check holds "
        "wherever it does; put it first",
    ),
    "an example that does not match": (
        STASH.replace("match: [git stash]", "match: [ls]"),
        "p.yaml:2: rule `no-stash`: it does not match its example `ls`",
    ),
    "an example that matches and must not": (
        STASH + "    miss: [git stash pop]\n",
        "p.yaml:2: rule `no-stash`: it matches its example `git stash pop`, which it says it does "
        "not",
    ),
    "an example that is no call": (
        RULE.replace("[touch a.sql]", "[{file: a.sql}]"),
        "p.yaml:2: rule `final`: an example: `file` is not known",
    ),
    "a governance example": (
        """\
        governance:
          - id: x
            name: X
            because: y
            paths: [a]
            allowed_path: z
            match: [b]
        """,
        "p.yaml:2: rule `x`: does not match its example `b`",
    ),
    "secrets without an example": (
        "secrets: {hide: ['*.vault']}\n",
        "p.yaml:1: `secrets`: `match` is missing; give an example",
    ),
    "a pattern that leads out": (
        RULE.replace("a.sql", "../a.sql"),
        "p.yaml:5: rule `final`: `triggers.file_patterns`: `../a.sql` holds `.` or `..`; "
        "write the path without them",
    ),
    "a pattern that could take for ever": (
        RULE.replace("[a.sql]", "['a*b*c*d*e*f*g*h*i*j']"),
        "p.yaml:5: rule `final`: `triggers.file_patterns`: `a*b*c*d*e*f*g*h*i*j` holds more than "
        "8 wildcards in one name",
    ),
    "a program that is an option": (
        STASH.replace("[git stash]\n    tier", "[--stash]\n    tier"),
        "p.yaml:3: rule `no-stash`: `programs`: `--stash` names no program",
    ),
}


@pytest.mark.parametrize("text, says", WRONG.values(), ids=WRONG)
def test_a_mistake_is_refused_with_its_line(text: str, says: str) -> None:
    assert refusal(text) == says


def test_a_bomb_of_braces_is_refused() -> None:
    bomb = "{a,b}" * 12
    assert "stands for more than 64 patterns" in refusal(RULE.replace("[a.sql]", f"['{bomb}']"))


def test_a_file_that_is_too_long_is_refused() -> None:
    assert refusal("# " + "x" * 1_000_001).startswith("p.yaml: it is longer than 1000000")


def test_a_file_that_nests_too_deeply_is_refused() -> None:
    assert "p.yaml" in refusal("a: " + "[" * 100_000)


def test_nobody_can_name_files_that_count_later() -> None:
    assert "is not a key that is known" in refusal("secrets: {later: [{show: [.env]}]}\n")


def test_there_is_a_schema_for_editors() -> None:
    schema = PolicyDocument.model_json_schema()
    assert set(schema["properties"]) >= {"rules", "commands", "governance", "secrets", "limits"}
    assert schema["additionalProperties"] is False


OBEYED = {"id": "o", "paths": ["a"], "because": "b", "match": ["a"]}


def test_an_editor_sees_by_the_schema_what_reading_would_refuse() -> None:
    validator = Draft202012Validator(PolicyDocument.model_json_schema())
    page = (Path(__file__).parents[3] / "docs" / "policy.md").read_text("utf-8")
    blocks = [one.split("```")[0] for one in page.split("```yaml\n")[1:]]
    examples = [one for one in map(parse, blocks, blocks) if isinstance(one, dict)]
    assert len(examples) == 2
    for example in (*examples, {"obeyed": [{**OBEYED, "except": ["a"]}]}):
        assert list(validator.iter_errors(json.loads(json.dumps(example)))) == []
    for wrong in (
        {"versoin": 1},
        {"commands": [{"id": "a", "programs": ["x"], "tier": "bad", "because": "y"}]},
        {"limits": {"seconds": "long"}},
        {"governance": [{"id": "a"}]},
        {"tools": {"allow": "mcp__x"}},
        {"obeyed": [{**OBEYED, "exept": ["a"]}]},
        {"levels": {"users": {"a": {"quiet_hours": "25:00-08:00"}}}},
        {"levels": {"agent_overrides": {"a": {"git": "gren"}}}},
        {"levels": {"agent_overrides": {"a": {"max_level": 3}}}},
        {"roles": {"roles": {"a": {"read": True}}}},
        {"roles": {"roles": {"a": {"read": "sometimes"}}}},
    ):
        assert list(validator.iter_errors(wrong)), wrong
