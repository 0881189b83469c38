# SPDX-License-Identifier: Apache-2.0
"""Everyday sessions: what people and agents do with git and package managers all day.

Each is a list of calls in a repository of its own. They land, or the rule that holds the last of
them is named, with the reason why that is right.
"""

from __future__ import annotations

from typing import NamedTuple


class Session(NamedTuple):
    """Calls, one after the other."""

    calls: tuple[str, ...]
    rule: str = ""
    """By which the last call is held; empty where all land."""
    prepare: str = ""
    """What a person did before."""


REPOSITORY = """
git init -q -b main; printf 'one\\ntwo\\nthree\\n' > a; mkdir -p src/deep; echo two > src/deep/b
echo 'out/' > .gitignore; git add -A; git commit -qm one; echo more >> a; git commit -qam two
git tag v1; git checkout -qb topic; echo t > t; git add t; git commit -qm topic
git checkout -q main; git checkout -qb clash; sed -i s/one/ONE/ a; git commit -qam clash
git checkout -q main
git checkout -qb merged; echo m > m; git add m; git commit -qm merged; git checkout -q main
git merge -q --no-ff -m merge merged
"""
"""Branches `main`, `topic`, `clash` and `merged`, the last of them merged; a tag."""

CLASH = "sed -i s/one/uno/ a; git commit -qam uno; ! git {} clash"
RESOLVE = "sed -i '/^[<=>]/d' a; git add a"
OBEYED = (
    "mkdir -p .github/workflows .vscode; echo 'on: push' > .github/workflows/ci.yml;"
    " echo '{}' > .vscode/tasks.json; git add -A; git commit -qm obeyed"
)
REMOTES = (
    "git remote add origin https://h.invalid/o.git;"
    " for b in main topic; do git update-ref refs/remotes/origin/$b $b; done"
)
"""Files that the host obeys; a remote whose branches were fetched."""
LOCAL = "-c protocol.file.allow=always"


def lands(*calls: str, prepare: str = "") -> Session:
    """Return a session that lands."""
    return Session(calls, "", prepare)


def held(rule: str, *calls: str, prepare: str = "") -> Session:
    """Return a session whose last call waits for a person."""
    return Session(calls, rule, prepare)


SESSIONS = {
    # commit
    "status and log": lands("git status -s; git log --oneline; git diff HEAD~1"),
    "a commit of all": lands("echo x >> a; git commit -qam x"),
    "a commit of one file": lands("echo x >> a; echo y >> src/deep/b; git commit -qm x a"),
    "a commit in two calls": lands("echo x >> a; git add a", "git commit -qm x"),
    "a commit of new files": lands("mkdir n; echo x > n/x; git add n; git commit -qm n"),
    "an amended commit": lands("echo x >> a; git commit -qam x", "git commit -q --amend -m y"),
    "an amended commit of another time": lands(
        "git commit -q --amend -m y --date 2001-01-01T00:00:00", "git commit -q --amend -m z"
    ),
    "an empty commit": lands("git commit -q --allow-empty -m empty"),
    "a commit for a later squash": lands("echo x >> a; git commit -qa --fixup HEAD"),
    "a commit that is signed off": lands("echo x >> a; git commit -qasm x"),
    "many commits": lands("for n in 1 2 3 4 5 6 7 8; do echo $n >> a; git commit -qam $n; done"),
    "staged, then changed": lands("echo x >> a; git add a", "echo y >> a; git add a"),
    "staged, then taken back": lands("echo x > n; git add n", "git reset -q n"),
    "a file renamed": lands("git mv a z; git commit -qm z"),
    "a file removed": lands("git rm -q a; git commit -qm rm"),
    "a file no longer tracked": lands("git rm -q --cached a; git commit -qm rm"),
    "a file restored": lands("echo x >> a; git restore a"),
    "files cleaned": lands("echo x > u; git clean -qfd"),
    # branch
    "a branch made": lands("git branch new"),
    "a branch made and used": lands("git checkout -q -b new; echo x >> a; git commit -qam x"),
    "another branch": lands("git checkout -q topic", "git checkout -q main"),
    "another branch, by switch": lands("git switch -q topic", "git switch -q -"),
    "an old commit": lands("git checkout -q HEAD~1", "git checkout -q main"),
    "a commit without a branch": lands(
        "git checkout -q --detach; echo x >> a; git commit -qam x", "git branch kept"
    ),
    "a merged branch deleted": lands("git branch -q -d merged"),
    "a branch renamed": lands("git branch -m topic renamed"),
    "the own branch renamed": lands("git branch -m trunk", "echo x >> a; git commit -qam x"),
    "a branch moved": lands("git branch -f topic main", prepare="git branch keep topic"),
    "a branch in a folder": lands("git branch feature/one; git branch feature/two"),
    "an upstream": lands(
        "git branch -q --track new main; git config --get branch.new.merge || true"
    ),
    # merge
    "a merge": lands("git merge -q -m merge topic"),
    "a merge without a commit of its own": lands("git checkout -q topic; git merge -q topic main"),
    "a merge of everything in one": lands("git merge -q --squash topic; git commit -qm squashed"),
    "a merge with a conflict": lands(f"{CLASH.format('merge -q')}; {RESOLVE}; git commit -qm both"),
    "a merge with a conflict, in two calls": lands(
        CLASH.format("merge -q"), f"{RESOLVE}; git commit -qm both"
    ),
    "a merge given up": lands(CLASH.format("merge -q"), "git merge --abort"),
    "a merge of two branches": lands("git merge -q -m octopus topic merged"),
    # rebase and pick
    "a rebase": lands("git checkout -q topic; git rebase -q main"),
    "a rebase with changes put aside": lands(
        "git checkout -q topic; echo x >> src/deep/b; git rebase -q --autostash main"
    ),
    "commits squashed": lands(
        "echo x >> a; git commit -qam x; git commit -qa --allow-empty --fixup HEAD",
        "GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash HEAD~2",
    ),
    "a rebase with a conflict": lands(
        f"{CLASH.format('rebase -q')}; {RESOLVE}; GIT_EDITOR=true git rebase --continue"
    ),
    "a rebase onto another": lands("git rebase -q --onto topic HEAD~1"),
    "a pick": lands("git cherry-pick topic"),
    "several picks": lands(
        "echo x >> src/deep/b; git commit -qam x", "git checkout -q v1; git cherry-pick topic main"
    ),
    "a pick with a conflict": lands(
        f"{CLASH.format('cherry-pick')}; {RESOLVE}; git -c core.editor=true cherry-pick --continue"
    ),
    "a pick with a conflict, in two calls": lands(
        CLASH.format("cherry-pick"), f"{RESOLVE}; git commit -qm picked"
    ),
    "a pick given up": lands(CLASH.format("cherry-pick"), "git cherry-pick --abort"),
    "a revert": lands("echo x >> a; git commit -qam x", "git revert --no-edit HEAD"),
    "patches": lands(
        "git format-patch -q -1 topic -o out; git checkout -q -b new; git am -q out/*.patch"
    ),
    "a patch applied": lands("git diff main topic | git apply --index; git commit -qm t"),
    # reset
    "a soft reset": lands("git reset -q --soft HEAD~1; git commit -qm again"),
    "a mixed reset": lands("git reset -q HEAD~1"),
    "a hard reset": lands("git reset -q --hard HEAD~1", "git reset -q --hard ORIG_HEAD"),
    # stash
    "a stash and back": lands("echo x >> a; git stash -q", "git stash pop -q"),
    "a stash of new files and back": lands(
        "echo x > u; git stash -q -u", "git stash pop -q; git add u; git commit -qm u"
    ),
    "a stash with a merge": lands(
        "echo x >> src/deep/b; git stash -q", "sed -i 1iup a; git commit -qam up; git stash pop -q"
    ),
    "two stashes": lands(
        "echo x >> a; git stash -q; echo y >> a; git stash -q", "git stash pop -q; git stash list"
    ),
    "a stash made a branch": lands("echo x >> a; git stash -q", "git stash branch new"),
    # tags and others
    "tags": lands("git tag v2; git tag -a v3 -m v3; git tag -f v2 HEAD~1", "git tag -d v2"),
    "notes": lands("git notes add -m note", "git notes append -m more"),
    "a bisection": lands(
        "git bisect start HEAD v1~1; git bisect run sh -c '! grep -q more a'; git bisect reset"
    ),
    "a work tree": lands(
        "git worktree add -q out/wt topic", "cd out/wt; echo x >> a; git commit -qam x"
    ),
    "a work tree and back": lands(
        "git worktree add -q out/wt topic", "git worktree remove --force out/wt"
    ),
    "a work tree beside what is obeyed": lands(
        "git worktree add -q wt -b side", "git -C wt status -s", prepare=OBEYED
    ),
    "a clone beside what is obeyed": lands("git clone -q --no-hardlinks . clone", prepare=OBEYED),
    "what is obeyed, changed in a work tree": held(
        "ci-workflows",
        "git worktree add -q wt -b side; echo x >> wt/.github/workflows/ci.yml",
        prepare=OBEYED,
    ),
    "a branch of a remote": lands("git checkout -q -b new origin/main", prepare=REMOTES),
    "an upstream of its own name": lands("git branch -q -u origin/topic topic", prepare=REMOTES),
    "a further remote": lands("git remote add up https://h.invalid/up.git", prepare=REMOTES),
    "a branch of a remote that a call added": held(
        "git-settings",
        "git remote add up https://h.invalid/up.git",
        "git config branch.topic.remote up; git config branch.topic.merge refs/heads/topic",
        prepare=REMOTES,
    ),
    "a new branch of such a one": held(
        "git-settings",
        "git remote add up out/up.git; git init -q --bare out/up.git; git push -q up main",
        "git checkout -q -b new up/main",
        prepare=REMOTES,
    ),
    "a fetch in the workspace": lands(
        "git remote add up out/up.git; git init -q --bare out/up.git; git push -q up main;"
        " git fetch -q up",
        prepare=REMOTES,
    ),
    "what nobody fetched": held(
        "git-folder", "git update-ref refs/remotes/origin/main topic", prepare=REMOTES
    ),
    "a soft reset by itself": lands("git reset -q --soft HEAD~1"),
    "times looked at anew": lands("touch a; git update-index -q --refresh"),
    "references packed": lands("git pack-refs --all --prune", "echo x >> a; git commit -qam x"),
    "a collection": lands("git gc -q", "echo x >> a; git commit -qam x", "git gc -q"),
    "a collection by itself": lands("git -c gc.auto=1 gc -q --auto"),
    "objects repacked": lands("git repack -adq; git prune-packed"),
    "a clone": lands(
        "git clone -q --no-hardlinks . out/clone; cd out/clone; echo x >> a; git commit -qam x"
    ),
    "a bare clone and a push": lands(
        "git clone -q --no-hardlinks --bare . out/bare",
        "echo x >> a; git commit -qam x; git push -q out/bare main",
    ),
    "a new repository": lands(
        "mkdir out; cd out; git init -q; echo x > x; git add x; git commit -qm x"
    ),
    "a sparse checkout": lands("git sparse-checkout set src", "git sparse-checkout disable"),
    "a submodule's commit": lands(
        "cd sub; echo x >> a; git checkout -q -b new; git commit -qam x",
        "git add sub; git commit -qm bump",
        prepare=f"git {LOCAL} submodule --quiet add ./ sub; git commit -qm sub",
    ),
    # package managers and build tools
    "a virtual environment": lands("python3 -m venv --without-pip out/venv", "rm -rf out/venv"),
    "npm's folders": lands(
        "mkdir -p node_modules/.bin node_modules/x; echo '//' > node_modules/x/index.js;"
        " echo '{}' > package-lock.json; ln -s ../x/index.js node_modules/.bin/x",
        "rm -rf node_modules; mkdir -p node_modules/y; echo '{}' > node_modules/y/package.json",
    ),
    "pip into a folder": lands(
        "mkdir -p out/lib; printf 'from setuptools import setup\\n' > setup.py;"
        " python3 -m compileall -q . >/dev/null; find . -name __pycache__ | head -3"
    ),
    "cargo's repositories": lands(
        "git clone -q --no-hardlinks --bare . out/cargo/git/db/x-1;"
        " git clone -q --no-hardlinks out/cargo/git/db/x-1 out/co"
    ),
    "vendored code updated": lands(
        "mkdir vendor; git archive main | tar -x -C vendor; git add vendor; git commit -qm vendor",
        "git rm -rq vendor; git commit -qm none",
    ),
    "build results": lands(
        "mkdir -p out; for n in $(seq 30); do echo $n > out/$n.o; done", "rm -r out"
    ),
    # what waits for a person, and why
    "a submodule added": held(
        "git-settings",
        f'git {LOCAL} submodule --quiet add "file://$PWD" sub; git commit -qm sub',
    ),  # it says from where it comes, and where its repository lies
    "a submodule fetched": held(
        "git-settings",
        f"git {LOCAL} submodule --quiet update --init",
        prepare=f"git {LOCAL} submodule --quiet add ./ sub; git commit -qm sub;"
        " git submodule --quiet deinit -f sub",
    ),
    "a rebase that stops": held(
        "git-folder", CLASH.format("rebase -q")
    ),  # whoever goes on with it obeys its plan
    "a branch that is not merged, deleted": held(
        "git-history", "git branch -D topic"
    ),  # its commit is reached by no other reference
    "a stash dropped": held(
        "git-history", "echo x >> a; git stash -q", "git stash drop -q"
    ),  # nobody can say whose it was
    "reflogs expired": held("git-history", "git reflog expire --expire=now --all"),
    "a tag of a lost commit deleted": held(
        "git-history", "git tag -d only", prepare="git tag only topic; git branch -q -D topic"
    ),
    "everything unstaged": held(
        "git-history", "git read-tree --empty"
    ),  # git itself never leaves such an index
    "a branch without history": held(
        "git-history", "git checkout -q --orphan new"
    ),  # HEAD leads nowhere until the next commit
}
