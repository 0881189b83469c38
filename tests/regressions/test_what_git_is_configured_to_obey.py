# SPDX-License-Identifier: Apache-2.0
"""Files that an older setting made git on the host run or read landed as any other file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.workspaces.git_obeyed import configured
from tests.conftest import opened_below
from tests.gitchanges import copy, held_for, judged, sh

DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=("**",),
)
FILE, DIRECTORY, LINK = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a person's home."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return place


@pytest.fixture
def ws(tmp_path: Path, home: Path) -> Path:
    """Return a workspace that is a repository with a submodule's folder in it."""
    root = tmp_path / "ws"
    for folder in (root, root / "sub", root / "shared"):
        folder.mkdir(exist_ok=True)
    for folder in (root, root / "sub"):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return root


def outcome(root: Path, *changes: Change) -> tuple[str, str]:
    """Return gate 2's outcome and the first reason."""
    paths = PathPolicy.default()
    named = [path for one in changes for path in (one.path, one.source) if path]
    found = configured(str(root), named, paths.git_keys)
    said = judge(DECISION, changes, paths, workspace=str(root), configured=found)
    return said.outcome.value, said.reasons[0].reason if said.reasons else ""


def written(path: str) -> Change:
    """Return the change of a file."""
    return Change(path, Kind.MODIFIED, FILE)


CASES = {
    "hooks elsewhere": ("core.hooksPath", "tools/gates", "tools/gates/pre-commit", "tools/x"),
    "hooks by their full path": ("core.hooksPath", "{ws}/githooks", "githooks/a", "githooks.md"),
    "a file of settings": ("include.path", "../dev/gitconfig.inc", "dev/gitconfig.inc", "dev/b"),
    "settings on a condition": ("includeIf.gitdir:/x/.path", "../a.inc", "a.inc", "b.inc"),
    "a filter": ("filter.big.clean", "python tools/clean.py %f", "tools/clean.py", "clean.py"),
    "a script by its name": ("filter.big.smudge", "python3 smudge.py", "smudge.py", "python3"),
    "a driver of diffs": ("diff.img.textconv", "./bin/show", "bin/show", "bin/other"),
    "a driver of merges": ("merge.lock.driver", "'bin/merge it' %A", "bin/merge", "merge"),
    "a monitor of files": ("core.fsmonitor", ".git/../watch.sh", "watch.sh", "watch.md"),
    "attributes": ("core.attributesFile", "conf/attributes", "conf/attributes", "conf/a"),
    "an alias that is a program": ("alias.lint", "!sh ci/lint.sh", "ci/lint.sh", "ci/test.sh"),
    "another case of the name": ("core.hooksPath", "Tools/Hooks", "tools/HOOKS/x", "tools/y"),
    "a helper with an option": ("credential.helper", "!f() { ./get=it; }; f", "get", "got"),
}


@pytest.mark.parametrize("key, value, obeyed, free", CASES.values(), ids=CASES)
def test_what_a_setting_names_is_held(
    ws: Path, key: str, value: str, obeyed: str, free: str
) -> None:
    assert outcome(ws, written(obeyed)) == ("land", "")  # nothing says so yet
    value = value.replace("{ws}", str(ws))
    subprocess.run(["git", "-C", str(ws), "config", key, value], check=True)
    held, why = outcome(ws, written(obeyed))
    assert (held, why.startswith("git on the host obeys it: `")) == ("hold", True)
    assert outcome(ws, Change("x", Kind.RENAMED, FILE, source=obeyed))[0] == "hold"
    assert outcome(ws, written(free)) == ("land", "")


HARMLESS = {
    "an alias of git's own": ("alias.st", "status", "status"),
    "a program of the system": ("core.editor", "code --wait", "code"),
    "an address": ("remote.origin.url", "../other/repo.git", "other/repo.git"),
    "a name": ("user.name", "src/app.py", "src/app.py"),
    "a branch": ("branch.main.merge", "refs/heads/main", "refs/heads/main"),
}


@pytest.mark.parametrize("key, value, path", HARMLESS.values(), ids=HARMLESS)
def test_other_settings_hold_nothing(ws: Path, key: str, value: str, path: str) -> None:
    subprocess.run(["git", "-C", str(ws), "config", key, value], check=True)
    assert outcome(ws, written(path)) == ("land", "")


def test_settings_of_the_user_count_in_every_repository(ws: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .hooks\n")
    assert outcome(ws, written(".hooks/pre-push"))[0] == "hold"
    assert outcome(ws, written("sub/.hooks/pre-push"))[0] == "hold"
    assert outcome(ws, written("other/.hooks/pre-push")) == ("land", "")
    (home / ".gitconfig").write_text("[core]\n\thooksPath = /elsewhere/hooks\n")
    assert outcome(ws, written(".hooks/pre-push")) == ("land", "")


def test_settings_that_are_included_are_read_too(ws: Path) -> None:
    (ws / "shared" / "a").write_text("[include]\n\tpath = b\n")
    (ws / "shared" / "b").write_text("[core]\n\thooksPath = deep/hooks\n")
    subprocess.run(["git", "-C", str(ws), "config", "include.path", "../shared/a"], check=True)
    for path in ("shared/a", "shared/b", "deep/hooks/update"):
        assert outcome(ws, written(path))[0] == "hold", path
    assert outcome(ws, written("shared/c")) == ("land", "")
    (ws / "shared" / "b").write_text("[include]\n\tpath = a\n")  # a circle ends
    assert outcome(ws, written("shared/b"))[0] == "hold"


def test_settings_of_a_nested_repository_and_of_a_work_tree_count(ws: Path) -> None:
    (ws / "sub" / ".git" / "config.worktree").write_text('[core]\n\thooksPath = "h"\n')
    assert outcome(ws, written("sub/h/pre-commit"))[0] == "hold"
    (ws / "a.txt").write_text("a\n")
    person = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    for words in (
        ("add", "a.txt"),
        (*person, "commit", "-qm", "one"),
        ("worktree", "add", "-q", "wt"),
        ("config", "core.hooksPath", "wh"),
    ):
        subprocess.run(["git", "-C", str(ws), *words], check=True, capture_output=True)
    assert outcome(ws, written("wt/wh/pre-commit"))[0] == "hold"
    assert outcome(ws, written("wt/pre-commit")) == ("land", "")


def test_a_link_in_place_of_a_folder_above_is_held(ws: Path) -> None:
    subprocess.run(["git", "-C", str(ws), "config", "core.hooksPath", "a/b/hooks"], check=True)
    link = Change("a/b", Kind.CREATED, LINK, target="c")
    assert outcome(ws, link)[0] == "hold"
    assert outcome(ws, Change("a/b", Kind.META, DIRECTORY))[0] == "hold"
    assert outcome(ws, Change("a/b", Kind.CREATED, DIRECTORY)) == ("land", "")
    assert outcome(ws, Change("a/c", Kind.CREATED, LINK, target="c"))[0] == "land"


def commit(root: Path, *names: str) -> None:
    """Commit new files, as a person does."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    person = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    for words in (("add", "-f", *names), (*person, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def config(root: Path, *words: str) -> None:
    """Set something as a person does."""
    subprocess.run(["git", "-C", str(root), "config", *words], check=True)


@pytest.mark.parametrize("own", [False, True], ids=["no repository", "one of its own"])
@pytest.mark.parametrize(
    "key, value, obeyed",
    [
        ("core.hooksPath", "sub/gh", "gh/pre-commit"),
        ("core.hooksPath", "{ws}/sub/gh", "gh/pre-commit"),
        ("core.hooksPath", "sub", "pre-commit"),
        ("filter.big.clean", "python sub/tools/clean.py %f", "tools/clean.py"),
        ("include.path", "../sub/inc", "inc"),
    ],
)
def test_settings_of_a_repository_above_count(
    ws: Path, key: str, value: str, obeyed: str, *, own: bool
) -> None:
    sub = ws / "sub"
    if not own:
        shutil.rmtree(sub / ".git")
    assert outcome(sub, written(obeyed)) == ("land", "")
    config(ws, key, value.replace("{ws}", str(ws)))
    assert outcome(sub, written(obeyed))[0] == "hold"
    assert outcome(sub, written("other/file")) == ("land", "")


def test_settings_of_another_work_tree_count(ws: Path, tmp_path: Path) -> None:
    commit(ws, "a.txt")
    far = tmp_path / "far"
    subprocess.run(["git", "-C", str(ws), "worktree", "add", "-q", str(far)], check=True)
    assert outcome(ws, written("gh/pre-commit")) == ("land", "")
    config(far, "extensions.worktreeConfig", "true")
    config(far, "--worktree", "core.hooksPath", str(ws / "gh"))
    assert outcome(ws, written("gh/pre-commit"))[0] == "hold"
    config(far, "--worktree", "core.hooksPath", "fh")
    assert outcome(ws, written("gh/pre-commit")) == ("land", "")
    assert outcome(far, written("fh/pre-commit"))[0] == "hold"
    (far / "deep").mkdir()
    config(ws, "core.hooksPath", "deep/wh")
    for root, path in ((far, "deep/wh/update"), (far / "deep", "wh/update")):
        assert outcome(root, written(path))[0] == "hold", root
    assert outcome(ws / "shared", written("wh/update")) == ("land", "")
    away = tmp_path / "away"
    (away / "deep").mkdir(parents=True)
    assert outcome(away, written("deep/wh/update")) == ("land", "")
    config(ws, "core.worktree", str(away))
    assert outcome(ws, written("deep/wh/update"))[0] == "hold"


def test_settings_of_a_git_folder_of_another_name_count(ws: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(ws / "hub.git")], check=True)
    config(ws / "hub.git", "core.hooksPath", "../gh")
    assert outcome(ws, written("gh/post-receive"))[0] == "hold"
    assert outcome(ws, written("fh/pre-commit")) == ("land", "")
    config(ws / "hub.git", "core.hooksPath", "fh")
    config(ws / "hub.git", "core.bare", "false")
    config(ws / "hub.git", "core.worktree", "..")
    assert outcome(ws, written("fh/pre-commit"))[0] == "hold"
    assert outcome(ws, written("gh/post-receive")) == ("land", "")


def test_what_links_lead_to_counts(ws: Path, tmp_path: Path) -> None:
    (ws / "hooks").symlink_to("tools/gates")
    (ws / ".git" / "hooks" / "pre-push").symlink_to("../../ci/push.sh")
    assert outcome(ws, written("tools/gates/update")) == ("land", "")
    assert outcome(ws, written("ci/push.sh"))[0] == "hold"
    assert outcome(ws, written("ci/other.sh")) == ("land", "")
    config(ws, "core.hooksPath", "hooks")
    assert outcome(ws, written("tools/gates/update"))[0] == "hold"
    far = tmp_path / "hooks"
    far.mkdir()
    (far / "commit-msg").symlink_to(ws / "ci" / "message")
    config(ws, "core.hooksPath", str(far))
    assert outcome(ws, written("ci/message"))[0] == "hold"
    assert outcome(ws, written("tools/gates/update")) == ("land", "")


def test_looking_leaves_nothing_open(ws: Path) -> None:
    (ws / "sub" / ".git" / "commondir").mkdir()  # a folder in the place of a file, as `.git` is one
    for _ in range(3):
        configured(str(ws), ["sub/file", "file"], PathPolicy.default().git_keys)
    assert opened_below(ws) == []
    with (ws / "file").open("w"):
        assert opened_below(ws) == [str(ws / "file")]


TRACKED = """
git init -q -b main; mkdir gh; echo true > gh/pre-commit; echo a > a; echo b > inc
git add -A; git commit -qm one; git config core.hooksPath gh; git config include.path ../inc
git worktree add -q wt -b wt; git init -q --separate-git-dir kept sub; cd sub; mkdir gh
echo true > gh/pre-commit; git add -A; git commit -qm sub; git config core.hooksPath gh; cd ..
"""
ENTRY = (
    "evil=$(echo evil | git hash-object -w --stdin);"
    " git update-index --add --cacheinfo 100755,$evil,gh/%s"
)
COMMITTED = (
    f"export GIT_INDEX_FILE=/tmp/$$.index; git read-tree HEAD; {ENTRY}; git update-ref"
    " refs/heads/feat $(git commit-tree -m x -p HEAD $(git write-tree)); rm $GIT_INDEX_FILE"
)
ELSEWHERE = {
    "a commit": COMMITTED % "post-checkout",
    "a commit in a work tree": "cd wt; " + COMMITTED % "pre-commit",
    "a commit in a repository whose folder lies elsewhere": "cd sub; " + COMMITTED % "pre-commit",
    "an entry of the index": ENTRY % "pre-commit",
    "settings that are included": COMMITTED.replace("gh/%s", "inc"),
    "a link in the folder's place": "git rm -rq --cached gh; ln -s a x; git update-index --add"
    " --cacheinfo 120000,$(printf a | git hash-object -w --stdin),gh; git -c core.hooksPath="
    " commit -qm x",
}
HONEST = {
    "another file": "echo x >> a; git -c core.hooksPath= commit -qam x",
    "another file of a work tree": "cd wt; echo x > y; git add y; git -c core.hooksPath= commit"
    " -qm x",
    "a branch": "git branch feat; git switch -q feat",
}


@pytest.fixture
def tracked(tmp_path: Path, home: Path) -> tuple[Path, Path]:
    """Return a workspace with hooks that are tracked, and a copy of it."""
    root = tmp_path / "tracked"
    root.mkdir()
    sh(root, TRACKED)
    return root, copy(root, tmp_path / "before")


@pytest.mark.parametrize("script", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_committed_or_listed_of_it_is_held(tracked: tuple[Path, Path], script: str) -> None:
    root, before = tracked
    sh(root, script)
    assert held_for(judged(before, root), "commit-content")
    sh(before, "git config --unset core.hooksPath; git config --unset include.path")
    sh(before, "git -C sub config --unset core.hooksPath")
    assert held_for(judged(before, root), "commit-content") == []  # nothing says so then


@pytest.mark.parametrize("script", HONEST.values(), ids=HONEST)
def test_other_commits_beside_it_land(tracked: tuple[Path, Path], script: str) -> None:
    root, before = tracked
    sh(root, script)
    assert held_for(judged(before, root), "commit-content") == []


def test_what_a_person_made_of_it_may_be_committed(tracked: tuple[Path, Path]) -> None:
    root, before = tracked
    for place in tracked:
        (place / "gh" / "pre-commit").write_text("a person's\n")
    sh(root, "git -c core.hooksPath= commit -qam x")
    assert held_for(judged(before, root), "commit-content") == []


def test_more_paths_than_are_told_of_are_held(ws: Path) -> None:
    objects = Change(".git/objects/ab/" + "0" * 38, Kind.CREATED, FILE, commits_cut=True)
    assert outcome(ws, objects)[0] == "land"
    config(ws, "core.hooksPath", "gh")
    assert outcome(ws, objects)[0] == "hold"
