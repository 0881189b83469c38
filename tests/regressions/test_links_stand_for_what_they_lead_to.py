# SPDX-License-Identifier: Apache-2.0
"""What a link of a person's leads to is obeyed like what the link stands for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Outcome, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.workspaces.obeyed_links import obeyed_links
from tests.container.lab import Lab

DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    named_deletions=("**",),
    message="",
)
PATHS = PathPolicy.default()
FILE, LINK, FOLDER = FileType.FILE, FileType.SYMLINK, FileType.DIRECTORY


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for folder in ("tools/vscode", "hub/workflows", "sub/deep", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tools/mcp-servers.json").write_text("{}")
    (tmp_path / ".vscode").symlink_to("tools/vscode")
    (tmp_path / "sub/deep/.github").symlink_to("../../hub")
    (tmp_path / ".mcp.json").symlink_to("tools/mcp-servers.json")
    (tmp_path / "devkit.config.json").symlink_to("tools/devkit.json")
    (tmp_path / "manual").symlink_to("docs")
    return tmp_path


def _judged(root: Path, change: Change) -> Outcome:
    links = obeyed_links(str(root), PATHS)
    return judge(DECISION, [change], PATHS, workspace=str(root), linked=links).outcome


HELD = {
    "a file behind a link of a folder": Change("tools/vscode/tasks.json", Kind.CREATED, FILE),
    "a file behind a link of a folder above": Change("hub/workflows/ci.yml", Kind.MODIFIED, FILE),
    "a file that a link of a file leads to": Change("tools/mcp-servers.json", Kind.MODIFIED, FILE),
    "a protected one": Change("tools/devkit.json", Kind.CREATED, FILE),
    "its removal": Change("tools/mcp-servers.json", Kind.DELETED, FILE),
    "a file that is moved there": Change(
        "tools/vscode/settings.json", Kind.RENAMED, FILE, source="docs/a.json"
    ),
    "a folder that is moved in its place": Change("hub", Kind.RENAMED, FOLDER, source="docs"),
    "a link in its place": Change("hub", Kind.CREATED, LINK, target="docs"),
    "a link in place of a folder above it": Change("tools", Kind.CREATED, LINK, target="docs"),
}


@pytest.mark.parametrize("change", HELD.values(), ids=HELD)
def test_what_a_link_leads_to_is_held(workspace: Path, change: Change) -> None:
    assert _judged(workspace, change) is Outcome.HOLD


LANDS = {
    "what an exception names": Change("tools/vscode/extensions.json", Kind.CREATED, FILE),
    "what nobody obeys there": Change("hub/README.md", Kind.MODIFIED, FILE),
    "what lies behind another link": Change("docs/tasks.json", Kind.CREATED, FILE),
    "what lies beside it": Change("tools/run.sh", Kind.MODIFIED, FILE),
    "a new folder": Change("tools/other", Kind.CREATED, FOLDER),
}


@pytest.mark.parametrize("change", LANDS.values(), ids=LANDS)
def test_all_else_lands(workspace: Path, change: Change) -> None:
    assert _judged(workspace, change) is Outcome.LAND


def test_without_the_link_the_folder_is_any_other(workspace: Path) -> None:
    change = Change("tools/vscode/tasks.json", Kind.CREATED, FILE)
    assert _judged(workspace, change) is Outcome.HOLD
    (workspace / ".vscode").unlink()
    assert _judged(workspace, change) is Outcome.LAND
    (workspace / ".vscode").symlink_to("tools/vscode")  # made again: it is seen at once
    assert _judged(workspace, change) is Outcome.HOLD


def test_no_number_of_folders_and_files_drives_a_link_out_of_the_search(workspace: Path) -> None:
    behind = Change("hub/workflows/ci.yml", Kind.MODIFIED, FILE)
    for number in range(2_100):
        (workspace / f"a{number}").mkdir()
    for number in range(5_100):
        (workspace / f"sub/deep/{number}").touch()
    assert _judged(workspace, behind) is Outcome.HOLD
    assert _judged(workspace, Change("a1/x.py", Kind.CREATED, FILE)) is Outcome.LAND


def test_where_more_lies_than_is_searched_a_call_is_held(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Change("src/x.py", Kind.CREATED, FILE)
    for number in range(40):
        (workspace / f"node_modules/{number}").mkdir(parents=True)
    monkeypatch.setattr("sandbox.workspaces.obeyed_links.MOST_ENTRIES", 30)
    assert _judged(workspace, change) is Outcome.LAND
    for number in range(30):
        (workspace / f"a{number}").mkdir()
    assert _judged(workspace, change) is Outcome.HOLD


def test_a_link_is_seen_where_the_time_of_its_folder_was_set_back(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.workspaces.obeyed_links.YOUNG_NS", 0)
    change = Change("docs/settings.json", Kind.CREATED, FILE)
    deep = workspace / "sub/deep"
    os.utime(deep, ns=(1, 1))
    assert _judged(workspace, change) is Outcome.LAND
    (deep / ".vscode").symlink_to("../../docs")
    os.utime(deep, ns=(1, 1))
    assert _judged(workspace, change) is Outcome.HOLD


def test_what_only_looks_like_a_git_folder_hides_no_link(workspace: Path) -> None:
    change = Change("hub/tasks.json", Kind.CREATED, FILE)
    (workspace / "sub/refs").mkdir()
    (workspace / "sub/objects").mkdir()
    assert _judged(workspace, change) is Outcome.LAND
    (workspace / "sub/objects/.vscode").symlink_to("../../hub")
    (workspace / "sub/HEAD").touch()
    assert _judged(workspace, change) is Outcome.HOLD


LAUNCH = '<launchConfiguration type="x"><stringAttribute key="a" value="b"/></launchConfiguration>'
ROS = '<launch>\n  <node pkg="turtlesim" exec="turtlesim_node" name="sim"/>\n</launch>\n'


@pytest.mark.parametrize(
    "path, text, outcome",
    [
        ("Run.launch", LAUNCH, Outcome.HOLD),
        ("launch/robot.launch", ROS, Outcome.LAND),
        ("node_modules/x/.vscode/settings.json", "{}", Outcome.LAND),
        ("web/.vscode/settings.json", "{}", Outcome.HOLD),
        ("node_modules/x/.lintstagedrc", "{}", Outcome.LAND),
        (".lintstagedrc", "{}", Outcome.HOLD),
    ],
)
def test_what_nobody_obeys_lands(path: str, text: str, outcome: Outcome) -> None:
    change = Change(path, Kind.CREATED, FILE, after_text=text)
    assert judge(DECISION, [change], PATHS, workspace="/w").outcome is outcome


IN_GIT = {
    "the folder of hooks": ("hooks", "hk", "hk/pre-commit"),
    "settings": ("config", "kept/gc", "kept/gc"),
    "ignore rules": ("info", "gi", "gi/exclude"),
    "the plan of a rebase": ("rebase-merge", "plans", "plans/git-rebase-todo"),
    "reflogs": ("logs", "lg", "lg/HEAD"),
    "a folder of branches": ("refs/heads/team", "heads", "heads/x"),
}


@pytest.mark.parametrize("git", [".git", "sub/.git", "bare"])
@pytest.mark.parametrize(("name", "target", "file"), IN_GIT.values(), ids=IN_GIT)
def test_what_a_link_in_a_git_folder_leads_to_is_held(
    tmp_path: Path, git: str, name: str, target: str, file: str
) -> None:
    for folder in (f"{git}/objects", f"{git}/refs/heads", f"{Path(file).parent}"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / git / "HEAD").write_text("ref: refs/heads/main\n")
    if not (tmp_path / target).is_dir():
        (tmp_path / target).touch()
    change = Change(file, Kind.MODIFIED, FILE)
    assert _judged(tmp_path, change) is Outcome.LAND
    (tmp_path / git / name).symlink_to(tmp_path / target)
    (tmp_path / git / "refs/heads/alias").symlink_to("main")  # git's own, as it was written once
    assert _judged(tmp_path, change) is Outcome.HOLD
    assert _judged(tmp_path, Change("beside.txt", Kind.CREATED, FILE)) is Outcome.LAND


def test_a_commit_that_holds_what_a_link_leads_to_is_held(workspace: Path) -> None:
    def holding(path: str) -> Change:
        return Change(".git/objects/aa/bb", Kind.CREATED, FILE, commits_others=(path,))

    reasons = [
        {reason.rule for reason in judge(
            DECISION, [holding(path)], PATHS,
            workspace=str(workspace), linked=obeyed_links(str(workspace), PATHS),
        ).reasons}
        for path in ("hub/workflows/x.yml", "hub/README.md")
    ]  # fmt: skip
    assert "commit-content" in reasons[0]
    assert "commit-content" not in reasons[1]


def test_hooks_behind_a_link_are_held_in_a_cell(lab: Lab) -> None:
    shutil.move(lab.ws / ".git/hooks", lab.ws / "hk")
    (lab.ws / ".git/hooks").symlink_to("../hk")
    done = lab.sh("printf '#!/bin/sh\\n' > hk/pre-push; chmod +x hk/pre-push")
    assert (done.judgement, (lab.ws / "hk/pre-push").exists()) == ("hold", False)
    assert lab.sh("echo x > beside.txt; git add beside.txt; git commit -qm x").landed
