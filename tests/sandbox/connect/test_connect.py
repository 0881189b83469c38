# SPDX-License-Identifier: Apache-2.0
"""Connections on real files, and what the self-test makes of hooks that do not do their work."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox.connect import changes as changing
from sandbox.connect import selftest
from sandbox.connect.agents import MODES, Mode, wanted
from sandbox.connect.edits import OwnFile, Places, Scope
from sandbox.connect.excluded import excluding
from sandbox.connect.health import switched_off, untrusted_hooks
from sandbox.connect.records import Connection, Connections
from sandbox.connect.versions import fails_open
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs

ALL = [(agent, mode) for agent, modes in MODES.items() for mode in modes]


class Project:
    """A project with an agent's files, and the steps of the command."""

    def __init__(self, root: Path) -> None:
        self.work = root / "home" / "work"
        self.work.mkdir(parents=True)
        self.places = Places(root / "home", self.work, ("/opt/bin/lockgate",))
        self.known = Connections(Dirs.under(root / "l").create())

    def connect(self, agent: str, mode: Mode) -> list[Path]:
        """Connect an agent; return the files that were written."""
        want = wanted(agent, mode, self.places)
        others = [wanted(agent, one, self.places) for one in MODES[agent] if one is not mode]
        old = self.known.find(agent, self.work)
        changes = changing.connecting(agent, want, old, others)
        before = {one.path: one for one in old.files} if old else {}
        kept = []
        for one in changes:
            made = changing.carry_out(one, within=self.work) if one.changes else ()
            if one.path in {file.path for file in want.files}:
                kept.append(changing.kept(one, made, before.get(one.path)))
        self.known.save(Connection(agent, Scope.PROJECT, mode, self.work, 1.0, tuple(kept)))
        return [one.path for one in changes if one.changes]

    def remove(self, agent: str) -> None:
        """Take a connection back."""
        old = self.known.find(agent, self.work)
        modes = (old.mode,) if old else MODES[agent]
        written = [wanted(agent, one, self.places) for one in modes]
        for one in changing.ending(agent, old, written):
            changing.carry_out(one, within=self.work)
        for file in old.files if old else ():
            changing.drop_folders(file.folders)
        if old:
            self.known.forget(old)

    def all(self) -> dict[str, bytes]:
        """Return every file of the project."""
        files = (one for one in self.work.rglob("*") if one.is_file())
        return {str(one.relative_to(self.work)): one.read_bytes() for one in files}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(("agent", "mode"), ALL)
def test_a_connection_is_taken_back_byte_for_byte(project: Project, agent: str, mode: Mode) -> None:
    remark = b"" if agent in changing.PLAIN_JSON else b",  // a remark"
    odd = b'\xef\xbb\xbf{"mine":1' + remark + b"\r\n}"
    for file in wanted(agent, mode, project.places).files[:1]:
        if file.path.suffix == ".json":
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_bytes(odd)
            file.path.chmod(0o640)
    before = project.all()
    written = project.connect(agent, mode)
    assert written
    assert project.all() != before
    assert all(stat.S_IMODE(one.stat().st_mode) in (0o640, 0o644) for one in written)
    assert project.connect(agent, mode) == []
    project.remove(agent)
    assert project.all() == before
    left = {one.name for one in project.work.iterdir()}
    assert left == {name.split("/")[0] for name in before}


@pytest.mark.parametrize("agent", [one for one, modes in MODES.items() if len(modes) > 1])
def test_the_other_mode_takes_the_place_of_the_first(project: Project, agent: str) -> None:
    project.connect(agent, Mode.MCP)
    first = project.all()
    project.connect(agent, Mode.HOOKS)
    project.connect(agent, Mode.MCP)
    assert project.all() == first
    project.remove(agent)
    assert project.all() == {}


def test_a_connection_without_a_record_is_found_by_what_it_says(project: Project) -> None:
    project.connect("claude-code", Mode.HOOKS)
    known = project.known.find("claude-code", project.work)
    assert known is not None
    project.known.forget(known)
    project.remove("claude-code")
    assert json.loads(project.all()[".claude/settings.local.json"]) == {"hooks": {}}


def test_a_link_out_of_the_project_is_not_written_through(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "home" / "settings.json"
    outside.write_text("{}")
    (project.work / ".gemini").mkdir()
    (project.work / ".gemini" / "settings.json").symlink_to(outside)
    with pytest.raises(BadInput, match="is a link out of the project"):
        project.connect("gemini", Mode.HOOKS)
    assert outside.read_text() == "{}"


def test_a_link_within_the_project_stays_a_link(project: Project) -> None:
    real = project.work / "shared.json"
    real.write_text("{}")
    (project.work / ".gemini").mkdir()
    link = project.work / ".gemini" / "settings.json"
    link.symlink_to("../shared.json")
    project.connect("gemini", Mode.HOOKS)
    assert link.is_symlink()
    assert "hook gemini" in real.read_text()
    project.remove("gemini")
    assert (link.is_symlink(), real.read_text()) == (True, "{}")


def test_a_file_that_changes_meanwhile_is_not_overwritten(project: Project) -> None:
    want = wanted("gemini", Mode.HOOKS, project.places)
    (change,) = changing.connecting("gemini", want, None, [])
    change.path.parent.mkdir()
    change.path.write_text('{"new": 1}')
    with pytest.raises(BadInput, match="was changed meanwhile"):
        changing.carry_out(change, within=project.work)
    assert change.path.read_text() == '{"new": 1}'


def test_a_broken_file_is_said_with_its_line_and_stays(project: Project) -> None:
    path = project.work / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n"a": 1\n"b"}')
    with pytest.raises(BadInput, match=r"settings\.json`: line 3: `,` or `}` is missing; mend it"):
        project.connect("gemini", Mode.HOOKS)
    assert path.read_text() == '{\n"a": 1\n"b"}'


def test_what_is_no_regular_file_is_said_without_waiting_for_it(project: Project) -> None:
    path = project.work / ".gemini" / "settings.json"
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(BadInput, match="is no regular file; remove it"):
        project.connect("gemini", Mode.HOOKS)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadInput, match="cannot be read"):
        project.connect("gemini", Mode.HOOKS)
    path.rmdir()
    project.connect("gemini", Mode.HOOKS)
    assert path.is_file()


def test_a_file_of_the_persons_own_is_kept_where_ours_stood(project: Project) -> None:
    project.connect("vscode", Mode.MCP)
    (own,) = [one for one in wanted("vscode", Mode.MCP, project.places).files
              if isinstance(one, OwnFile)]  # fmt: skip
    own.path.write_text("a person's own")
    project.remove("vscode")
    assert project.all() == {".github/agents/lockgate.agent.md": b"a person's own"}


def test_hooks_that_codex_does_not_trust_are_named(project: Project) -> None:
    project.connect("codex", Mode.HOOKS)
    want = wanted("codex", Mode.HOOKS, project.places)
    assert "PreToolUse" in untrusted_hooks(want, project.places)
    hooks = project.work / ".codex" / "hooks.json"
    config = project.places.home / ".codex" / "config.toml"
    config.parent.mkdir()
    names = ["pre_tool_use", "user_prompt_submit", "post_tool_use", "subagent_start",
             "subagent_stop", "session_start"]  # fmt: skip
    config.write_text(
        "\n".join(f'[hooks.state."{hooks}:{n}:0:0"]\ntrusted_hash = "sha256:0"' for n in names)
    )
    assert untrusted_hooks(want, project.places) == []
    config.write_text(config.read_text() + "\nenabled = false\n")
    assert untrusted_hooks(want, project.places) == ["SessionStart"]


@pytest.mark.parametrize(
    ("agent", "key", "value"),
    [
        ("claude-code", "disableAllHooks", True),
        ("gemini", "hooksConfig", {"enabled": False}),
        ("gemini", "hooksConfig", {"disabled": ["lockgate"]}),
    ],
)
def test_hooks_that_are_switched_off_are_said(
    project: Project, agent: str, key: str, value: Any
) -> None:
    project.connect(agent, Mode.HOOKS)
    want = wanted(agent, Mode.HOOKS, project.places)
    path = want.files[0].path
    assert switched_off(agent, want) == ""
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert key in switched_off(agent, want)


def test_a_file_with_comments_is_one_that_claude_code_skips(project: Project) -> None:
    project.connect("claude-code", Mode.HOOKS)
    want = wanted("claude-code", Mode.HOOKS, project.places)
    path = want.files[0].path
    path.write_text("// mine\n" + path.read_text())
    assert "is skipped by Claude Code, which reads no comments" in switched_off("claude-code", want)


@pytest.mark.parametrize("mode", [Mode.HOOKS, Mode.MCP])
def test_a_file_that_would_be_skipped_is_not_written(project: Project, mode: Mode) -> None:
    """It was written, called connected, and then found not to work."""
    path = wanted("claude-code", mode, project.places).files[0].path
    path.parent.mkdir(parents=True, exist_ok=True)
    odd = '{\n  // mine\n  "a": 1\n}\n'
    path.write_text(odd)
    with pytest.raises(BadInput, match="skips the whole file, so nothing is written: "):
        project.connect("claude-code", mode)
    assert path.read_text() == odd
    path.write_text('{"a": 1}\n')  # the control
    project.connect("claude-code", mode)
    assert "lockgate" in path.read_text()


def test_a_diff_shows_no_handler_twice(project: Project) -> None:
    want = wanted("claude-code", Mode.HOOKS, project.places)
    [change, *_] = changing.connecting("claude-code", want, None, [])
    shown = changing.diff(change).split("\n")
    assert len(shown) < 90
    kinds = {one for one in shown if "timeout" in one}  # handlers that differ are shown
    assert sum("onFailure" in line for line in shown) <= 2 * len(kinds)
    assert change.new is not None
    whole = [line for line in shown if line.startswith("+")][1:]
    repeated = sum(int(line.split()[3]) for line in shown if line.startswith("... the same "))
    assert len(whole) + repeated == change.new.decode().count("\n")


# -- the self-test

DENY = {"permissionDecision": "deny", "permissionDecisionReason": "an agent cannot approve"}


def _said(**inner: Any) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **inner}})


RUNS = _said(permissionDecision="allow", updatedInput={"command": "echo lockgate-canary"})
BAD_HOOKS = {
    "it fails": ("exit 1", "the hook does not work: lockgate: its hook failed"),
    "it cannot start": (None, "the hook does not work: lockgate: 1: "),
    "it blocks without a reason": ("exit 2", "was not denied: status 2"),
    "it blocks for another reason": ("echo the disk is full >&2; exit 2", "the disk is full"),
    "it says nothing": ("true", "was not denied: it answers what is no JSON"),
    "it prints text": ("echo fine", "was not denied: it answers what is no JSON: fine"),
    "it allows everything": (f"cat >/dev/null; echo '{RUNS}'", "was not denied"),
    "it denies without a reason": (
        f"echo '{_said(permissionDecision='deny')}'",
        "was not denied",
    ),
    "it denies everything": (
        f"echo '{_said(**DENY)}'",
        "the harmless canary was not let through: an agent cannot approve",
    ),
    "it lets commands run as they are": (
        f"grep -q approve && echo '{_said(**DENY)}' || echo '{_said(permissionDecision='allow')}'",
        "the harmless canary was not let through",
    ),
    "its ticket does not work": (
        f"grep -q approve && echo '{_said(**DENY)}' || echo '{RUNS.replace('echo', 'false')}'",
        "the harmless canary did not run",
    ),
}


def _hook(project: Project, script: str | None) -> list[selftest.Found]:
    program = project.work / "lockgate"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    places = Places(project.places.home, project.work, (str(program),))
    want = wanted("claude-code", Mode.HOOKS, places)
    for one in changing.connecting("claude-code", want, None, []):
        changing.carry_out(one, within=project.work)
    return selftest.hooks("claude-code", want, project.work)


@pytest.mark.parametrize(("script", "what"), BAD_HOOKS.values(), ids=BAD_HOOKS)
def test_a_hook_that_does_not_do_its_work_is_found(
    project: Project, script: str | None, what: str
) -> None:
    last = _hook(project, script)[-1]
    assert not last.ok
    assert what in last.what


def test_a_hook_that_does_its_work_is_found_to(project: Project) -> None:
    found = _hook(project, f"grep -q approve && echo '{_said(**DENY)}' || echo '{RUNS}'")
    assert [one.ok for one in found] == [True, True]


def test_a_hook_that_does_not_stand_before_commands_is_found(project: Project) -> None:
    want = wanted("claude-code", Mode.HOOKS, project.places)
    project.connect("claude-code", Mode.HOOKS)
    path = want.files[0].path
    path.write_text(path.read_text().replace('"matcher": "*"', '"matcher": "Write|Edit"'))
    (found,) = selftest.hooks("claude-code", want, project.work)
    assert found.what == "no hook of Lockgate stands before `Bash`"


def test_a_server_that_does_not_start_is_found(project: Project) -> None:
    project.connect("gemini", Mode.MCP)
    (found,) = selftest.mcp(wanted("gemini", Mode.MCP, project.places), project.work)
    assert not found.ok
    assert found.what.startswith("the server does not work: ")


def test_the_folders_of_agents_move_with_their_variables(tmp_path: Path) -> None:
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "a"), "CODEX_HOME": str(tmp_path / "b")}
    places = Places(tmp_path / "home", None, ("/x",), moved)
    for agent, folder in (("claude-code", "a"), ("codex", "b")):
        for mode in Mode:
            for file in wanted(agent, mode, places).files:
                assert file.path.is_relative_to(tmp_path / folder)
    assert os.path.isabs(wanted("gemini", Mode.MCP, places).files[0].path)  # noqa: PTH117


def test_what_a_connection_makes_is_kept_out_of_commits_until_it_ends(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    exclude = tmp_path / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("mine\n# lockgate connect gemini /theirs\n/theirs\nlast")
    made = [tmp_path / ".claude" / "settings.local.json", tmp_path / "a [b]*.json"]
    for path in (*made, tmp_path / "a b.json", tmp_path / "sub" / "a [b]*.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")

    def untracked() -> set[str]:
        words = [*git, "ls-files", "-o", "-z", "--exclude-standard"]
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return set(filter(None, out.split("\0")))

    before, text = untracked(), exclude.read_text()
    change = excluding("claude-code", tmp_path, made)
    assert change is not None
    changing.carry_out(change, within=tmp_path)
    assert untracked() == before - {".claude/settings.local.json", "a [b]*.json"}
    assert excluding("claude-code", tmp_path, made) is None  # it stands already
    back = excluding("claude-code", tmp_path, [])
    assert back is not None
    changing.carry_out(back, within=tmp_path)
    assert exclude.read_text() == text + "\n"
    assert untracked() == before
    assert excluding("claude-code", tmp_path / ".claude", made) is None  # no repository's top
    exclude.write_text("# lockgate connect claude-code /gone\n/mine\nlast\n")
    rest = excluding("claude-code", tmp_path, [])
    assert rest is not None
    assert rest.new == b"/mine\nlast\n"


VERSIONS = {
    "2.1.197 (Claude Code)": True,
    "2.1.295 (Claude Code)": False,
    "2.2.0 (Claude Code)": False,
    "no version": False,
}


@pytest.mark.parametrize("said, warned", VERSIONS.items(), ids=VERSIONS)
def test_a_version_that_runs_a_call_whose_hook_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, warned: bool
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert (fails_open("claude-code") is not None) == warned
    assert fails_open("cursor") is None
    for agent in ("codex", "gemini"):
        assert "lets a call run where its hook cannot be started" in str(fails_open(agent))
