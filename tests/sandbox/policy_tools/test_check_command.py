# SPDX-License-Identifier: Apache-2.0
"""`lockgate check` and `explain` for any call: who asks, other tools, JSON, a user's own policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy.model import Verdict
from sandbox.host import login as person
from tests.sandbox.shells import Shell

STATUS = {Verdict.ALLOW: 0, Verdict.REPORT: 0, Verdict.DENY: 1, Verdict.ASK: 3}
PATCH = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path)
    found.dirs.config.mkdir(parents=True)
    (found.workspace / ".lockgate").mkdir()
    return found


def policy(shell: Shell, text: str) -> None:
    """Write the user's policy file."""
    (shell.dirs.config / "policy.yaml").write_text(text)


def said(shell: Shell, *words: str, data: bytes | None = None) -> dict[str, Any]:
    status, out, err = shell("check", "--json", *words, data=data)
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    assert status == STATUS[Verdict(found["verdict"])]
    return found


TOOLS: dict[str, tuple[list[str], bytes | None, str, str]] = {
    "a tool": (["--tool", "Write", "--params", '{"file_path": "a"}'], None, "report", "write"),
    "its parameters from stdin": (
        ["--tool", "Write", "--params", "-"], b'{"file_path": ".devkit-waiver.yml"}', "deny",
        "rule_006"),
    "a call from stdin": (["-"], b'{"tool": "Read", "params": {"file_path": ".env"}}', "deny",
                          "secrets"),
    "a command from stdin": (["-"], b'{"command": "rm a"}', "ask", "delete"),
    "a tool of a coding agent": (
        ["--from", "codex", "--tool", "apply_patch", "--params", "-"],
        json.dumps({"command": PATCH}).encode(), "ask", "delete"),
    "a tool that nobody knows": (["--tool", "Frobnicate"], None, "ask", "unknown-tool"),
    "a role": (["--role", "Researcher", "--", "touch", "a"], None, "deny", "role-write"),
    "a role that there is not": (["--role", "Boss", "ls"], None, "deny", "role-unknown"),
    "a role in a call": (["-"], b'{"command": "pytest", "role": "Critic"}', "deny", "role-execute"),
    "another agent": (["--agent", "specialist:widget", "git commit -m x"], None, "ask",
                      "level-escalation"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "data", "verdict", "rule"), TOOLS.values(), ids=TOOLS)
def test_any_call_is_asked_about(
    shell: Shell, words: list[str], data: bytes | None, verdict: str, rule: str
) -> None:
    found = said(shell, *words, data=data)
    assert (found["verdict"], found["rules"][0]) == (verdict, rule)


WRONG: dict[str, tuple[list[str], bytes | None, int, str]] = {
    "no JSON": (["--tool", "Write", "--params", "{"], None, 2,
                "`--params` is not JSON; write an object in double quotes"),
    "no object": (["-"], b"[]", 2, "stdin is no JSON object"),
    "no call": (["-"], b"{}", 2, "the call has neither `command` nor `tool`"),
    "both": (["-"], b'{"command": "ls", "tool": "Read"}', 2,
             "a call has either `command` or `tool` with `params`"),
    "a key that is not known": (["-"], b'{"command": "ls", "rights": "all"}', 2,
                                "the call has a key `rights`; it may have agent,"),
    "a path that is no text": (["--tool", "Read", "--params", '{"file_path": 7}'], None, 2,
                               "the call's `file_path`: it should be text; put it in quotes"),
    "a call that cannot be read": (
        ["--from", "claude", "--tool", "Read", "--params", '{"file_path": 7}'], None, 2,
        "the call cannot be read: a parameter that must be text is not"),
    "a coding agent that is not known": (["--from", "emacs", "ls"], None, 2, "emacs"),
    "parameters of nothing": (["--params", "{}"], None, 2, "`--params` belongs to a tool"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "data", "status", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_is_said_in_one_line(
    shell: Shell, words: list[str], data: bytes | None, status: int, message: str
) -> None:
    for command in ("check", "explain"):
        found, out, err = shell(command, *words, data=data)
        assert (found, out) == (status, "")
        assert message in err
        assert err.count("\n") == 1


OTTO = """\
levels:
  users:
    otto:
      overrides: {git: green, cron: green}
      escalation_channel: telegram
      quiet_hours: "23:00-08:00"
  agent_overrides:
    specialist:*: {max_level: green}
    cron-agent: {git: yellow}
trust: {agents: {"*": autonomous}}
"""


def test_a_users_levels_count(shell: Shell) -> None:
    assert said(shell, "--user", "otto", "git push")["verdict"] == "ask"
    policy(shell, OTTO)
    assert said(shell, "--user", "otto", "git push")["verdict"] == "allow"
    assert said(shell, "--user", "anna", "git push")["verdict"] == "ask"
    assert said(shell, "--user", "otto", "--agent", "cron:1", "git push")["verdict"] == "report"
    found = said(shell, "--user", "otto", "--agent", "specialist:anything", "npm install x")
    assert (found["verdict"], found["rules"][0]) == ("ask", "level-escalation")
    assert said(shell, "--user", "otto", "rm -rf src")["verdict"] == "deny"


def test_the_person_here_is_the_user_that_counts(shell: Shell) -> None:
    policy(shell, f"levels: {{users: {{{person.login()}: {{overrides: {{git: green}}}}}}}}\n")
    assert said(shell, "git push")["verdict"] == "allow"
    assert said(shell, "--user", "somebody", "git push")["verdict"] == "ask"
    lines = b'{"command": "git push"}\n{"command": "git push", "user": "somebody"}\n'
    out = shell("check", "--batch", data=lines)[1]
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["allow", "ask"]


def test_a_mode_of_the_user_counts(shell: Shell) -> None:
    assert said(shell, "touch a")["verdict"] == "report"
    policy(shell, "modes: {mode: conservative}\n")
    assert said(shell, "touch a")["rules"][0] == "mode-conservative"
    assert said(shell, "--tool", "Read", "--params", '{"file_path": "a"}')["verdict"] == "allow"


def test_trust_of_the_user_counts(shell: Shell) -> None:
    trust = "trust: {agents: {helper: autonomous, main: semi-auto}, objection_seconds: 9,\n"
    policy(shell, trust + "  bounds: {deployments: {highest: supervised}}}\n")
    found = said(shell, "--agent", "helper", "touch a")
    assert (found["landing"], found["objection_seconds"]) == ("at once", 0)
    found = said(shell, "touch a")
    assert (found["landing"], found["objection_seconds"]) == ("delayed", 9)
    assert said(shell, "--agent", "helper", "terraform apply")["landing"] == "approved"
    assert said(shell, "--agent", "stranger", "touch a")["landing"] == "proposal"


ROLES = """\
roles:
  roles:
    tester: {read: "yes", write: "no", execute: tests only, push: "no"}
    coder: {read: "yes", write: "yes", execute: "yes", push: "yes"}
"""


def test_roles_of_the_user_count_and_never_widen(shell: Shell) -> None:
    assert said(shell, "--role", "tester", "pytest")["rules"][0] == "role-unknown"
    policy(shell, ROLES)
    assert said(shell, "--role", "tester", "pytest")["verdict"] == "report"
    found = said(shell, "--role", "tester", "touch a")
    assert (found["verdict"], found["rights"]["workspace"]) == ("deny", "none")
    assert said(shell, "--role", "coder", "git push")["verdict"] == "deny", "as built in"
    assert said(shell, "--role", "tester/coder", "touch a")["verdict"] == "deny", "its parent's"
    assert said(shell, "--role", "coder", "touch a")["verdict"] == "report"


def test_tools_of_the_user_count_by_globs(shell: Shell) -> None:
    words = ("--from", "claude", "--tool", "mcp__docs__search")
    assert said(shell, *words)["verdict"] == "ask"
    policy(shell, 'tools: {allow: ["mcp__docs__*"], deny: ["mcp__docs__drop_*"]}\n')
    assert said(shell, *words)["verdict"] == "allow"
    denied = ("--from", "cursor", "--tool", "mcp__docs__drop_all")
    assert said(shell, *denied)["verdict"] == "deny"
    assert said(shell, *denied)["message"].startswith("denied: the policy denies the tool")
    layers = json.loads(shell("explain", "--json", *denied)[1])["layers"]
    assert layers[0]["places"] == [f"{shell.dirs.config}/policy.yaml:1"]


def test_an_untrusted_workspace_denies_tools_and_allows_none(shell: Shell) -> None:
    own = shell.workspace / ".lockgate" / "policy.yaml"
    own.write_text('tools: {allow: ["mcp__a__*"], deny: ["mcp__b__*", WebSearch]}\n')
    assert said(shell, "--tool", "mcp__a__x")["verdict"] == "ask"
    assert said(shell, "--tool", "mcp__b__x")["verdict"] == "deny"
    assert said(shell, "--tool", "WebSearch")["verdict"] == "deny"


def test_a_batch_is_about_the_workspace_that_one_is_in(shell: Shell) -> None:
    rule = "{id: x, programs: [git stash], tier: forbidden, because: y, match: [git stash]}"
    (shell.workspace / ".lockgate" / "policy.yaml").write_text(f"commands: [{rule}]\n")
    line = b'{"command": "git stash"}\n'

    def verdict() -> str:
        return str(json.loads(shell("check", "--batch", data=line)[1])["verdict"])

    assert verdict() == "report"
    assert shell.at_terminal("workspace", "add", ".", "--yes")[0] == 0
    assert verdict() == "deny"


def test_a_batch_knows_of_this_host_what_a_check_of_one_call_knows(shell: Shell) -> None:
    (shell.dirs.config / "policy.yaml").write_text("trust: {agents: {low: supervised}}\n")
    other = shell.workspace.parent / "other"
    other.mkdir()
    assert shell.at_terminal("workspace", "add", ".", "--yes")[0] == 0
    assert shell.at_terminal("workspace", "add", str(other), "--yes")[0] == 0
    expected = {
        f"echo x > {shell.dirs.state}/audit.jsonl": "deny",
        f"cat {shell.dirs.config}/config.yaml": "allow",
        f"touch {other}/a": "report",
        "touch a": "ask",
    }
    calls: list[dict[str, object]] = [{"command": one} for one in expected]
    calls[-1]["agent"] = "low"
    lines = "".join(json.dumps(one) + "\n" for one in calls)
    batch = shell("check", "--batch", data=lines.encode())[1].splitlines()
    alone = [shell("check", "--json", "-", data=json.dumps(one).encode())[1] for one in calls]
    for answers in ([json.loads(one)["verdict"] for one in found] for found in (batch, alone)):
        assert answers == list(expected.values())


def test_limits_of_the_settings_are_shown(shell: Shell) -> None:
    (shell.dirs.config / "config.yaml").write_text("limits: {seconds: 77}\n")
    assert said(shell, "touch a")["rights"]["limits"]["seconds"] == 77


def test_lockgates_own_folders_are_known_wherever_they_are(shell: Shell) -> None:
    target = shell.dirs.config / "policy.yaml"
    found = said(shell, "--tool", "Write", "--params", json.dumps({"file_path": str(target)}))
    assert (found["verdict"], found["rules"][0]) == ("deny", "lockgate-own")


def test_an_explanation_of_a_tool_names_words_and_places(shell: Shell) -> None:
    given = json.dumps({"file_path": "sub/.devkit-waiver.yml", "content": "x"})
    status, out, _ = shell("explain", "--json", "--tool", "Write", "--params", given)
    found = json.loads(out)
    first = found["layers"][0]
    assert (status, first["rule"]) == (1, "rule_006")
    assert first["words"] == ["sub/.devkit-waiver.yml"]
    assert first["places"][0].startswith("policy/defaults/policy.yaml:")
    assert found["second_opinion"]["said"] == "not needed: it is no command line"
    assert found["milder"]["verdict"] == "report"
    assert {one["layer"] for one in found["layers"]} == {
        "rules", "mode", "tier", "workspace", "level", "trust",
    }  # fmt: skip


def test_the_text_for_an_agent_is_one_line_that_says_what_to_do(shell: Shell) -> None:
    for command in ("rm -rf src", "git push", "echo x > .devkit-waiver.yml", "cat ~/.ssh/id_rsa"):
        message = said(shell, command)["message"]
        assert "\n" not in message
        assert len(message) <= 400
        assert "; instead: " in message or "; commit locally if that is enough" in message
        assert "rule `" in message
