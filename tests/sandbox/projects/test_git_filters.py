# SPDX-License-Identifier: Apache-2.0
"""A file whose filter the cell lacks is not added as it is: git refuses it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from policy.people.shortfall import explain_failure
from sandbox.projects.git_filters import find_filters, required_filters, told_of_filters

WHOLE = "a picture\n"
OID = hashlib.sha256(WHOLE.encode()).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(WHOLE)}\n"


class Cell:
    """Git as in a cell: with the home's settings, and programs of the test's choice."""

    def __init__(self, root: Path) -> None:
        self.ws, self.programs = root / "work", root / "bin"
        self.ws.mkdir()
        self.programs.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.git("init", "-q")
        (self.ws / ".gitattributes").write_text("*.bin filter=lfs diff=lfs\n*.key filter=vault\n")
        (self.ws / "a.bin").write_text(POINTER)
        self.git("add", "-A")
        self.git("commit", "-qm", "one")
        self.home.joinpath(".gitconfig").write_text(required_filters([str(self.ws)]))

    def git(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run git."""
        named = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
        path = f"{self.programs}:/usr/local/bin:/usr/bin:/bin"
        env = {"HOME": str(self.home), "PATH": path, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *named, *words],
            cwd=self.ws,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """Return a repository whose commit holds a pointer."""
    return Cell(tmp_path)


@pytest.mark.parametrize(("name", "driver"), [("a.bin", "lfs"), ("b.key", "vault")])
def test_what_lacks_its_filter_is_not_added(cell: Cell, name: str, driver: str) -> None:
    (cell.ws / "plain.txt").write_text("x\n")
    assert cell.git("add", "plain.txt").returncode == 0
    (cell.ws / name).write_text("raw\n")
    done = cell.git("add", name)
    assert done.returncode == 128
    assert f"clean filter '{driver}' failed" in done.stderr
    assert f"the filter `{driver}`" in explain_failure(128, "", done.stderr)


@pytest.mark.parametrize("held", [POINTER, WHOLE])
def test_what_git_holds_counts_as_unchanged(cell: Cell, held: str) -> None:
    """Whatever its times say: reading works, and what else changed is committed."""
    (cell.ws / "a.bin").write_text(held)
    os.utime(cell.ws / "a.bin", (1e9, 1e9))
    (cell.ws / ".gitattributes").write_text("*.bin filter=lfs\n")
    done = cell.git("diff", "--name-only")
    assert (done.returncode, done.stdout) == (0, ".gitattributes\n"), done.stderr
    assert cell.git("stash").returncode == 0
    assert cell.git("stash", "pop").returncode == 0
    os.utime(cell.ws / "a.bin", (1e9 + 5, 1e9 + 5))
    done = cell.git("commit", "-qam", "two")
    assert done.returncode == 0, done.stderr
    assert cell.git("show", "HEAD:a.bin").stdout == POINTER


def test_a_changed_file_can_be_looked_at_as_the_failure_says(cell: Cell) -> None:
    (cell.ws / "a.bin").write_text("another\n")
    done = cell.git("diff")
    assert done.returncode == 128
    assert "`git -c filter.lfs.required=false diff`" in explain_failure(128, "", done.stderr)
    done = cell.git("-c", "filter.lfs.required=false", "diff")
    assert (done.returncode, "+another" in done.stdout) == (0, True)


def test_a_check_out_leaves_what_the_commit_holds(cell: Cell) -> None:
    (cell.ws / "a.bin").unlink()
    assert cell.git("checkout", "-q", "--", "a.bin").returncode == 0
    assert (cell.ws / "a.bin").read_text() == POINTER


def test_a_program_that_the_image_has_is_used(cell: Cell) -> None:
    program = cell.programs / "git-lfs"
    answers = f'case $1 in clean) printf "{POINTER}";; *) echo whole;; esac'
    program.write_text(f"#!/bin/sh\ncat >/dev/null\n{answers}\n")
    program.chmod(0o755)
    (cell.ws / "new.bin").write_text("raw\n")
    assert cell.git("add", "new.bin").returncode == 0
    assert cell.git("show", ":new.bin").stdout == POINTER
    (cell.ws / "a.bin").unlink()
    assert cell.git("checkout", "-q", "--", "a.bin").returncode == 0
    assert (cell.ws / "a.bin").read_text() == "whole\n"


def test_a_person_is_told_of_them(cell: Cell, tmp_path: Path) -> None:
    assert find_filters(str(cell.ws)) == ("lfs", "vault")
    assert "`lfs`, `vault`" in told_of_filters(str(cell.ws))
    assert told_of_filters(str(tmp_path)) == ""


def test_a_name_that_could_be_more_than_a_name_is_none(cell: Cell) -> None:
    (cell.ws / ".gitattributes").write_text('* filter=x"]\n* filter=a\\nb\n* filter= \n')
    assert find_filters(str(cell.ws)) == ()
