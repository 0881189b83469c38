# SPDX-License-Identifier: Apache-2.0
"""`lockgate clean` moves what git ignores out of a workspace, back again, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox.audit.events.people import CleanedRecord
from sandbox.audit.store import Store
from tests.container.lab import ME, repository
from tests.sandbox.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A workspace with an ignored folder, a folder of sources, and some that are neither."""
    made = Shell(tmp_path)
    (tmp_path / "home").mkdir(exist_ok=True)
    made.workspace.rmdir()
    repository(made.workspace, ME)
    (made.workspace / ".gitignore").write_text("node_modules/\nout/\n.env\n")
    for name in ("node_modules/a/b.js", "node_modules/c.js", "out/.env", "kept/new.txt"):
        path = made.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert made("init", "--yes")[0] == 0
    return made


def noted(shell: Shell) -> list[tuple[str, str, int | None]]:
    """Return what the record says of folders, the oldest first."""
    records = list(Store(shell.dirs).records())
    return [
        (one.event, one.path, one.files)
        for one in reversed(records)
        if isinstance(one, CleanedRecord)
    ]


def test_a_folder_goes_and_comes_back(shell: Shell) -> None:
    folder = shell.workspace / "node_modules"
    status, out, err = shell("clean", "node_modules", "--yes", "--json")
    assert status == 0, err
    one = json.loads(out)
    assert (one["path"], one["files"], folder.exists()) == (str(folder), 2, False)
    assert json.loads(shell("clean", "--json")[1]) == [one]
    folder.mkdir()
    status, _, err = shell("clean", "--back", one["id"])
    assert status != 0
    assert "is there by now" in err
    folder.rmdir()
    assert shell("clean", "--back", one["id"])[0] == 0
    assert (folder / "a/b.js").read_text() == "node_modules/a/b.js"
    assert shell("clean", "--json")[1].strip() == "[]"
    assert noted(shell) == [("cleaned", str(folder), 2), ("clean-back", str(folder), 2)]


def test_it_is_deleted_only_when_a_person_says_so(shell: Shell) -> None:
    one = json.loads(shell("clean", "node_modules", "--yes", "--json")[1])
    assert shell("clean", "--forget", one["id"])[0] == 0
    assert shell("clean", "--back", one["id"])[0] != 0
    assert [event for event, _, _ in noted(shell)] == ["cleaned", "clean-forgotten"]
    assert list((shell.dirs.state / "cleaned").iterdir()) == []


REFUSED = {
    "sources": ("src", "does not ignore"),
    "what is new": ("kept", "does not ignore"),
    "a secret": ("out", "protected or hidden"),
    "the repository": (".git", "protected or hidden"),
    "the workspace": (".", "does not lie in"),
    "a file": ("README.md", "no folder"),
    "a folder above": ("..", "no registered workspace"),
    "an id that is a path": ("--back=../../x", "nothing was moved away"),
}


@pytest.mark.parametrize("word, why", REFUSED.values(), ids=REFUSED)
def test_everything_else_stays(shell: Shell, word: str, why: str) -> None:
    before = sorted(shell.workspace.rglob("*"))
    status, _, err = shell("clean", word, "--yes")
    assert status != 0
    assert why in err
    assert sorted(shell.workspace.rglob("*")) == before
    assert noted(shell) == []


def test_a_link_is_not_followed(shell: Shell) -> None:
    (shell.workspace / "link").symlink_to("node_modules")
    assert shell("clean", "link", "--yes")[0] != 0
    assert (shell.workspace / "node_modules/c.js").exists()


def test_without_a_yes_nothing_moves(shell: Shell) -> None:
    assert shell("clean", "node_modules")[0] != 0
    assert (shell.workspace / "node_modules/c.js").exists()
