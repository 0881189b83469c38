# SPDX-License-Identifier: Apache-2.0
"""A commit made past the work tree held what is held in the work tree, and landed.

Links in place of folders that hold obeyed files, links that lead out, attributes and submodules
that run programs, manifests that do, names that are options: a person's `git switch` made them.
And a branch that is named like the abbreviated id of a commit was taken in its place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.container.lab import Lab
from tests.gitchanges import held_for, judge_script, make_repository, sh

PREPARE = """
git init -q -b main; echo one > a; echo '{"name": "a", "scripts": {}}' > package.json
echo '*.txt text' > .gitattributes; ln -s a in; ln -s /etc out; git add -A; git commit -qm one
"""
OTHER = "export GIT_INDEX_FILE=$PWD/.git/other; git read-tree HEAD; "
COMMIT = (
    "; git update-ref refs/heads/feature $(git commit-tree -p HEAD -m x $(git write-tree))"
    "; rm .git/other"
)


def _blob(mode: str, path: str, content: str) -> str:
    return (
        f"h=$(printf '%s' '{content}' | git hash-object -w --stdin); "
        f"git update-index --add --cacheinfo {mode},$h,'{path}'"
    )


def _link(path: str, target: str) -> str:
    return _blob("120000", path, target)


SUBMODULE = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD)"
HELD = {
    "cargo's folder": _link(".cargo", "tools/cargo"),
    "settings' folder": _link(".config", "tools/config"),
    "GitHub's folder": _link(".github", "tools/github"),
    "GitLab's folder": _link(".gitlab", "x"),
    "gradle's folder": _link("gradle", "x"),
    "yarn's folder": _link("web/.yarn", "../x"),
    "bundler's folder": _link(".bundle", "x"),
    "an editor's folder": _link(".vscode", "x"),
    "a submodule in its place": f"{SUBMODULE},.cargo",
    "a link up": _link("up", "../../.."),
    "a link to a place of the host's": _link("abs", "/etc/passwd"),
    "a filter": _blob("100644", ".gitattributes", "* filter=evil"),
    "another encoding": _blob("100644", "sub/.gitattributes", "* working-tree-encoding=utf-7"),
    "attributes behind a link": _link("sub/.gitattributes", "x"),
    "a submodule's program": _blob(
        "100644", ".gitmodules", '[submodule "a"]\n\tpath = a\n\turl = x\n\tupdate = !touch x\n'
    ),
    "a person's settings": _blob("100644", ".gitconfig", "[core]\n\tfsmonitor = x\n"),
    "a hook of npm's": _blob(
        "100644", "package.json", '{"name": "a", "scripts": {"postinstall": "touch x"}}'
    ),
    "a package from elsewhere": _blob(
        "100644", "Cargo.lock", 'source = "registry+https://elsewhere.example/x"'
    ),
    "an option": _blob("100644", "-x", ""),
    "a command": _blob("100644", "+!sh x", ""),
    "what does not show": _blob("100644", "a\u202eb", ""),
}
LANDS = {
    "a link inside": _link("here", "a"),
    "a link that was there": "true",
    "another file": _blob("100644", "b.txt", "b"),
    "attributes of git's own": _blob("100644", ".gitattributes", "*.txt text\n*.py diff=python\n"),
    "a script": _blob("100644", "package.json", '{"name": "a", "scripts": {"lint": "eslint ."}}'),
    "a list of packages": _blob("100644", "Cargo.lock", "version = 4\n"),
    "a submodule": f"{SUBMODULE},lib/sub",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, PREPARE)


@pytest.mark.parametrize("script", HELD.values(), ids=HELD)
def test_a_commit_past_the_work_tree_is_held(repository: Path, tmp_path: Path, script: str) -> None:
    judged = judge_script(repository, tmp_path, OTHER + script + COMMIT)
    assert held_for(judged, "commit-content"), judged.message


@pytest.mark.parametrize("script", HELD.values(), ids=HELD)
def test_an_index_is_held(repository: Path, tmp_path: Path, script: str) -> None:
    judged = judge_script(repository, tmp_path, script)
    assert held_for(judged, "commit-content"), judged.message


@pytest.mark.parametrize("script", LANDS.values(), ids=LANDS)
def test_others_land(repository: Path, tmp_path: Path, script: str) -> None:
    judged = judge_script(repository, tmp_path, OTHER + script + COMMIT)
    assert not judged.reasons, judged.message


def test_what_stands_in_the_work_tree_may_be_added(repository: Path, tmp_path: Path) -> None:
    """A person's own link was there, and they see it."""
    prepare = "ln -s /usr/share/dict dict; echo '* filter=own' > sub.gitattributes"
    judged = judge_script(repository, tmp_path, "git add dict; git commit -qm x", prepare)
    assert not judged.reasons, judged.message


def _abbreviated(repository: Path) -> str:
    return sh(repository, "git rev-parse --short=8 HEAD").strip()


@pytest.mark.parametrize("verb", ["branch", "tag"])
@pytest.mark.parametrize("packed", ["true", "git repack -qad"])
def test_a_reference_like_an_id_is_held(
    repository: Path, tmp_path: Path, verb: str, packed: str
) -> None:
    digits = _abbreviated(repository)
    for name in (digits, digits[:4], digits.upper(), f"v1-0-g{digits}"):
        judged = judge_script(repository, tmp_path, f"git {verb} {name}", packed)
        assert held_for(judged, "git-folder"), (name, judged.message)
    other = "".join("0123456789abcdef"[15 - int(one, 16)] for one in digits)
    for name in (other, "cafe-1", digits[:3], f"x{digits}", f"v1-0-{digits}x"):
        judged = judge_script(repository, tmp_path, f"git {verb} {name}", packed)
        assert not judged.reasons, (name, judged.message)


def test_in_a_cell(lab: Lab) -> None:
    sh(lab.ws, PREPARE)
    for script in (
        OTHER + HELD["cargo's folder"] + COMMIT,
        OTHER + HELD["a filter"] + COMMIT,
        OTHER + HELD["a hook of npm's"] + COMMIT,
        OTHER + HELD["an option"] + COMMIT,
    ):
        done = lab.sh(script)
        assert done.judgement == "hold" and "commit-content" in done.message, done.message
        lab.run(lab.supervisor.discard(done.id))
    held = lab.sh(f"git branch {_abbreviated(lab.ws)}")
    assert held.judgement == "hold" and "git could take it for" in held.message, held.message
    lab.run(lab.supervisor.discard(held.id))
    for script in (
        OTHER + LANDS["a script"] + COMMIT,
        "ln -s a more; git add -A; git commit -qm more; git switch -q -c topic",
        'sed -i \'s/{}/{"test": "x"}/\' package.json; git commit -qam script',
    ):
        done = lab.sh(script)
        assert done.landed, (script, done.message, done.stderr)
