# SPDX-License-Identifier: Apache-2.0
"""The guard that comes with the supervisor: a process that tells, dies alone, and makes room."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from policy.autonomy.levels_schema import UserLevels
from policy.values.strict_yaml import PolicyError
from sandbox.audit.events.protected import TamperedRecord
from sandbox.audit.store import Store
from sandbox.calls.flow.parts import Parts
from sandbox.gates.policy_files import Policies
from sandbox.guard import child as guardian
from sandbox.guard.child import Guardian
from sandbox.guard.guard import Guard, GuardSettings
from sandbox.guard.serve import PathsRead
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry
from tests.fakes import lines_of

WAIT_SECONDS = 120.0


class Home:
    """A registered workspace with a protected file."""

    def __init__(self, folder: Path) -> None:
        self.dirs = Dirs.under(folder / "lockgate").create()
        self.told: list[TamperedRecord] = []
        self.top = folder / "home" / "project"
        self.top.mkdir(parents=True)
        (self.top / ".envrc").write_text("old")
        Registry(self.dirs, home=folder / "home").add(self.top, approved=True)

    @contextlib.asynccontextmanager
    async def guarded(self, **settings: Any) -> AsyncIterator[Guardian]:
        keeping = Guardian(self.dirs, GuardSettings(**settings), self.told.append)
        keeping.start()
        try:
            yield keeping
        finally:
            await keeping.close()

    def tampered(self) -> list[dict[str, Any]]:
        return [one for one in lines_of(Store(self.dirs)) if one["event"] == "tampered"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(guardian, "START_SECONDS", 0.0)
    monkeypatch.setattr(guardian, "FIRST_PAUSE", 0.05)
    return Home(tmp_path)


async def eventually(condition: Callable[[], object], what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS
    while not condition():
        assert loop.time() < end, f"{what}: not within {WAIT_SECONDS} s"
        await asyncio.sleep(0.02)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await work()

    asyncio.run(all_of_it())


def pid(keeping: Guardian) -> int:
    assert keeping._process is not None
    return keeping._process.pid


async def on(keeping: Guardian) -> None:
    await eventually(lambda: keeping.state()["state"] == "on", "it guards")


def test_it_tells_and_records_and_ends_with_the_supervisor(home: Home) -> None:
    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            assert keeping.state()["guarded"] == 1
            (home.top / ".envrc").write_text("evil")
            await eventually(lambda: keeping.state()["told"], "told")
            mine = pid(keeping)
        assert not psutil.pid_exists(mine)

    run(work)
    assert [one["path"] for one in home.tampered()] == [".envrc"]
    assert [(one.path, one.kind) for one in home.told] == [(".envrc", "modified")]


def test_it_restores_where_the_settings_say_so(home: Home) -> None:
    home.dirs.settings.parent.mkdir(parents=True, exist_ok=True)
    home.dirs.settings.write_text("guard: {restore: true}\n")

    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            (home.top / ".envrc").write_text("evil")
            await eventually(lambda: keeping.state()["told"], "told")

    run(work)
    assert (home.top / ".envrc").read_text() == "old"


def test_one_that_dies_is_said_and_started_again_and_misses_nothing(home: Home) -> None:
    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            first = pid(keeping)
            os.kill(first, signal.SIGKILL)
            await eventually(lambda: keeping.state()["state"] == "failed", "its death is said")
            assert keeping.state()["problem"] == "it ended with status -9"
            (home.top / ".envrc").write_text("evil")
            await on(keeping)
            assert pid(keeping) != first
            await eventually(lambda: keeping.state()["told"], "told")

    run(work)


def test_one_that_cannot_start_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian, "MODULE", "sandbox.guard.nosuch")

    async def work() -> None:
        async with home.guarded() as keeping:
            await eventually(lambda: keeping.state()["state"] == "failed", "its failure is said")
            await eventually(lambda: "nosuch" in keeping.state()["problem"], "and why")

    run(work)


def test_one_whose_word_nobody_can_pass_on_is_heard_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "guard_that_tells.py").write_text(TELLING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(guardian, "MODULE", "guard_that_tells")
    asked: list[str] = []

    def tell(record: TamperedRecord) -> None:
        asked.append(record.path)
        raise PolicyError("the policy file is what was changed")

    async def work() -> None:
        keeping = Guardian(home.dirs, GuardSettings(), tell)
        keeping.start()
        try:
            await eventually(lambda: keeping.told == 2, "both are told")
            await on(keeping)
            assert keeping._task is not None
            keeping._task.cancel()
            await eventually(lambda: keeping.state()["state"] == "failed", "nobody keeps it")
        finally:
            await keeping.close()

    run(work)
    assert asked == ["a", "b"]


def test_one_that_cannot_be_heard_is_started_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: bytes) -> None:
        raise KeyError("no such word")

    async def work() -> None:
        async with home.guarded() as keeping:
            with monkeypatch.context() as broken:
                broken.setattr(keeping, "_hear", fail)
                await eventually(lambda: keeping.state()["state"] == "failed", "it is said")
                assert "KeyError" in keeping.state()["problem"]
            await on(keeping)

    run(work)


def test_a_change_of_the_policy_file_itself_reaches_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = Dirs.under(tmp_path / "lockgate").create()
    told: list[UserLevels] = []
    parts = Parts(dirs, policy=None, workspaces=None, settings=None)
    file = tmp_path / "project" / ".lockgate" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("no: [policy")
    dirs.config.mkdir(parents=True, exist_ok=True)
    (dirs.config / "autonomy.yaml").write_text("users:\n  default: {escalation_channel: phone}\n")
    monkeypatch.setattr(
        parts.people, "tell", lambda event, user, levels: told.append(levels.user(user))
    )
    changed = TamperedRecord(workspace=str(tmp_path / "project"), path=".lockgate/policy.yaml")
    parts.tell_tampered(changed)
    assert [one.escalation_channel for one in told] == ["phone"]


def test_it_is_off_where_the_settings_say_so(home: Home) -> None:
    async def work() -> None:
        async with home.guarded(enabled=False) as keeping:
            assert keeping.state()["state"] == "off"
            assert keeping._task is None

    run(work)


def test_it_outlives_no_supervisor(home: Home) -> None:
    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            process = keeping._process
            assert process is not None
            assert process.stdin is not None
            process.stdin.close()  # as when the supervisor is killed
            assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == 0

    run(work)


def test_it_makes_room_for_a_persons_guard_and_comes_back(home: Home) -> None:
    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            mine = Guard(home.dirs)
            (home.top / ".envrc").write_text("evil")
            told = await asyncio.to_thread(mine.look)
            assert mine.failed == ()
            await on(keeping)
            await eventually(lambda: len(told) + keeping.told == 1, "told once, by one of them")

    run(work)
    assert len(home.tampered()) == 1


def test_what_a_policy_file_protects_counts_from_then_on(home: Home) -> None:
    async def work() -> None:
        async with home.guarded() as keeping:
            await on(keeping)
            (home.top / "rules.txt").write_text("old")
            home.dirs.config.mkdir(parents=True, exist_ok=True)
            (home.dirs.config / "policy.yaml").write_text(POLICY)
            await eventually(lambda: keeping.state()["guarded"] == 2, "the new path is guarded")
            (home.top / "rules.txt").write_text("evil")
            await eventually(lambda: keeping.state()["told"], "told")

    run(work)
    assert [one["path"] for one in home.tampered()] == ["rules.txt"]


def test_what_changed_right_after_the_guard_read_it_is_noticed(home: Home) -> None:
    home.dirs.config.mkdir(parents=True, exist_ok=True)
    (home.dirs.config / "policy.yaml").write_text(POLICY)
    broken, top = home.top.parent / "broken", str(home.top)
    (broken / ".lockgate").mkdir(parents=True)
    (broken / ".lockgate" / "policy.yaml").write_text("no: [policy")
    read, looking = PathsRead(), Policies(home.dirs)
    read.read(Policies(home.dirs), top)
    assert not read.have_changed(looking, [str(broken), top])
    (home.dirs.config / "policy.yaml").write_text(POLICY.replace("rules.txt", "laws.txt"))
    assert read.have_changed(looking, [str(broken), top])
    read = PathsRead()
    read.read(Policies(home.dirs), top)
    (home.dirs.config / "policy.yaml").unlink()  # before anybody looked for the first time
    assert read.have_changed(Policies(home.dirs), [str(broken), top])


TELLING = """
import json, sys
for path in "ab":
    print(json.dumps({"told": {"workspace": "/w", "path": path, "kind": "modified", "rule": "r",
                               "because": "b"}}))
print(json.dumps({"state": {"guarded": 2}}), flush=True)
sys.stdin.read()
"""
POLICY = """
version: 1
governance:
  - id: rules
    name: The rules
    because: they are the team's
    paths: [rules.txt]
    allowed_path: ask the team
    match: [rules.txt]
    miss: [other.txt]
"""
