# SPDX-License-Identifier: Apache-2.0
"""`lockgate policy` and `lockgate explain`, run as a shell does; and what docs/policy.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from policy.gate1.decide import Policy
from policy.values.strict_yaml import PolicyError
from sandbox.host import login as person
from sandbox.policy_tools.cases import examples, read_cases, run
from tests.sandbox.shells import ROOT, Shell

BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "policy.md").read_text("utf-8"), re.S)
EXAMPLE, CASES, WHO = BLOCKS
STASH = """\
commands:
  - {id: no-stash, programs: [git stash], tier: forbidden, because: x, match: [git stash]}
"""
LOOSE = "tools: {write: [Patch]}\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a shell in a workspace with a folder for its policy file."""
    found = Shell(tmp_path)
    found.dirs.config.mkdir(parents=True)
    (found.workspace / ".lockgate").mkdir()
    return found


def own(shell: Shell) -> Path:
    """Return the workspace's policy file."""
    return shell.workspace / ".lockgate" / "policy.yaml"


@pytest.fixture
def documented(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files that docs/policy.md shows."""
    draft, cases = tmp_path / "draft.yaml", tmp_path / "cases.yaml"
    draft.write_text(EXAMPLE)
    cases.write_text(CASES)
    return draft, cases


# the document


def test_the_documented_example_is_right(shell: Shell, documented: tuple[Path, Path]) -> None:
    draft, _ = documented
    assert shell("policy", "validate", str(draft)) == (0, f"{draft}: ok\n", "")


WHO_ASKS: dict[str, tuple[list[str], str]] = {
    "a category of everybody": (["--tool", "WebSearch", "--params", '{"query": "x"}'], "report"),
    "a person's own word": (["--user", "otto", "git push"], "allow"),
    "another person": (["--user", "anna", "git push"], "ask"),
    "a denial that no word lifts": (["--user", "otto", "git push && rm -rf x"], "deny"),
    "a place that no cell has": (["--user", "otto", "git push /srv/other"], "report"),
    "an agent by a glob": (["--agent", "specialist:x", "git commit -m x"], "ask"),
    "an agent that is trusted less": (["--agent", "helper2", "touch a"], "ask"),
    "a role's own tests": (["--role", "tester", "pytest"], "report"),
    "what a role may not": (["--role", "tester", "touch a"], "deny"),
    "what a role asks for": (["--role", "tester", "git push"], "ask"),
}


@pytest.mark.parametrize(("words", "verdict"), WHO_ASKS.values(), ids=WHO_ASKS)
def test_the_documented_words_on_who_asks(shell: Shell, words: list[str], verdict: str) -> None:
    (shell.dirs.config / "policy.yaml").write_text(WHO)
    assert json.loads(shell("check", "--json", *words)[1])["verdict"] == verdict


def test_a_list_of_categories_makes_nothing_milder(shell: Shell) -> None:
    (shell.dirs.config / "policy.yaml").write_text("levels: {users: {default: {green: [git]}}}\n")
    assert json.loads(shell("check", "--json", "git commit -m x")[1])["verdict"] == "report"


def test_what_a_role_does_not_name_is_denied(shell: Shell) -> None:
    (shell.dirs.config / "policy.yaml").write_text("roles: {roles: {r: {read: 'yes'}}}\n")
    for text, verdict in (("ls", "allow"), ("touch a", "deny"), ("pytest", "deny")):
        found = shell("check", "--json", "--role", "r", text)[1]
        assert json.loads(found)["verdict"] == verdict


def test_the_documented_cases_pass(shell: Shell, documented: tuple[Path, Path]) -> None:
    draft, cases = documented
    status, out, err = shell("policy", "test", str(cases), "--policy", str(draft))
    assert (status, err) == (0, "")
    assert re.fullmatch(r"7 passed in \d+\.\d\ds\n", out)


def test_the_documented_example_changes_no_everyday_call(
    shell: Shell, documented: tuple[Path, Path]
) -> None:
    _, out, _ = shell("policy", "diff", "defaults", str(documented[0]), "--json")
    changed = json.loads(out)["changed"]
    assert all(one["case"].startswith(str(documented[0])) for one in changed), changed


# show


def test_show_names_files_and_the_places_of_rules(shell: Shell) -> None:
    own(shell).write_text(STASH + LOOSE)
    status, out, err = shell("policy", "show")
    assert (status, err) == (0, "")
    assert re.search(rf"^workspace +only tightens +{re.escape(str(own(shell)))}$", out, re.M)
    assert re.search(rf"^no-stash +command +deny +git stash +{own(shell)}:2$", out, re.M)
    assert re.search(
        r"^rule_006 +rule +deny, allow .* policy/defaults/policy\.yaml:\d+$", out, re.M
    )
    assert "`tools.write` is ignored" in out
    said = json.loads(shell("policy", "show", "--json")[1])
    assert [one["state"] for one in said["files"]] == ["absent", "only tightens", "absent"]
    rules = {one["id"]: one for one in said["rules"]}
    assert rules["no-stash"]["places"] == [f"{own(shell)}:2"]
    for one in said["rules"]:
        file, _, line = one["places"][0].rpartition(":")
        text = (ROOT / file).read_text() if file.startswith("policy/") else own(shell).read_text()
        assert one["id"] in text.split("\n")[int(line) - 1]


# validate


def test_validate_says_ok_or_what_is_wrong(shell: Shell) -> None:
    assert shell("policy", "validate") == (
        0, "no policy file is there; the built-in rules count\n", "",
    )  # fmt: skip
    own(shell).write_text(STASH)
    assert shell("policy", "validate") == (0, f"{own(shell)}: ok\n", "")
    own(shell).write_text("bogus: 1\n")
    says = f"{own(shell)}:1: `bogus` is not a key that is known; see `lockgate policy schema`"
    assert shell("policy", "validate") == (1, f"{says}\n", "")
    status, out, _ = shell("policy", "validate", "--json", str(own(shell)))
    assert status == 1
    assert json.loads(out)[0]["problem"] == says


def test_a_difference_is_that_of_the_person_who_asks(shell: Shell) -> None:
    draft = shell.workspace / "draft.yaml"
    draft.write_text("levels: {users: {otto: {overrides: {git: green}}}}\n")
    status, out, _ = shell("policy", "diff", "--user", "otto", "defaults", str(draft))
    assert status == 0
    assert "ask -> allow: `git push" in out
    assert shell("policy", "diff", "--user", "anna", "defaults", str(draft))[0] == 0
    draft.write_text(draft.read_text().replace("otto", person.login()))
    assert "ask -> allow: `git push" in shell("policy", "diff", "defaults", str(draft))[1]


def test_files_on_levels_are_validated_and_shown(shell: Shell) -> None:
    file = shell.dirs.config / "levels.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("users: {root: {overrides: {git: green}}}\n")
    assert shell("policy", "validate") == (0, f"{file}: ok\n", "")
    shown = json.loads(shell("policy", "show", "--json")[1])["files"]
    assert [one["file"] for one in shown if one["state"] == "counts"] == [str(file)]
    file.write_text("users:\n  root: {overrides: {gti: green}}\n")
    status, out, err = shell("policy", "validate")
    assert (status, err) == (1, "")
    assert out.startswith(f"{file}:2: user `root`: overrides: `gti` is not a category")
    status, out, _ = shell("policy", "validate", "--json")
    assert status == 1
    assert [(one["file"], one["valid"]) for one in json.loads(out)] == [(str(file), False)]


def test_what_files_amount_to_together_is_validated_with_its_line(shell: Shell) -> None:
    own(shell).write_text("version: 1\nlevels:\n  users:\n    a: {overrides: {gti: red}}\n")
    status, out, err = shell("policy", "validate")
    assert (status, err) == (1, "")
    assert out.startswith(f"{own(shell)}:4: user `a`: overrides: `gti` is not a category")


CHANNELS = {
    "policy.yaml": ("levels:\n  users:\n    otto:\n      escalation_channel: telegram\n", 4),
    "autonomy.yaml": ("users:\n  otto: {escalation_channel: telegram}\n", 2),
}


@pytest.mark.parametrize(("text", "line"), CHANNELS.values(), ids=CHANNELS)
def test_validate_warns_of_a_channel_that_is_nowhere(
    shell: Shell, text: str, line: int, request: pytest.FixtureRequest
) -> None:
    file = shell.dirs.config / request.node.callspec.id
    file.write_text(text)
    settings = shell.dirs.settings
    warning = (
        f"{file}:{line}: there is no channel `telegram`, so nobody is told over it; "
        f"add it under `channels` in {settings}"
    )
    said = f"warning: {warning}\n{file}: ok\n"
    assert shell("policy", "validate") == (0, said, "")
    assert json.loads(shell("policy", "validate", "--json")[1])[0]["warnings"] == [warning]
    settings.write_text("channels: {telegram: {command: [cat]}}\n")
    assert shell("policy", "validate") == (0, f"{file}: ok\n", "")


def test_validate_of_a_file_that_is_not_there(shell: Shell) -> None:
    status, out, err = shell("policy", "validate", "nothing.yaml")
    assert (status, out, err) == (2, "", "lockgate: `nothing.yaml` is not there\n")


def test_what_is_wrong_stops_a_check_and_an_explanation(shell: Shell) -> None:
    own(shell).write_text("bogus: 1\n")
    for words in (("check", "ls"), ("explain", "ls"), ("check", "--json", "ls")):
        status, out, _ = shell(*words)
        assert status == 1
        assert f"{own(shell)}:1: `bogus` is not a key that is known" in out
    status, _, err = shell("policy", "show")
    assert (status, err.count("\n")) == (2, 1)


# test and diff


def test_failures_are_printed_as_tests_are(shell: Shell, tmp_path: Path) -> None:
    own(shell).write_text(STASH)
    cases = tmp_path / "cases.jsonl"
    cases.write_text(
        '{"command": "git stash", "verdict": "deny", "rule": "no-stash"}\n'
        '{"command": "git stash", "verdict": ["allow", "report"]}\n'
        '{"command": "git status", "verdict": "allow", "rule": "no-stash"}\n'
    )
    status, out, err = shell("policy", "test", str(cases))
    lines = out.splitlines()
    assert (status, err, len(lines)) == (1, "", 3)
    assert lines[0].startswith(
        f"FAILED {cases}:2: `git stash`: expected allow or report, got deny: denied: "
    )
    assert lines[1] == f"FAILED {cases}:3: `git status`: expected rule `no-stash`, got read"
    assert re.fullmatch(r"2 failed, 1 passed in \d+\.\d\ds", lines[2])
    said = json.loads(shell("policy", "test", "--json", str(cases))[1])
    assert [one["passed"] for one in said] == [True, False, False]


BAD_CASES = {
    "no list": ("a: 1\n", ":1: it is no list of cases"),
    "no call": ("- {verdict: ask}\n", ":1: `tool` or `command` is missing"),
    "an unknown key": ("- {command: ls, vedict: ask}\n", ":1: `vedict` is not known"),
    "an unknown verdict": (
        "- {command: ls}\n- {command: ls, verdict: maybe}\n",
        ":2: `verdict`: `maybe` is none of allow, report, ask, deny",
    ),
    "no JSON": ('{"command": "ls"}\nx\n', ":2: the line is no JSON object"),
    "nothing": ("[]\n", ": it holds no case; write `- {command: git push, verdict: ask}`"),
}


@pytest.mark.parametrize("text, says", BAD_CASES.values(), ids=BAD_CASES)
def test_a_bad_file_of_cases_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "cases"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_cases(file, Policy.default())
    assert str(caught.value) == f"{file}{says}"


def test_diff_names_calls_that_get_another_verdict(shell: Shell, tmp_path: Path) -> None:
    own(shell).write_text(STASH)
    cases = tmp_path / "cases.yaml"
    cases.write_text("cases:\n  - {command: git stash}\n  - {command: ls}\n")
    words = ("policy", "diff", "--cases", str(cases))
    assert shell(*words) == (
        0,
        f"report -> deny: `git stash` (rule no-stash, {own(shell)}:2)\n"
        "1 of 2 calls get another verdict\n",
        "",
    )
    status, out, _ = shell(*words, "--json", "--exit-code")
    assert (status, json.loads(out)["changed"][0]["new"]) == (1, "deny")
    assert shell(*words, "--exit-code", "effective", "effective")[0] == 0
    assert shell("policy", "diff", "nothing.yaml")[0] == 2


def test_diff_compares_on_the_examples_of_the_files(shell: Shell, tmp_path: Path) -> None:
    draft = tmp_path / "draft.yaml"
    draft.write_text(STASH + "tools: {deny: [WebSearch, 'mcp__x__*']}\n")
    status, out, _ = shell("policy", "diff", "defaults", str(draft))
    assert status == 0
    assert f"report -> deny: `git stash` (rule no-stash, {draft}:2)\n" in out
    assert f"allow -> deny: `WebSearch` (rule tools, {draft}:3)\n" in out
    assert f"ask -> deny: `mcp__x__x` (rule tools, {draft}:3)\n" in out


def test_diff_compares_layers(shell: Shell) -> None:
    (shell.dirs.config / "policy.yaml").write_text(STASH)
    own(shell).write_text("tools: {deny: [WebSearch]}\n")
    status, out, _ = shell("policy", "diff", "user", "workspace")
    assert (status, "allow -> deny: `WebSearch`" in out, "git stash" in out) == (0, True, False)
    assert shell("policy", "diff", "workspace", "administrator")[0] == 0
    assert "report -> deny: `git stash`" in shell("policy", "diff", "defaults", "user")[1]


def test_the_built_in_examples_get_an_answer() -> None:
    assert len(examples()) > 100
    assert all(not one.wrong for one in run(examples()[:50], Policy.default()))


# schema and trust


def test_the_schema_is_json(shell: Shell) -> None:
    status, out, _ = shell("policy", "schema")
    assert (status, json.loads(out)["title"]) == (0, "PolicyDocument")


def test_trust_needs_a_yes(shell: Shell) -> None:
    own(shell).write_text(LOOSE)
    status, out, err = shell("policy", "trust")
    assert (status, out) == (1, "")
    assert "`tools.write` is ignored" in err
    assert "trust needs your yes" in err
    assert "only tightens" in shell("policy", "show")[1]


def test_trust_holds_until_the_file_changes(shell: Shell) -> None:
    own(shell).write_text(LOOSE)
    status, out, _ = shell("policy", "trust", "--yes")
    assert status == 0
    assert re.fullmatch(rf"{re.escape(str(own(shell)))}: trusted \([0-9a-f]{{12}}\)\n", out)
    assert "only tightens" not in shell("policy", "show")[1]
    own(shell).write_text(LOOSE + "# changed\n")
    assert "only tightens" in shell("policy", "show")[1]
    assert shell("policy", "trust", "--revoke")[1].endswith(": trusted no more\n")


def test_there_is_nothing_to_trust(shell: Shell) -> None:
    status, _, err = shell("policy", "trust", "--yes")
    assert (status, err) == (
        2,
        f"lockgate: `{own(shell)}` is not there; there is nothing to trust\n",
    )


@pytest.mark.parametrize("command", ["lockgate policy trust --yes", "lockgate policy show"])
def test_an_agent_cannot_run_these(shell: Shell, command: str) -> None:
    assert shell("check", command)[0] == 1


# explain


def test_an_explanation_is_complete(shell: Shell) -> None:
    own(shell).write_text(STASH)
    status, out, _ = shell("explain", "--json", "git -C sub stash pop; echo $(date) > a.txt")
    said = json.loads(out)
    assert status == 1
    first = said["layers"][0]
    assert (first["layer"], first["rule"], first["verdict"]) == ("rules", "no-stash", "deny")
    assert first["places"] == [f"{own(shell)}:2"]
    assert first["words"] == ["git -C sub stash"]
    writes = next(one for one in said["layers"] if one["rule"] == "write")
    assert writes["words"] == ["a.txt"]
    assert writes["places"][0].startswith("policy/rules/tiers.py:")
    assert said["second_opinion"]["said"] == "not needed: the answer is strict already"
    assert said["milder"]["needs"][0]["needs"].startswith("another call, since a rule is never")
    assert said["policy_files"][0]["file"] == str(own(shell))
    assert said["rights"]["workspace"] == "none"
    assert said["policy"]


def test_an_explanation_has_the_second_reading(shell: Shell) -> None:
    said = json.loads(shell("explain", "--json", "echo $(date)")[1])
    assert said["second_opinion"] == {"said": "heard", "programs": ["echo", "date"]}
    said = json.loads(shell("explain", "--json", "echo now")[1])
    assert said["second_opinion"]["said"].startswith("not needed: the text is plain")
    said = json.loads(shell("explain", "--json", "cat <<'E'\nx\nE")[1])
    assert said["second_opinion"]["said"].startswith("none: it could not read the text")


def test_an_explanation_for_a_person(shell: Shell) -> None:
    out = shell("explain", "rm -rf build")[1]
    assert "because of: `build`" in out
    assert re.search(r"rule at policy/[\w/]+\.(yaml|py):\d+", out)
    assert "for ask" in out or "for report" in out
    assert "instead: name the single files that should go" in out


PLACES = {
    "a program": ("git push", "git-push", "policy/catalog/git.yaml"),
    "a reader's text": (
        "printenv AWS_SECRET_ACCESS_KEY",
        "secrets",
        "policy/programs/files/text.py",
    ),
    "a reader's text with a program": (
        "git rm -r src",
        "recursive-delete",
        "policy/programs/git/work_tree.py",
    ),
    "a secret": ("cat ~/.ssh/id_rsa", "secrets", "policy/rules/locations.py"),
    "a governance file": ("touch devkit.config.json", "rule_006", "policy/defaults/policy.yaml"),
}


@pytest.mark.parametrize("command, rule, file", PLACES.values(), ids=PLACES)
def test_a_built_in_rule_has_a_place(shell: Shell, command: str, rule: str, file: str) -> None:
    layers = json.loads(shell("explain", "--json", command)[1])["layers"]
    places = [place for one in layers if one["rule"] == rule for place in one["places"]]
    assert places[0].startswith(f"{file}:")
