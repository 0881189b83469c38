# SPDX-License-Identifier: Apache-2.0
"""What a person said yes to, or could object to, is what lands, after crashes and in races too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from policy.model import ActionPlan, Context, Decision, Landing
from sandbox.cells.transaction import Transaction
from sandbox.errors import BadInput
from tests.container import lab as labs
from tests.container.conftest import MakeLab
from tests.container.lab import ME, Lab, eventually, repository
from tests.regressions.test_a_word_is_bound_to_what_was_shown import BAD, GOOD, exchange

HOLDS = """
import os, signal, sys
from pathlib import Path
import sandbox.gates.gate1
from sandbox.containers.endpoints import connect
from tests.container import lab as labs
from tests.regressions.test_a_word_is_bound_to_what_was_shown import held_move
sandbox.gates.gate1.decide = labs.decide
sandbox.gates.gate1.wants_second_opinion = lambda *_: False
root = Path(sys.argv[1])
lab = labs.Lab(connect(), root / "lab", (root / "work",), sys.argv[2])
held = [held_move(lab, name).id for name in ("plain", "own")]
lab.run(lab.supervisor._record.flush())
print(*held, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Has two calls held, and dies as by `kill -9`."""
WINDOW = 5.0


@pytest.fixture
def made(
    docker_client: docker.DockerClient, run_id: str, tmp_path: Path
) -> Iterator[Callable[[], Lab]]:
    """Return a function that makes a supervisor over what one that died has left."""
    labs_made: list[Lab] = []

    def make() -> Lab:
        labs_made.append(Lab(docker_client, tmp_path / "lab", (tmp_path / "work",), run_id))
        return labs_made[-1]

    yield make
    for one in labs_made:
        one.close()


def test_a_supervisor_that_is_killed_between_holding_and_landing(
    made: Callable[[], Lab],
    make_lab: MakeLab,
    run_id: str,
    tmp_path: Path,
) -> None:
    """`make_lab` is asked for its gate 1 alone."""
    repository(tmp_path / "work", ME)
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    died = subprocess.run(
        [sys.executable, "-c", HOLDS, str(tmp_path), run_id],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    plain, own = died.stdout.split()
    lab = made()
    exchange(lab, "own")
    with pytest.raises(BadInput, match=r"own/\.githooks/pre-commit`: what would land is not"):
        lab.run(lab.supervisor.land(own, force=True))
    assert not (lab.ws / "own/.githooks").exists()
    assert lab.run(lab.supervisor.land(plain)).landed  # it was there all the time
    assert lab.text("plain/.githooks/pre-commit") == GOOD != BAD


@pytest.fixture
def delayed(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> Lab:
    """Return a lab in which a person can object for some seconds to what agent `slow` does."""

    def decide(plan: ActionPlan, context: Context, policy: Any, *_: Any) -> Decision:
        made = labs.decide(plan, context, policy)
        if plan.agent != "slow":
            return made
        fields = {"landing": Landing.DELAYED, "objection_seconds": WINDOW}
        return made.model_copy(update=fields)

    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
    return lab


async def in_the_window(lab: Lab, command: str, call: str) -> asyncio.Future[Any]:
    """Begin a call; return when a person can object to it."""
    begun = lab.call(command, agent="slow", call_id=call, derived_from="deletes")
    work = asyncio.ensure_future(begun)
    await eventually(
        lambda: work.done() or any("lands_in" in one for one in lab.supervisor.running()),
        "it waits",
    )
    assert not work.done(), work.result()
    return work


def test_what_is_obeyed_by_the_end_of_the_window_is_judged_again(delayed: Lab) -> None:
    lab = delayed

    async def scenario() -> None:
        plain = await in_the_window(lab, "mkdir tools; echo one > tools/pre-commit", "c1")
        assert (await plain).landed  # the control
        held = await in_the_window(lab, "echo two > tools/pre-commit", "c2")
        lab.git("config", "core.hooksPath", "tools")  # a person's
        done = await held
        assert (done.judgement, done.landed) == ("hold", False), done
        assert "git-configured" in done.message
        assert lab.text("tools/pre-commit") == "one\n"
        (shown,) = [one for one in done.changes if one.path == "tools/pre-commit"]
        assert shown.protected
        assert shown.sha256
        assert (await lab.supervisor.land("c2")).landed
        assert lab.text("tools/pre-commit") == "two\n"

    lab.run(scenario())


def test_a_landing_in_the_window_is_not_landed_along(delayed: Lab) -> None:
    """A moved folder takes along what came into it; a person could object to less than that."""
    lab = delayed
    assert lab.sh("mkdir -p x/d; echo a > x/d/a").landed

    async def scenario() -> None:
        held = await in_the_window(lab, "mv x/d moved", "c1")
        assert (await lab.call("echo b > x/d/b", agent="other")).landed
        done = await held
        assert (done.judgement, done.landed) == ("hold", False), done
        assert "not-as-shown" in done.message or "conflict" in done.message, done
        assert (lab.text("x/d/a"), lab.text("x/d/b")) == ("a\n", "b\n")

    lab.run(scenario())


def test_what_lands_between_judgement_and_landing_is_judged_with_it(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another supervisor: calls of one come in turn."""
    lab = make_lab()
    other = make_lab(lab.ws)
    assert lab.sh("mkdir -p x/d; echo a > x/d/a").landed
    assert other.sh("true").exit_status == 0
    land = Transaction.land
    seen: list[bool] = []

    async def landing(self: Transaction, **more: Any) -> list[str]:
        if self.name == "mine" and not seen:
            theirs = await asyncio.to_thread(other.sh, "echo b > x/d/b")
            assert theirs.landed
        answer = await land(self, **more)
        if self.name == "mine":
            seen.append(self.turned)
        return answer

    monkeypatch.setattr(Transaction, "land", landing)
    done = lab.sh(
        'python3 -c \'import os; os.rename("x/d", "moved")\'',
        call_id="mine",
        derived_from="deletes",
    )
    assert seen[:1] == [True], done
    if done.landed:
        assert seen[-1] is False
        assert "moved/b" in {one.path for one in done.changes}  # it was judged, and is recorded
        assert (lab.text("moved/a"), lab.text("moved/b")) == ("a\n", "b\n")
    else:
        assert done.judgement == "hold"
        assert (lab.text("x/d/a"), lab.text("x/d/b")) == ("a\n", "b\n")


def test_two_cells_write_a_path_and_a_person_lands_one_of_them(lab: Lab) -> None:
    command = "mkdir -p .githooks; echo mine > .githooks/pre-commit; echo mine > notes.txt"
    first = lab.sh(command, agent="a")
    assert first.judgement == "hold"
    assert lab.sh("echo theirs > notes.txt", agent="b").landed
    with pytest.raises(BadInput, match=r"notes\.txt"):
        lab.run(lab.supervisor.land(first.id))
    assert lab.text("notes.txt") == "theirs\n"
    assert not (lab.ws / ".githooks").exists()
    lab.run(lab.supervisor.discard(first.id))

    async def race(call: str) -> None:
        landing = asyncio.create_task(lab.supervisor.land(call))
        running = lab.call("cat notes.txt; sleep 0.2; echo theirs again > notes.txt", agent="b")
        mine, theirs = await asyncio.gather(landing, running, return_exceptions=True)
        assert not isinstance(theirs, BaseException), theirs
        if isinstance(mine, BaseException):
            assert isinstance(mine, BadInput), mine
            assert not (lab.ws / ".githooks").exists()
            assert lab.text("notes.txt") == "theirs again\n"
            return
        assert mine.landed
        assert lab.text(".githooks/pre-commit") == "mine\n"
        if theirs.landed:  # it began after the landing, and saw it
            assert (theirs.stdout, lab.text("notes.txt")) == ("mine\n", "theirs again\n")
        else:
            assert (theirs.judgement, lab.text("notes.txt")) == ("hold", "mine\n")

    second = lab.sh(command, agent="a")
    assert second.judgement == "hold"
    lab.run(race(second.id))
