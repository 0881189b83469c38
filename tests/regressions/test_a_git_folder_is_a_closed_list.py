# SPDX-License-Identifier: Apache-2.0
"""Plans of a rebase and other files that git obeys landed: gate 2 knew some names, not the rest."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from policy.gate2.git.folder import Holds, holds_of
from policy.gate2.git.places import Place, place_of
from policy.gate2.judge import judge
from policy.model import Change, FileType, Judgement, Kind
from sandbox.cell.git_folder.changes import note_folders
from tests.conftest import cannot_run
from tests.gitchanges import DECISION as WITHOUT_NAMES
from tests.gitchanges import POLICY
from tests.sandbox.overlays import Overlay, missing

DECISION = WITHOUT_NAMES.model_copy(update={"named_deletions": ("**",)})
OID = "1" * 40 + "\n"


def file(path: str, kind: Kind = Kind.CREATED, **facts: Any) -> Change:
    return Change(path, kind, FileType.FILE, **{"mode": 0o644, **facts})


def held(*changes: Change) -> dict[str, str]:
    """Return what gate 2 holds, each with the rule."""
    found = judge(DECISION, changes, POLICY, workspace="/w")
    return {one.path: one.rule for one in found.reasons}


PLANS = [
    *("rebase-merge/git-rebase-todo", "rebase-merge/done", "rebase-apply/next", "sequencer/todo"),
    *("sequencer/opts", "BISECT_LOG", "BISECT_START", "rr-cache/1/postimage", "MERGE_RR"),
    *("info/attributes", "info/exclude", "info/grafts", "remotes/origin", "branches/origin"),
    *("shallow", "description", "MERGE_AUTOSTASH", "config.lock", "main", "gc.log", "git-daemon"),
    *("refs/main", "refs/replace/1", "refs/bisect/bad", "refs/rewritten/a", "head", "Index"),
    *("objects/info/alternates", "objects/pack/x.pack", "objects/1/2", "reftable/tables.list"),
    *("hooks/pre-commit", "hooks/anything", "lfs/hooks/x", "worktrees/a/locked", "modules/x"),
    *("worktrees/a/rebase-merge/git-rebase-todo", "modules/a/info/attributes", "svn/x"),
    *("modules/a/b/rebase-merge/done", "worktrees/a/config.lock", "sharedindex." + "1" * 40),
]


@pytest.mark.parametrize("rest", PLANS)
@pytest.mark.parametrize("kind", [Kind.CREATED, Kind.MODIFIED, Kind.DELETED])
def test_what_is_not_in_the_list_is_held(rest: str, kind: Kind) -> None:
    path = f".git/{rest}"
    facts: dict[str, Any] = (
        {"git_folders": (".git", ".git/modules/a/b")} if "modules/a/b" in rest else {}
    )
    if kind is Kind.DELETED and (rest.endswith(".lock") or rest.startswith(("objects/", "gc."))):
        return  # what was unfinished, and what git's own cleaning takes
    assert path in held(file(path, kind, git_text="x\n", **facts)), rest
    assert path not in held(file(".git/COMMIT_EDITMSG", kind, git_text="x\n"))


def test_a_bare_repository_is_one_by_any_name() -> None:
    for folders in ((), ("store",)):
        found = held(file("store/hooks/x", git_folders=folders), file("store/info/attributes",
                     git_folders=folders))  # fmt: skip
        assert bool(found) == bool(folders)
    assert held(file("HEAD", git_folders=(".",), git_text="ref: refs/heads/a\n")) == {}
    assert held(file("hooks/x", git_folders=(".",))) == {"hooks/x": "git-folder"}


CONTENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # path: what lands, what does not
    "HEAD": ({"git_text": "ref: refs/heads/a/b\n"}, {"git_text": "ref: refs/remotes/o/x\n"}),
    "HEAD ": ({}, {"git_text": "ref: refs/heads/a\n"}),
    "worktrees/a/HEAD": ({"git_text": OID}, {"git_text": "ref: HEAD\n"}),
    "refs/heads/a": ({"git_text": OID}, {"git_text": "ref: refs/heads/b\n"}),
    "refs/remotes/o/HEAD": ({"git_text": "ref: refs/remotes/o/m\n"},
                            {"git_text": "ref: refs/heads/m\n"}),
    "refs/heads/refs/heads/main": ({}, {"git_text": OID}),
    "refs/heads/-d": ({}, {"git_text": OID}),
    "refs/heads/HEAD": ({}, {"git_text": OID}),
    "refs/tags/a..b": ({}, {"git_text": OID}),
    "refs/tags/" + "a" * 40: ({}, {"git_text": OID}),
    "refs/tags/v1": ({"git_text": OID}, {"git_text": OID, "git_shadows": "refs/heads/v1"}),
    "logs/refs/heads/a": ({"git_checked": "reflog"}, {"git_odd": "a line"}),
    "logs/HEAD": ({"git_checked": "reflog"}, {"git_checked": "index"}),
    "index": ({"git_checked": "index"}, {}),
    "packed-refs": ({"git_checked": "packed-refs", "git_refs": ("refs/tags/x",)},
                    {"git_checked": "packed-refs", "git_refs": ("refs/replace/" + "1" * 40,)}),
    "ORIG_HEAD": ({"git_text": OID}, {"git_text": "ref: refs/heads/x\n"}),
    "FETCH_HEAD": ({"git_checked": "fetch"}, {"git_text": OID}),
    "MERGE_MODE": ({"git_text": "no-ff"}, {"git_text": "x"}),
    "info/sparse-checkout": ({"git_text": "/*\n"}, {"mode": 0o755}),
    "COMMIT_EDITMSG": ({}, {"mode": 0o646}),
}  # fmt: skip


@pytest.mark.parametrize("rest", CONTENT)
def test_what_lands_is_what_git_writes(rest: str) -> None:
    path = f".git/{rest}"
    sound, other = CONTENT[rest]
    assert path in held(file(path, **other))
    if sound or rest == "COMMIT_EDITMSG":
        assert held(file(path, **sound)) == {}


def test_a_merge_that_stops_is_noted_whole() -> None:
    merge = file(".git/MERGE_HEAD", git_text=OID + OID)
    assert held(merge) == {".git/MERGE_HEAD": "git-folder"}
    beside = (file(".git/MERGE_MSG"), file(".git/MERGE_MODE", git_text=""))
    assert held(merge, *beside) == {}
    assert held(file(".git/CHERRY_PICK_HEAD", git_text=OID)) != {}
    assert held(file(".git/CHERRY_PICK_HEAD", git_text=OID), beside[0]) == {}


def work_tree(**facts: Any) -> list[Change]:
    folders = [Change(one, Kind.CREATED, FileType.DIRECTORY, mode=0o755)
               for one in ("wt", ".git/worktrees", ".git/worktrees/wt")]  # fmt: skip
    files = {
        "wt/.git": "gitdir: /w/.git/worktrees/wt\n",
        ".git/worktrees/wt/gitdir": "/w/wt/.git\n",
        ".git/worktrees/wt/commondir": "../..\n",
        ".git/worktrees/wt/HEAD": "ref: refs/heads/wt\n",
        **facts,
    }
    return [*folders, *(file(path, git_text=text) for path, text in files.items() if text)]


def test_a_new_work_tree_is_one_of_this_repository() -> None:
    assert held(*work_tree()) == {}
    assert held(*work_tree()[1:])["wt/.git"] == "git-pointers"  # the folder held something before
    for path, text in {
        "wt/.git": "gitdir: /w/store\n",
        ".git/worktrees/wt/gitdir": "/w/other/.git\n",
        ".git/worktrees/wt/commondir": "../../../store\n",
    }.items():
        assert held(*work_tree(**{path: text})) != {}, path
    assert held(*work_tree(**{".git/worktrees/wt/commondir": ""})) != {}
    assert held(file("sub/.git", git_text="gitdir: ../store\n")) == {"sub/.git": "git-pointers"}


@pytest.mark.parametrize("folder", ["rebase-merge", "rebase-apply", "sequencer", "hooks", "x"])
def test_an_empty_folder_says_that_a_rebase_is_under_way(folder: str) -> None:
    for kind in (Kind.CREATED, Kind.DELETED):
        change = Change(f".git/{folder}", kind, FileType.DIRECTORY, mode=0o755)
        assert held(change) == {f".git/{folder}": "git-folder"}
    allowed = Change(".git/refs/heads/a", Kind.CREATED, FileType.DIRECTORY, mode=0o755)
    assert held(allowed) == {}


def test_a_repository_that_comes_holds_what_git_init_writes() -> None:
    new: dict[str, Any] = {"git_folders": ("n/.git",), "git_new": "new"}
    sound = [file("n/.git/HEAD", git_text="ref: refs/heads/main\n", **new),
             file("n/.git/hooks/pre-push.sample", mode=0o755, **new),
             file("n/.git/info/exclude", git_text="# a\n# b\n", **new),
             file("n/.git/config", after_text="[core]\n\tbare = false\n", **new)]  # fmt: skip
    assert held(*sound) == {}
    assert held(file("n/.git/info/exclude", git_text="*\n", **new)) != {}
    assert held(file("n/.git/hooks/pre-push", **new)) != {}
    assert held(file("n/.git/config", after_text="[core]\n\tpager = x\n", **new)) != {}
    assert held(file("n/HEAD", git_folders=("n",), git_new="around", git_text=OID)) != {}


PLACES = {
    "x/.git/a/b": ((), Place("x/.git", "x/.git", "a/b")),
    "src/a": ((), None),
    ".git/worktrees/a/HEAD": ((), Place(".git", ".git/worktrees/a", "HEAD", in_work_tree=True)),
    ".git/modules/a/HEAD": ((), Place(".git", ".git/modules/a", "HEAD")),
    ".git/modules/l/a/HEAD": (
        (".git", ".git/modules/l/a"),
        Place(".git", ".git/modules/l/a", "HEAD"),
    ),
    "s/worktrees/a/HEAD": (
        ("s", "s/worktrees/a"),
        Place("s", "s/worktrees/a", "HEAD", in_work_tree=True),
    ),
    ".git/refs/heads/x/hooks": (
        (".git", ".git/refs/heads/x"),
        Place(".git", ".git", "refs/heads/x/hooks", odd=True),
    ),
    "a": ((".",), Place(".", ".", "a")),
    "GIT~1/x": ((), Place("GIT~1", "GIT~1", "x")),
}


@pytest.mark.parametrize("path", PLACES)
def test_where_a_path_lies(path: str) -> None:
    folders, place = PLACES[path]
    assert place_of(path, folders) == place


# With git and a real layer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of a person's, a bare one in it, and a rebase that waits."""
    if reason := missing():
        cannot_run(reason)
    root = tmp_path_factory.mktemp("base")
    root.chmod(0o755)  # as a layer's is
    run(
        root,
        """
        git init -q -b main; echo 1 >a; git add a; git commit -qm 1; echo 2 >b; git add b
        git commit -qm 2; git clone -q --no-hardlinks --bare . store; git tag v1
        git init -q --separate-git-dir elsewhere sub
        git worktree add -q wt -b side; git pack-refs --all
        echo 'gitdir: ../elsewhere' >sub/.git; echo 'gitdir: ../.git/worktrees/wt' >wt/.git
        """,
    )
    return root


def run(folder: Path, script: str) -> None:
    """Run a script as an agent without settings."""
    names = {f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **names}
    env["GIT_CONFIG_COUNT"], env["GIT_CONFIG_KEY_0"] = "1", "safe.directory"
    env["GIT_CONFIG_VALUE_0"] = "*"
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@contextmanager
def over(lower: Path) -> Iterator[Overlay]:
    """Open a transaction over a folder."""
    overlay = Overlay(".lockgate")
    overlay.lower = lower
    with overlay:
        yield overlay


def outcome(lower: Path, script: str) -> Judgement:
    """Return what gate 2 says of what a script leaves."""
    with over(lower) as overlay:
        run(overlay.merged, script)
        walked = overlay.walk()
        note_folders(walked.changes, str(overlay.lower), str(overlay.upper))
        known = Change.__dataclass_fields__
        changes = [
            Change(**{**{k: v for k, v in raw.items() if k in known},
                      "kind": Kind(raw["kind"]), "type": FileType(raw["type"])})
            for raw in walked.changes
        ]  # fmt: skip
        return judge(DECISION, changes, POLICY, workspace=str(overlay.merged))


BY_HAND = {
    "a plan with a command": "mkdir .git/rebase-merge;"
    " echo 'exec touch PWNED' >.git/rebase-merge/git-rebase-todo",
    "a rebase left half-way": "GIT_SEQUENCE_EDITOR='printf break >' git rebase -qi HEAD~1",
    "a file of a bare repository": "echo x >store/info/attributes",
    "settings of a bare repository": "git -C store config core.pager x",
    "a file of a separate repository": "echo x >elsewhere/hooks/post-checkout",
    "settings of a separate one": "git -C sub config user.name x",
    "a merge by hand": "git rev-parse HEAD >.git/MERGE_HEAD",
    "a tag that shadows a branch": "git update-ref refs/tags/main HEAD",
    "a branch that shadows a tag": "git update-ref refs/heads/v1 HEAD",
    "a branch of another case": "git branch MAIN",
    "a packed tag that shadows": "git update-ref refs/tags/side HEAD; git pack-refs --all",
    "a reference beside HEAD": "git rev-parse HEAD >.git/main",
    "a replacement in the list": "git update-ref refs/replace/$(git rev-parse HEAD) HEAD~1;"
    " git pack-refs --all",
    "a list out of order": "sed -i 's,refs/tags/v1,refs/tags/aa,;1!G;h' .git/packed-refs",
    "an entry that hides": "git update-index --skip-worktree a; echo evil >a",
    "an entry that is assumed": "git update-index --assume-unchanged a; echo evil >a",
    "an entry that hides in a work tree": "cd wt; git update-index --skip-worktree a",
    "a remembered tree that is not its own": "evil=$(git rev-parse HEAD^{tree});"
    " echo 9 >z; git add z; good=$(git write-tree); python3 - $evil $good <<'EOF'\n"
    "import hashlib, sys\n"
    "evil, good = map(bytes.fromhex, sys.argv[1:])\n"
    "text = open('.git/index', 'rb').read()[:-20]\n"
    "assert text.count(good) == 1\n"
    "text = text.replace(good, evil)\n"
    "open('.git/index', 'wb').write(text + hashlib.sha1(text).digest())\n"
    "EOF",
    "a name that git never takes": "git -c core.protectNTFS=false update-index --add"
    " --cacheinfo 100644,$(git hash-object -w a),git~1/x",
    "no index": "rm .git/index",
    "another index": "echo x >.git/index",
    "a reflog that cannot be read": "echo garbage >>.git/logs/HEAD",
    "a repository around files": "mkdir -p n/hooks; cp -r store/. n; rm -r sub; echo x >n/config",
    "a mode": "chmod 777 .git/refs/heads",
    "an object that can be run": "chmod -R a+x .git/objects",
}


@pytest.mark.parametrize("script", BY_HAND.values(), ids=BY_HAND)
def test_what_no_everyday_command_leaves_is_held(base: Path, script: str) -> None:
    assert outcome(base, script).outcome.value == "hold"


def test_a_folder_that_becomes_a_repository_is_held(base: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(base, root, symlinks=True)
    (root / "n" / "hooks").mkdir(parents=True)
    (root / "n" / "objects").mkdir()
    (root / "n" / "refs").mkdir()
    (root / "n" / "hooks" / "x").write_text("x")
    assert outcome(root, "cp store/HEAD n/HEAD").outcome.value == "hold"
    assert outcome(root, "cp store/HEAD m; cp m n/tail").outcome.value == "land"


EVERYDAY = {
    "a commit": "echo 3 >a; git commit -qam 3; git commit -q --amend -m 4; git tag -a v2 -m v2",
    "a whole rebase": "git checkout -qb t HEAD~1; echo 4 >c; git add c; git commit -qm c;"
    " git rebase -q main; git reset -q --hard HEAD~1; git checkout -q main; git branch -D t",
    "a merge that stops": "git checkout -qb t HEAD~1; echo 4 >b; git add b; git commit -qm b;"
    " ! git merge -q main",
    "a pick that stops": "git checkout -qb t HEAD~1; echo 4 >b; git add b; git commit -qm b;"
    " ! git cherry-pick main",
    "remembered trees": "mkdir -p d/e/f d-e; echo 1 >d/e/f/g; echo 2 >d/x; echo 3 >d-e/x;"
    " touch d.x; git add d d-e d.x; git write-tree; git commit -qm d; echo 4 >d/y; git add -N d/y",
    "a stash": "echo 3 >a; git stash -q; echo 4 >a; git stash -q; git stash pop -q",
    "a work tree": "git worktree add -q more; echo 1 >more/x; git -C more add x;"
    " git -C more commit -qm x",
    "in a work tree": "cd wt; echo 3 >a; git commit -qam 3; git checkout -q --detach",
    "in a bare repository": "git push -q ./store HEAD:refs/heads/more",
    "a sparse checkout": "mkdir d e; echo 1 >d/x; echo 1 >e/x; git add d e; git commit -qm d;"
    " git sparse-checkout set d; git sparse-checkout add e; git checkout -q -b thin",
    "packs": "git -c gc.writeCommitGraph=false gc -q; git repack -adq; git pack-refs --all",
    "a branch of another repository": "git fetch -q ./store main:refs/remotes/store/main",
    "a clone": "git clone -q --no-hardlinks store c; cd c; git config user.name c;"
    " git checkout -qb x; echo 1 >x; git add x; git commit -qm x",
    "notes": "git notes add -m note; git switch -q -c other; git switch -q -",
}


THINNED = "printf '/*\\n' >.git/info/sparse-checkout; rm a; git update-index --skip-worktree a"
NOT_THINNED = {
    "without a setting": THINNED,
    "with one that is off": f"git config core.sparseCheckout false; {THINNED}",
    "with one that is not read": "echo '[core] sparseCheckout = true' >.git/config.worktree;"
    f" {THINNED}",
    "with words in a comment": f"echo '# [core] sparseCheckout = true' >>.git/config; {THINNED}",
}


@pytest.mark.parametrize("script", NOT_THINNED.values(), ids=NOT_THINNED)
def test_a_list_for_a_sparse_checkout_alone_hides_nothing(base: Path, script: str) -> None:
    said = outcome(base, script)
    assert any("skip-worktree" in one.reason for one in said.reasons)


@pytest.mark.parametrize("script", EVERYDAY.values(), ids=EVERYDAY)
def test_what_everyday_commands_leave_lands(base: Path, script: str) -> None:
    said = outcome(base, script)
    assert (said.outcome.value, said.reasons) == ("land", ())


def test_the_keeper_and_the_policy_know_the_same_checks() -> None:
    for holds in (Holds.REFLOG, Holds.INDEX, Holds.PACKED, Holds.FETCHED, Holds.SERVED):
        samples = {"logs/HEAD": "reflog", "index": "index", "packed-refs": "packed-refs",
                   "FETCH_HEAD": "fetch", "info/refs": "served"}  # fmt: skip
        rest = next(one for one, check in samples.items() if check == holds.value)
        assert holds_of(Place(".git", ".git", rest)) is holds
