# SPDX-License-Identifier: Apache-2.0
"""A call's own ignore rules, and what it takes from an index, excuse no deletion."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import MOST_FILES, MOST_VERSIONS, Ledger
from sandbox.workspaces.ignore_sources import Touched, is_index, is_rules


class World:
    """A repository with a person's rules, a ledger, and hands for the person and an agent."""

    def __init__(self, root: Path) -> None:
        self.ws = root / "work"
        self.ws.mkdir()
        self.ledger = Ledger(root / "state")
        self.git("init", "-q", "-b", "main")
        self.write(".gitignore", "*.log\n/build/\n")
        for name in ("src/a.py", "notes.txt", "forced.log"):
            self.write(name, "x\n")
        self.git("add", "-A")
        self.git("add", "-f", "forced.log")
        self.commit()
        for name in ("out.log", "build/x.o", "mine.md"):
            self.write(name, "x\n")

    def git(self, *words: str, at: str = "") -> World:
        names = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
        command = ["git", "-C", str(self.ws / at), *names, *words]
        subprocess.run(command, check=True, capture_output=True)
        return self

    def commit(self, at: str = "") -> World:
        return self.git("commit", "-q", "-m", "x", at=at)

    def write(self, name: str, text: str) -> World:
        """A person writes a file."""
        (self.ws / name).parent.mkdir(parents=True, exist_ok=True)
        (self.ws / name).write_text(text)
        return self

    def remove(self, name: str) -> World:
        """A person removes a file."""
        (self.ws / name).unlink()
        return self

    def agent(self, name: str, text: str | None, *, person: bool = False) -> World:
        """A call lands a file (None: its removal); with `person`, a person lands it."""
        if text is None:
            touched, digests = Touched(gone=(name,)), {}
        else:
            touched = Touched(written=(name,))
            digests = {name: hashlib.sha256(text.encode()).hexdigest()}
        self.ledger.about_to_land(str(self.ws), touched, digests, person=person)
        if text is None:
            return self.remove(name)
        return self.write(name, text)

    def agent_git(self, *words: str, at: str = "") -> World:
        """A call lands what a git command did to the index."""
        index = f"{at}/.git/index" if at else ".git/index"
        self.ledger.about_to_land(str(self.ws), Touched(indexes=(index,)), {}, person=False)
        return self.git(*words, at=at)

    def ignores(self, *names: str) -> list[str]:
        with Ignored(self.ws, self.ledger) as ignored:
            return [name for name in names if name in ignored]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _nested(world: World) -> None:
    world.write("vendor/lib/.gitignore", "*.tmp\n")
    world.write("vendor/lib/code.c", "x\n")
    world.write("vendor/lib/x.tmp", "x\n")
    world.git("init", "-q", at="vendor/lib")
    world.git("add", "code.c", at="vendor/lib")
    world.commit(at="vendor/lib")
    world.write(".gitignore", "*.log\n/build/\nvendor/\n")


def _around(world: World) -> None:
    world.write("plans/plan.md", "x\n")
    world.git("init", "-q", at="plans")
    world.agent("plans/.git/info/exclude", "*\n")


def _moved(world: World) -> None:
    world.write("cache/.gitignore", "*\n")
    world.agent("cache/.gitignore", None)
    world.agent("src/.gitignore", "*\n")


def _undone(world: World) -> None:
    world.agent(".gitignore", "*\n")
    world.agent(".gitignore", "*.md\n")
    world.write(".gitignore", "*\n")  # as an undo leaves it


def _without_negation(world: World) -> None:
    world.write("sub/.gitignore", "!kept.log\n")
    world.write("sub/kept.log", "x\n")
    world.agent("sub/.gitignore", "")


def _without_the_file(world: World) -> None:
    _without_negation(world)
    world.agent("sub/.gitignore", None)


def _too_many(world: World) -> None:
    for number in range(MOST_VERSIONS + 2):
        world.agent(".gitignore", f"*{number}\n")
    world.agent(".gitignore", "*\n")


def _without_commits(world: World) -> None:
    shutil.rmtree(world.ws / ".git")
    world.git("init", "-q")


AGENTS: dict[str, tuple[Callable[[World], object], tuple[str, ...]]] = {
    "a rule for everything": (lambda w: w.agent(".gitignore", "*\n"), ("mine.md", "notes.txt")),
    "a rule in a folder": (lambda w: w.agent("src/.gitignore", "*\n"), ("src/b.py",)),
    "a rule in git's folder": (lambda w: w.agent(".git/info/exclude", "*\n"), ("mine.md",)),
    "a second repository around it": (_around, ("plans/plan.md",)),
    "rules that were moved": (_moved, ("src/b.py",)),
    "rules of before, again": (_undone, ("mine.md",)),
    "more versions than are kept": (_too_many, ("mine.md",)),
    "an exception that is emptied": (_without_negation, ("sub/kept.log",)),
    "an exception that is removed": (_without_the_file, ("sub/kept.log",)),
    "what the index listed": (
        lambda w: w.agent_git("rm", "-q", "--cached", "forced.log"),
        ("forced.log",),
    ),
    "what was only staged": (
        lambda w: (
            w.write("staged.log", "x\n"),
            w.git("add", "-f", "staged.log"),
            w.agent_git("rm", "-q", "--cached", "staged.log"),
        ),
        ("staged.log",),
    ),
    "what HEAD holds, without an index": (
        lambda w: w.remove(".git/index"),
        ("forced.log",),
    ),
    "what was taken from the index and from HEAD": (
        lambda w: (w.agent_git("rm", "-q", "--cached", "forced.log"), w.commit()),
        ("forced.log",),
    ),
    "what another branch holds": (
        lambda w: (
            w.git("branch", "kept"),
            w.git("rm", "-q", "--cached", "forced.log"),
            w.commit(),
        ),
        ("forced.log",),
    ),
    "an index that nobody can read": (
        lambda w: (w.ws / ".git/index").write_bytes(b"DIRC"),
        ("out.log",),
    ),
    "references that nobody can read": (
        lambda w: (w.ws / ".git/refs/heads/x").write_text("zz"),
        ("out.log",),
    ),
    "what a nested repository tracks": (_nested, ("vendor/lib/code.c", "vendor/lib/new.c")),
}


@pytest.mark.parametrize("does, names", AGENTS.values(), ids=AGENTS)
def test_it_excuses_nothing(
    world: World, does: Callable[[World], object], names: tuple[str, ...]
) -> None:
    does(world)
    assert world.ignores(*names) == []


PERSONS: dict[str, tuple[Callable[[World], object], tuple[str, ...]]] = {
    "rules that a person made": (lambda w: w, ("out.log", "build/x.o")),
    "the same, with an agent's beside them": (
        lambda w: w.agent(".gitignore", "*.log\n/build/\n/dist/\n"),
        ("out.log", "build/x.o"),
    ),
    "rules that a person changed after an agent": (
        lambda w: (w.agent(".gitignore", "*\n"), w.write(".gitignore", "*.md\n")),
        ("mine.md",),
    ),
    "an agent's rules that a person landed": (
        lambda w: (w.agent(".gitignore", "*\n"), w.agent(".gitignore", "*\n", person=True)),
        ("mine.md",),
    ),
    "an agent's rules that a person removed": (
        lambda w: (
            w.write("sub/x.log", ""),
            w.agent("sub/.gitignore", "!*\n"),
            w.remove("sub/.gitignore"),
        ),
        ("sub/x.log",),
    ),
    "a cache that ignores itself": (
        lambda w: w.agent(".pytest_cache/.gitignore", "*\n"),
        (".pytest_cache/v/x", ".pytest_cache/.gitignore"),
    ),
    "an environment that ignores itself": (
        lambda w: w.agent(".venv/.gitignore", "*\n"),
        (".venv/lib/x.py",),
    ),
    "what a nested repository ignores": (_nested, ("vendor/lib/x.tmp",)),
    "a sparse checkout's other files": (
        lambda w: w.agent_git("sparse-checkout", "set", "src"),
        ("out.log",),
    ),
    "packed references": (lambda w: w.git("pack-refs", "--all"), ("out.log",)),
    "packed objects": (lambda w: w.git("repack", "-a", "-d", "-q"), ("out.log",)),
    "a repository without commits": (
        _without_commits,
        ("out.log",),
    ),
}


@pytest.mark.parametrize("does, names", PERSONS.values(), ids=PERSONS)
def test_what_a_person_ignores_may_go(
    world: World, does: Callable[[World], object], names: tuple[str, ...]
) -> None:
    does(world)
    assert world.ignores(*names) == list(names)


def test_with_too_many_files_unknown_rules_are_an_agents(world: World) -> None:
    many = tuple(f"d{number}/.gitignore" for number in range(MOST_FILES))
    world.ledger.about_to_land(str(world.ws), Touched(gone=many), {}, person=False)
    assert world.ignores("out.log") == ["out.log"]
    world.agent("one-more/.gitignore", "*\n")
    assert world.ignores("out.log", "one-more/x") == []


def test_a_ledger_that_cannot_be_read_makes_all_rules_an_agents(world: World) -> None:
    world.agent("sub/.gitignore", "*\n")
    for file in (world.ledger._folder).glob("*.rules"):
        file.write_text("{")
    assert world.ignores("out.log") == []


def test_what_was_noted_counts_where_workspaces_are_others_now(world: World) -> None:
    world.write("sub/plan.md", "x\n")
    world.write("sub/deep/plan.md", "x\n")
    world.agent("sub/.gitignore", "*\n")
    with Ignored(world.ws / "sub", world.ledger) as inner:
        assert "plan.md" not in inner
    inner_rules = Touched(written=("x/.gitignore",))
    digest = hashlib.sha256(b"*\n").hexdigest()
    at = str(world.ws / "sub" / "deep")
    world.ledger.about_to_land(at, inner_rules, {"x/.gitignore": digest}, person=False)
    world.write("sub/deep/x/.gitignore", "*\n")
    assert world.ignores("sub/deep/x/plan.md", "sub/plan.md", "out.log") == ["out.log"]
    beside = world.ws.parent / "beside"
    (beside / "x").mkdir(parents=True)
    (beside / "x" / ".gitignore").write_text("*\n")
    with Ignored(beside, world.ledger) as other:
        assert "x/plan.md" in other  # a person's


def test_what_a_repository_above_tracks_is_no_ones_to_delete(world: World, tmp_path: Path) -> None:
    world.write("sub/.gitignore", "*.gen\n*.tmp\n")
    for name in ("sub/kept.gen", "sub/staged.gen", "sub/other.tmp", "sub/deep/in.gen"):
        world.write(name, "x\n")
    world.git("add", "-f", "sub/kept.gen", "sub/deep/in.gen").commit()
    world.git("add", "-f", "sub/staged.gen")
    far = tmp_path / "far"
    world.git("worktree", "add", "-q", str(far))
    (far / "sub" / ".gitignore").write_text("*.gen\n")
    names = ("kept.gen", "staged.gen", "other.tmp", "deep/in.gen")

    def ignored(root: Path) -> list[str]:
        with Ignored(root, world.ledger) as inner:
            return [name for name in names if name in inner]

    assert ignored(world.ws / "sub") == ["other.tmp"]
    assert ignored(far / "sub") == ["staged.gen"]
    link = tmp_path / "link"
    link.symlink_to(world.ws)
    assert ignored(link / "sub") == ["other.tmp"]
    world.agent_git("rm", "-q", "--cached", "sub/staged.gen")  # in a workspace that holds this one
    assert ignored(world.ws / "sub") == ["other.tmp"]
    world.git("init", "-q", at="sub")
    assert ignored(world.ws / "sub") == ["other.tmp"]
    shutil.rmtree(world.ws / ".git")
    (world.ws / ".git").mkdir()  # git looks on above it
    assert ignored(world.ws / "sub") == list(names)
    (world.ws / ".git" / "HEAD").write_text("what is this\n")
    assert ignored(world.ws / "sub") == []


def test_what_a_git_folder_of_another_name_tracks_is_no_ones_to_delete(world: World) -> None:
    world.write("forced2.log", "x\n")
    assert world.ignores("forced2.log", "out.log") == ["forced2.log", "out.log"]
    world.git("init", "-q", "--bare", "dot.git")
    apart = ("--git-dir", "dot.git", "--work-tree", ".")
    world.git(*apart, "add", "-f", "forced2.log")
    world.git("--git-dir", "dot.git", "config", "core.bare", "false")
    world.git("--git-dir", "dot.git", "config", "core.worktree", "..")
    assert world.ignores("forced2.log", "out.log") == ["out.log"]


def test_rules_behind_a_link_are_none(world: World) -> None:
    world.write("elsewhere/.gitignore", "*\n")
    (world.ws / "sub").symlink_to("elsewhere")
    assert world.ignores("sub/x.py") == []


PLACES = {
    ".gitignore": (True, False),
    "a/b/.gitignore": (True, False),
    ".git/info/exclude": (True, False),
    "a/.git/modules/m/info/exclude": (True, False),
    "info/exclude": (False, False),
    ".gitignore.md": (False, False),
    ".git/index": (False, True),
    "a/.git/worktrees/w/index": (False, True),
    "src/index": (False, False),
}


@pytest.mark.parametrize("path, found", PLACES.items(), ids=PLACES)
def test_what_git_goes_by(path: str, found: tuple[bool, bool]) -> None:
    assert (is_rules(path), is_index(path)) == found
