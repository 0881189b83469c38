# SPDX-License-Identifier: Apache-2.0
"""Many agents and a person in one workspace lose no update and leave nothing behind.

The same load runs for minutes as `python -m tests.bench.agents`; its own checks must see what is
wrong, so they are tried against files that somebody has changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import docker
import pytest

from sandbox.config.settings import Dirs
from sandbox.containers.images import Images
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_STATE, LABEL_TEST
from tests.bench.agents import run
from tests.bench.ledger import Ledger
from tests.bench.litter import litter


def test_many_agents_lose_no_update_and_leave_nothing(
    docker_client: docker.DockerClient, images: Images, tmp_path: Path, run_id: str
) -> None:
    for seconds in (8.0, 20.0, 60.0):
        root = tmp_path / f"{seconds}"
        found = asyncio.run(run(root, seconds=seconds, labels={LABEL_TEST: run_id}))
        assert found.problems == ()
        assert found.edits > 0
        if found.conflicts:  # a busy machine makes so few calls that they may not meet
            break
    assert found.calls > found.agents
    assert found.conflicts > 0  # they really met


def _ledger() -> Ledger:
    one = Ledger()
    for line in ("begin", "a", "b"):
        one.appended("log", line)
    one.taken_back("log", "b")
    one.files["own/x"] = "x"
    one.counts["number"] = 3
    one.commits |= {"begin", "more"}
    return one


FILES = {"log": "begin\na\n", "own/x": "x\n", "number": "3\n", ".lockgate/undo/1": "", ".git/a": ""}
COMMITS = ("begin", "more")
WRONG: dict[str, tuple[dict[str, str | None], tuple[str, ...], str]] = {
    "a lost line": ({"log": "begin\n"}, COMMITS, "log: lost `a`"),
    "a doubled line": ({"log": "begin\na\na\n"}, COMMITS, "log: too often `a`"),
    "an undone line": ({"log": "begin\na\nb\n"}, COMMITS, "log: too often `b`"),
    "a lost file": ({"own/x": None}, COMMITS, "missing `own/x`"),
    "a file of nobody": ({"own/y": "y\n"}, COMMITS, "nobody made `own/y`"),
    "another content": ({"own/x": "y\n"}, COMMITS, "own/x: holds 'y\\n' instead of 'x'"),
    "a lost count": ({"number": "2\n"}, COMMITS, "number: holds '2\\n' instead of '3'"),
    "a lost commit": ({}, ("begin",), "lost commit `more`"),
    "a commit twice": ({}, (*COMMITS, "more"), "commit twice `more`"),
    "a commit of nobody": ({}, (*COMMITS, "evil"), "commit of nobody `evil`"),
}


def _write(root: Path, changed: dict[str, str | None]) -> None:
    for path, text in {**FILES, **changed}.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)


def test_what_is_as_it_should_be_differs_in_nothing(tmp_path: Path) -> None:
    _write(tmp_path, {})
    assert _ledger().differences(tmp_path, Counter(COMMITS)) == []


@pytest.mark.parametrize("changed, commits, said", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(
    tmp_path: Path, changed: dict[str, str | None], commits: tuple[str, ...], said: str
) -> None:
    _write(tmp_path, changed)
    assert _ledger().differences(tmp_path, Counter(commits)) == [said]


def test_what_is_left_is_named(
    docker_client: docker.DockerClient, images: Images, tmp_path: Path, run_id: str
) -> None:
    dirs = Dirs.under(tmp_path / "lockgate").create()
    workspace = tmp_path / "work"
    workspace.mkdir()
    assert litter(dirs, workspace) == []
    state = state_label(dirs)
    labels = {LABEL_STATE: state, LABEL_TEST: run_id}
    container = docker_client.containers.create(
        images.keeper, ["true"], name=f"left-{state}", labels=labels, network_mode="none"
    )
    volume = docker_client.volumes.create(f"lockgate-layers-{state}", labels=labels)
    for folder in (dirs.runtime / "cells/1-1.00", workspace / ".lockgate/landing/c1"):
        folder.mkdir(parents=True)
    try:
        found = litter(dirs, workspace)
    finally:
        container.remove(force=True)
        volume.remove()
    assert [one.split(" is left")[0] for one in found] == [
        f"container /left-{state}",
        f"volume lockgate-layers-{state}",
        f"{dirs.runtime}/cells/1-1.00",
        f"{workspace}/.lockgate/landing/c1",
    ]
