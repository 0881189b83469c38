# SPDX-License-Identifier: Apache-2.0
"""Whatever a call does to the files of a repository: git still has what it had, or it is held.

Real git is the judge: where gate 2 lets a change land, everything that references, reflogs and
indexes reached before can be read afterwards and is reached, and `fsck` finds no more than before.
And whatever is new or other than before stands where git's everyday verbs write.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.model import Outcome
from tests.gitchanges import ENV, copy, judged, make_repository, remove, sh

PREPARE = """
git init -q -b main; echo one > a; git add a; git commit -qm one; echo more >> a
git commit -qam two; git tag -a v1 -m v1; git checkout -qb topic; echo t > t; git add t
git commit -qm topic; git checkout -q main; git branch merged HEAD~1; git pack-refs --all
git repack -adq; git branch late topic; echo x >> a; git commit -q --amend -am three
echo stashed >> a; git stash -q; echo s > s; git add s
"""
EVERYDAY = (
    "echo x >> a; git commit -qam x",
    "git commit -q --amend -m other",
    "git reset -q --soft HEAD~1",
    "git checkout -qb new",
    "git branch -q -d merged",
    "git pack-refs --all --prune",
    "git repack -adq; git prune-packed",
    "git stash pop -q",
    "git tag v2",
    "git commit -qm s; git merge -q -X ours -m m topic",
)

STRANGE = {
    "hooks/post-commit": "#!/bin/sh\ntouch /tmp/x\n",
    "info/attributes": "* filter=x\n",
    "config.worktree": "[core]\n\tfsmonitor = x\n",
    "rebase-merge/git-rebase-todo": "exec x\n",
    "remotes/origin": "URL: https://h.invalid/x\n",
    "branches/main": "https://h.invalid/x\n",
    "objects/info/alternates": "/tmp/x\n",
    "modules/m/config": "[core]\n\tpager = x\n",
    "shallow": "1" * 40 + "\n",
    "commondir": "../x\n",
    "MERGE_RR": "x\n",
    "refs/../x": "x\n",
}
"""Files that no everyday verb leaves, with what git would obey in them."""
EVERYDAY_PLACES = re.compile(
    r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(?:pack|idx|rev)|info/packs"
    r"|info/commit-graph)|refs/(?:heads|tags|remotes)/.+|refs/stash|logs/(?:HEAD|refs/.+)|HEAD"
    r"|index|packed-refs|[A-Z]+_HEAD|AUTO_MERGE|(?:COMMIT_EDIT|MERGE_|TAG_EDIT)MSG|MERGE_MODE|info/refs"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with branches, a tag, a pack, a stash, and something staged."""
    return make_repository(tmp_path_factory, PREPARE)


def _git(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=ENV, capture_output=True, text=True, errors="replace"
    )
    return done.returncode, done.stdout


def _reached(folder: Path) -> set[str]:
    """Return all objects that git reaches; an error where it finds anything missing."""
    code, text = _git(
        folder, "rev-list", "--objects", "--no-object-names", "--all", "--reflog", "HEAD",
        "--indexed-objects",
    )  # fmt: skip
    return set(text.split()) if code == 0 else {"broken"}


def _tips(folder: Path) -> set[str]:
    """Return what references name."""
    text = _git(folder, "for-each-ref", "--format=%(objectname)")[1]
    return set(text.split()) | set(_git(folder, "rev-parse", "HEAD")[1].split())


class Hand:
    """Does things to the files below `.git`, by chance."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._git = folder / ".git"
        self._chance = chance

    def act(self) -> None:
        """Do one thing."""
        ways: list[Callable[[], None]] = [
            self._delete, self._delete, self._cut, self._copy, self._move, self._lines, self._mode,
            self._name, self._folder, self._swap, self._strange,
        ]  # fmt: skip
        self._chance.choice(ways)()

    def _files(self) -> list[Path]:
        found = [Path(base, one) for base, _, files in os.walk(self._git) for one in files]
        return sorted(one for one in found if one.is_file() and not one.is_symlink())

    def _one(self) -> Path:
        """Return a file; those that are not objects are taken as often as those that are."""
        files = self._files()
        others = [one for one in files if "objects" not in one.parts]
        return self._chance.choice(self._chance.choice([files, others]) or files or [self._git])

    def _delete(self) -> None:
        self._one().unlink(missing_ok=True)

    def _cut(self) -> None:
        path = self._one()
        text = path.read_bytes()
        self._write(path, text[: self._chance.randrange(len(text) + 1)])

    def _copy(self) -> None:
        self._write(self._one(), self._one().read_bytes())

    def _swap(self) -> None:
        one, two = self._one(), self._one()
        first, second = one.read_bytes(), two.read_bytes()
        self._write(one, second)
        self._write(two, first)

    def _move(self) -> None:
        path = self._one()
        path.rename(path.with_name(self._chance.choice(["x", "main", path.name + "x"])))

    def _lines(self) -> None:
        path = self._one()
        lines = path.read_bytes().split(b"\n")
        del lines[self._chance.randrange(len(lines))]
        self._write(path, b"\n".join(lines))

    def _mode(self) -> None:
        self._one().chmod(self._chance.choice([0o000, 0o600, 0o644]))

    def _name(self) -> None:
        """Write a reference."""
        names = ["heads/main", "heads/topic", "heads/new", "tags/main", "stash", "heads/late/x"]
        path = self._git / "refs" / self._chance.choice(names)
        if path.is_dir() or not path.parent.exists():
            return
        packed = _git(self._git.parent, "rev-parse", "HEAD", "topic", "HEAD:a", "v1", "HEAD~1")[1]
        self._write(path, self._chance.choice([*packed.split(), "1" * 40]).encode() + b"\n")

    def _strange(self) -> None:
        name = self._chance.choice(sorted(STRANGE))
        path = self._git / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write(path, STRANGE[name].encode())

    def _folder(self) -> None:
        folders = [one for one in sorted(self._git.rglob("*")) if one.is_dir()]
        path = self._chance.choice(folders)
        if self._chance.random() < 0.5:
            path.rename(path.with_name(path.name + "x"))
        else:
            shutil.rmtree(path)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        if path.is_file():
            path.chmod(0o644)
        path.write_bytes(content)


@settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32),
    verbs=st.lists(st.sampled_from(EVERYDAY), max_size=1),
    acts=st.integers(0, 3),
)
def test_what_lands_has_lost_nothing(
    repository: Path, tmp_path: Path, seed: int, verbs: list[str], acts: int
) -> None:
    after = copy(repository, tmp_path / "after")
    for verb in verbs:
        sh(after, verb)
    hand = Hand(after, random.Random(seed))
    for _ in range(acts):
        try:
            hand.act()
        except (OSError, IndexError):  # an earlier one left nothing to act on
            break
    found = judged(repository, after, named=("a", "s", "t"))
    try:
        if found.outcome is Outcome.HOLD:
            # git's everyday verbs land, all but what they take out of the work tree
            assert acts, found.message
            return
        _assert_whole(repository, after)
        _assert_everyday(repository, after)
    finally:
        remove(after)


def _assert_whole(before: Path, after: Path) -> None:
    reached = _reached(after)
    assert "broken" not in reached
    code, said = _git(after, "fsck", "--strict", "--full", "--no-dangling")
    assert (code, said) == (0, "")
    wanted = _tips(before) | set(_git(before, "rev-list", "--all", "--reflog")[1].split())
    stash = set(_git(before, "rev-list", "--parents", "-1", "stash")[1].split())
    assert wanted - reached <= stash  # a stash may have been applied
    there = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objectname) %(objecttype)"],
        cwd=after, env=ENV, input="\n".join(sorted(_reached(before))), text=True,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert "missing" not in there
    assert not _git(after, "symbolic-ref", "HEAD")[1].endswith("none")


def _assert_everyday(before: Path, after: Path) -> None:
    there = {
        path.relative_to(after / ".git").as_posix(): path
        for path in (after / ".git").rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    for name, path in there.items():
        old = before / ".git" / name
        same = (
            old.is_file()
            and not path.is_symlink()
            and old.read_bytes() == path.read_bytes()
            and not path.stat().st_mode & ~old.stat().st_mode & 0o7133
        )
        assert same or (EVERYDAY_PLACES.fullmatch(name) and not path.is_symlink()), name
