# SPDX-License-Identifier: Apache-2.0
"""A commit made past the index held another content of a protected file, and landed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.cell.git.commits import note_commits
from sandbox.cell.overlay.masks import Patterns
from tests.gitchanges import copy, held_for, judged
from tests.gitchanges import sh as run

POLICY = PathPolicy.default()
DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=("**",),
)
PREPARE = """
git init -q -b main; echo one > a; echo '{}' > devkit.config.json; mkdir -p src/deep
echo two > src/deep/b; echo TOKEN=1 > .env; git add -fA; git commit -qm one
git checkout -qb side; echo side > side.txt; git add side.txt; git commit -qm side
git checkout -q main; echo more >> a; git commit -qam two
echo '{"person": 1}' > devkit.config.json
"""
"""The person has changed the protected file, and not committed that."""
EVIL = "evil=$(echo evil | git hash-object -w --stdin)"
INDEX = "export GIT_INDEX_FILE=$PWD/.git/other; git read-tree HEAD"
COMMIT = 'git commit-tree -m evil -p HEAD "$(git write-tree)"'


def sh(folder: Path, script: str) -> None:
    """Run a script with git as nobody in particular."""
    names = {f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **names}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture
def held(tmp_path: Path) -> Any:
    """Return a function: run a script over a repository; what gate 2 holds of its objects."""
    lower = tmp_path / "lower"
    lower.mkdir()

    def run(script: str, prepare: str = PREPARE) -> dict[str, str]:
        if not (lower / ".git").exists():
            sh(lower, prepare)
        after, upper = tmp_path / "after", tmp_path / "upper"
        for folder in (after, upper):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(lower, after)
        sh(after, script)
        upper.mkdir()
        old, changes = contents(lower), []
        for path, content in sorted(contents(after).items()):
            if old.get(path) != content:
                place = upper / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                kind = "modified" if path in old else "created"
                changes.append({"path": path, "kind": kind, "type": "file"})
        (hide, show), pin = POLICY.mask_expressions(), POLICY.pin_expressions()
        patterns = Patterns(
            [*hide], [*show], [*pin], POLICY.pin_folder_expressions(), POLICY.obey_expressions()
        )
        note_commits(changes, str(lower), str(upper), patterns.counts)
        typed = [_typed(one) for one in changes]
        reasons = judge(DECISION, typed, POLICY, workspace="/w").reasons
        return {one.path: one.outcome.value for one in reasons if one.rule == "commit-content"}

    return run


def _typed(one: dict[str, Any]) -> Change:
    return Change(**{**one, "kind": Kind(one["kind"]), "type": FileType(one["type"])})


def _file(path: str, kind: Kind = Kind.CREATED, **facts: Any) -> Change:
    return Change(path, kind, FileType.FILE, **facts)


HELD = {
    "another index": f"{EVIL}; {INDEX};"
    " git update-index --cacheinfo 100644,$evil,devkit.config.json;"
    f" git update-ref refs/heads/main $({COMMIT})",
    "the index itself": f"{EVIL}; git update-index --cacheinfo 100644,$evil,devkit.config.json;"
    " git commit -qm evil",
    "a commit that nothing names yet": f"{EVIL}; {INDEX};"
    f" git update-index --cacheinfo 100644,$evil,devkit.config.json; {COMMIT}",
    "the same in a pack": f"{EVIL}; {INDEX};"
    " git update-index --cacheinfo 100644,$evil,devkit.config.json;"
    f" git update-ref refs/heads/x $({COMMIT}); unset GIT_INDEX_FILE; git repack -adq",
    "a merge of its own making": f"{EVIL}; {INDEX};"
    " git update-index --cacheinfo 100644,$evil,devkit.config.json;"
    ' git commit-tree -m evil -p HEAD -p side "$(git write-tree)"',
    "the file taken away": f"{INDEX}; git update-index --force-remove devkit.config.json; {COMMIT}",
    "a protected file beside others": f"{EVIL}; git update-index --add --cacheinfo"
    " 100644,$evil,src/.devkit-waiver.yml; git commit -qm evil",
    "a patch that is applied": "cp devkit.config.json /dev/null; git stash -q;"
    " git checkout -q side; echo evil > devkit.config.json; git commit -qam evil",
}


@pytest.mark.parametrize("script", HELD.values(), ids=HELD)
def test_a_commit_with_another_content_of_a_protected_file_is_held(held: Any, script: str) -> None:
    found = held(script)
    assert set(found.values()) == {"hold"}
    assert all(one.endswith(("devkit.config.json", ".devkit-waiver.yml")) for one in found)


def test_a_commit_without_a_hidden_file_is_held(held: Any) -> None:
    assert held(f"{INDEX}; git update-index --force-remove .env; {COMMIT}") == {".env": "hold"}


def test_a_split_index_does_not_hide_what_is_committed(held: Any) -> None:
    script = "git update-index --split-index; git rm -q --cached .env; git commit -qm x"
    assert held(script) == {".env": "hold"}


def test_what_the_host_obeys_counts(held: Any) -> None:
    path = ".github/workflows/ci.yml"
    script = f"{EVIL}; git update-index --add --cacheinfo 100644,$evil,{path}; git commit -qm x"
    assert held(script) == {path: "hold"}


LANDS = {
    "an ordinary commit": "echo x >> a; echo y >> src/deep/b; git commit -qam x",
    "what the person made of the file": "git commit -qam x",
    "a branch and a tag": "git checkout -qb other; git tag v1; echo x > n; git add n;"
    " git commit -qm n",
    "a merge": "git merge -q side -m merged",
    "a stash": "echo x >> a; git stash -q",
    "a repack": "git repack -adq",
    "a collection": "git -c gc.writeCommitGraph=false gc -q --prune=now",
    "an amended commit": "echo x >> a; git commit -q --amend -am again",
    "a rebase": "git stash -q; git checkout -q side; git rebase -q main",
    "a pick": "git cherry-pick side",
    "a commit that reverts": "git stash -q; git revert --no-edit HEAD",
    "a patch": "git format-patch -q -1 --stdout side > ../p; git am -q ../p",
}


@pytest.mark.parametrize("script", LANDS.values(), ids=LANDS)
def test_what_git_ordinarily_does_holds_nothing(held: Any, script: str) -> None:
    assert held(script) == {}


def test_new_commits_upon_packed_ones_are_read(held: Any) -> None:
    pack = f"{PREPARE}\ngit repack -adfq --depth=50 --window=50; git prune-packed"
    assert held("echo x >> src/deep/b; git commit -qam x", pack) == {}
    assert held(HELD["another index"]) == {"devkit.config.json": "hold"}


def test_a_repository_with_long_ids_is_read(held: Any) -> None:
    prepare = PREPARE.replace("git init -q", "git init -q --object-format=sha256")
    assert held("echo x >> a; git commit -qam x", prepare) == {}
    assert held(HELD["another index"]) == {"devkit.config.json": "hold"}


SUBSTITUTES = {
    "an object that cannot be read": "n=.git/objects/ab; mkdir -p $n;"
    " printf x > $n/$(printf %038d)",
    "another object's content": "echo evil | git hash-object -w --stdin > ../name;"
    " n=$(cat ../name); mkdir -p .git/objects/ab;"
    " mv .git/objects/${n:0:2}/${n:2} .git/objects/ab/$(printf %038d)",
    "a pack that is cut": "echo x >> a; git commit -qam x; git repack -adfq; cd .git/objects/pack;"
    " for p in *.pack; do chmod u+w $p; truncate -s 60 $p; done",
    "a pack under other names": "git repack -adfq; cd .git/objects/pack; chmod u+w *.idx;"
    " printf '\\1\\2\\3' | dd of=$(ls *.idx) bs=1 seek=1050 conv=notrunc status=none",
}


@pytest.mark.parametrize("script", SUBSTITUTES.values(), ids=SUBSTITUTES)
def test_objects_that_are_not_what_their_names_say_are_held(held: Any, script: str) -> None:
    assert set(held(script).values()) == {"hold"}


def test_references_that_replace_objects_are_held(held: Any) -> None:
    assert held("git replace HEAD HEAD~1; git pack-refs --all") == {".git/packed-refs": "hold"}
    assert held("git pack-refs --all") == {}


MOVES = {
    "from another folder": ("x/ab/00", ".git/objects/ab/00", True),
    "under another name": (".git/objects/ab/00", ".git/objects/ab/01", True),
    "with its repository": ("old/.git/objects/ab/00", "new/.git/objects/ab/00", False),
}


@pytest.mark.parametrize("source, path, odd", MOVES.values(), ids=MOVES)
def test_files_that_are_moved_among_objects(
    tmp_path: Path, source: str, path: str, odd: bool
) -> None:
    change = {"path": path, "source": source, "kind": "renamed", "type": "file"}
    note_commits([change], str(tmp_path), str(tmp_path), lambda _: True)
    assert ("commits_odd" in change) is odd


PACK = f"pack-{'1' * 40}"
RULES: dict[str, tuple[Change, str | None]] = {
    "alternates": (_file(".git/objects/info/alternates"), "git-pointers"),
    "a work tree's repository": (
        _file(".git/worktrees/a/commondir", kind=Kind.MODIFIED),
        "git-pointers",
    ),
    "a new work tree": (_file(".git/worktrees/a/commondir", git_text="../..\n"), None),
    "a replacement": (_file(".git/refs/replace/00ff"), "git-substitutes"),
    "a graph of commits": (_file(".git/objects/info/commit-graph"), "git-substitutes"),
    "an index over packs": (_file(".git/objects/pack/multi-pack-index"), "git-substitutes"),
    "a pack": (_file(f".git/objects/pack/{PACK}.pack"), None),
    "another pack of that name": (
        _file(f".git/objects/pack/{PACK}.pack", kind=Kind.MODIFIED),
        "git-substitutes",
    ),
    "an object": (_file(f".git/objects/ab/{'0' * 38}"), None),
    "another object of that name": (
        _file(f".git/objects/ab/{'0' * 38}", kind=Kind.MODIFIED),
        "git-substitutes",
    ),
    "a list of packs": (
        _file(".git/objects/info/packs", kind=Kind.MODIFIED, git_checked="served"),
        None,
    ),
    "a branch": (
        _file(".git/refs/heads/main", kind=Kind.MODIFIED, git_text="1" * 40 + "\n"),
        None,
    ),
}


@pytest.mark.parametrize("change, rule", RULES.values(), ids=RULES)
def test_files_of_git_that_stand_for_others(change: Change, rule: str | None) -> None:
    found = judge(DECISION, [change], POLICY, workspace="/w")
    assert [one.rule for one in found.reasons] == ([] if rule is None else [rule])


OBEYED = """
git init -q -b main; echo one > a; mkdir -p .githooks; echo true > .githooks/pre-commit
git add -A; git commit -qm one; git branch old; echo exit > .githooks/pre-commit
git commit -qam two; git branch feat; git clone -q --bare . hub.git; git worktree add -q wt -b wt
mkdir kept; git init -q --separate-git-dir kept/store sub; cd sub; mkdir .githooks
echo true > .githooks/pre-commit; echo s > s; git add -A; git commit -qm sub; cd ..
"""
EVIL_COMMIT = (
    f"{EVIL}; export GIT_INDEX_FILE=/tmp/$$.index; git read-tree HEAD;"
    " git update-index --add --cacheinfo 100755,$evil,.githooks/pre-commit;"
    f" git update-ref refs/heads/evil $({COMMIT}); rm -f $GIT_INDEX_FILE"
)
EVIL_ENTRY = f"{EVIL}; git update-index --add --cacheinfo 100755,$evil,.githooks/pre-commit"
OTHERWISE = {
    "a commit in a bare repository": f"cd hub.git; {EVIL_COMMIT}",
    "a commit in a git folder elsewhere": f"cd sub; {EVIL_COMMIT}",
    "a commit in a new bare repository": f"cp -r hub.git new.git; cd new.git; {EVIL_COMMIT}",
    "an entry": EVIL_ENTRY,
    "an entry of a linked work tree": f"cd wt; {EVIL_ENTRY}",
    "an entry of a git folder elsewhere": f"cd sub; {EVIL_ENTRY}",
    "an entry that goes": "git rm -q --cached .githooks/pre-commit",
    "entries of another commit": "git read-tree old",
    "an entry for a whole folder": f"{EVIL}; t=$(printf '100755 blob %s\\tpre-commit\\n' $evil |"
    " git mktree); git status -s; git sparse-checkout set --cone --sparse-index; o=$(git rev-parse"
    " HEAD:.githooks); python3 -c 'import sys, hashlib; a, b = map(bytes.fromhex, sys.argv[1:]);"
    ' d = open(".git/index", "rb").read()[:-20].replace(a, b);'
    ' open(".git/index", "wb").write(d + hashlib.sha1(d).digest())\' $o $t',
}
AS_IT_WAS = {
    "a commit in a git folder elsewhere": "cd sub; echo x > s; git commit -qam x",
    "a push of what is there": "git push -q ./hub.git main wt",
    "a clone": "git clone -q --no-hardlinks --bare . other.git",
    "a branch that has the file so": "git reset -q old; git checkout -q feat 2>/dev/null || true",
    "another file": "echo x > a; git add a; echo y > wt/a; cd wt; git add a; git commit -qm y",
    "a file as it is": "git rm -q --cached a; git read-tree HEAD; git add -A .githooks a",
}


@pytest.fixture(scope="module")
def obeyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a hook that is tracked, and with others in and around it."""
    root = tmp_path_factory.mktemp("obeyed") / "ws"
    root.mkdir()
    run(root, OBEYED)
    return root


@pytest.mark.parametrize("script", OTHERWISE.values(), ids=OTHERWISE)
def test_no_index_and_no_git_folder_holds_another_hook(obeyed: Path, script: str) -> None:
    before = copy(obeyed, obeyed.parent / "before")
    run(obeyed, script)
    found = held_for(judged(before, obeyed), "commit-content")
    copy(before, obeyed)
    assert any(".githooks/pre-commit: " in one for one in found), found


@pytest.mark.parametrize("script", AS_IT_WAS.values(), ids=AS_IT_WAS)
def test_honest_work_in_them_is_not_held_for_it(obeyed: Path, script: str) -> None:
    before = copy(obeyed, obeyed.parent / "before")
    run(obeyed, script)
    found = held_for(judged(before, obeyed), "commit-content")
    copy(before, obeyed)
    assert found == []
