# SPDX-License-Identifier: Apache-2.0
"""Kill -9 at every step: files are old or new, the record says which, and nothing is left.

Each walk kills at the first step, the second, and so on until the action comes to its end; what is
landed or held is then put back for the next round.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.cell.faults import DIE, HANG
from sandbox.cells.cell import Cell
from sandbox.config.settings import KeeperSettings, Settings
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_CELL
from sandbox.errors import SandboxError
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab
from tests.container.crashing import (
    CHANGE,
    FEWER,
    MOST_STEPS,
    is_clean,
    nothing_left,
    pid_outside,
    workspace,
)
from tests.container.dying import Steps
from tests.container.lab import ME, Lab, eventually, leave
from tests.container.rounds import BOTH, Round, agrees, entry_of

FEWEST = {"call": 25, "undo": 4, "land": 4, "part": 4, "discard": 4}


# The supervisor


Doomed = Callable[[str, str, int, str], list[str]]


@pytest.fixture
def doomed(
    tmp_path: Path, run_id: str, docker_client: docker.DockerClient, images: Images, owner: int
) -> Iterator[Doomed]:
    """Return a function that runs a round in a process that dies at a step; see `dying`."""
    workspace(tmp_path / "work", owner)
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.container.dying", str(tmp_path), run_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said, say = process.stdout, process.stdin

        def run(scenario: str, call: str, at: int, before: str) -> list[str]:
            say.write(f"{scenario} {call} {at} {before}\n")
            lines = [said.readline().strip()]
            while lines[-1].startswith("met "):
                lines.append(said.readline().strip())
            return lines

        yield run
        say.close()


@pytest.mark.parametrize("scenario", BOTH)
def test_a_supervisor_that_dies_at_any_step(
    make_lab: MakeLab,
    doomed: Doomed,
    docker_client: docker.DockerClient,
    run_id: str,
    tmp_path: Path,
    scenario: str,
) -> None:
    """The supervisor that brings one round to its end is the one that dies in the next.

    At any step of starting a cell, of a call and of ending (`call`), and at any of what a person
    does afterwards. The next one asserts that files and record agree, and that of all that died
    nothing is left, while it lives.
    """

    def survivor() -> Lab:
        return Lab(docker_client, tmp_path / "lab", (tmp_path / "work",), run_id)

    lab = survivor()
    round_ = Round(lab)
    (tmp_path / "round").write_bytes(pickle.dumps(round_))
    waits = lab.sh("echo run > .envrc")
    assert waits.judgement == "hold"
    leave(lab)
    steps, met, before = [], set(), "-"
    for at in itertools.count(1):
        assert at < MOST_STEPS
        *found, said = doomed(scenario, f"k{at}", at, before)
        steps.append(said)
        met |= {line.removeprefix("met ") for line in found}
        if found:  # it had started, so that the round before is over
            before = f"k{at}"
        if said == "ended":
            break
        assert said.startswith("killed "), steps  # the fault really happened
    lab = survivor()
    assert lab.read("true").exit_status == 0
    met.add(agrees(lab, scenario, before, round_))
    round_.put_back(lab, before)
    assert len(steps) > FEWEST[scenario], steps
    assert BOTH[scenario] <= met
    assert entry_of(lab, waits.id).judgement == "hold"  # type: ignore[union-attr]
    is_clean(lab)
    lab.run(lab.supervisor.land(waits.id))
    assert lab.text(".envrc") == "run\n"
    lab.close()
    nothing_left(lab.dirs, lab.ws)


# The keeper


class Fault:
    """A fault in a keeper from its next request on, as only the supervisor can ask for one."""

    def __init__(self) -> None:
        self.wanted: dict[str, Any] | None = None
        self.cell: Cell | None = None
        """The cell whose keeper has it."""
        self.asked: list[str] = []
        """What this keeper was asked for since."""

    def happened(self) -> bool:
        """Whether the keeper came to it: its cell is lost then."""
        assert self.wanted is None
        assert self.cell is not None
        return not self.cell.alive

    @property
    def step(self) -> str:
        """The step at which it happened, without numbers: `stage`, `do`, `land asked`, ..."""
        assert self.cell is not None
        last = self.cell._keeper.link.tail.rpartition("\n")[2]
        return last.partition(": ")[2].rstrip("0123456789")


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """Return a fault that the next request to a keeper brings along."""
    one, real = Fault(), Cell._send

    def send(cell: Cell, request: dict[str, Any], op: str) -> Any:
        if one.wanted is not None:
            request = {**request, "fault": one.wanted}
            one.wanted, one.cell, one.asked = None, cell, []
        if cell is one.cell:
            one.asked.append(op)
        return real(cell, request, op)

    monkeypatch.setattr(Cell, "_send", send)
    return one


def new_cell(lab: Lab) -> None:
    """End the lab's cells, so that the next call gets a fresh one."""
    assert lab.supervisor._live.pool is not None
    for cell in lab.supervisor._live.pool.living():
        lab.run(lab.supervisor._live.pool.end(cell))


KEEPER_FEWEST = {"call": 25, "undo": 10, "land": 15, "part": 10, "discard": 1}


@pytest.mark.parametrize("scenario", BOTH)
@pytest.mark.parametrize("owner", [ME])
def test_a_keeper_that_dies_at_any_step(
    make_lab: MakeLab, fault: Fault, tmp_path: Path, owner: int, scenario: str
) -> None:
    """The keeper that brings one round to its end is the one that dies in the next.

    Every step of a call with every kind of change; of what follows, with one change per kind of
    operation: `test_landing.py` walks through all steps of a journal, without containers.
    """
    lab = make_lab(workspace(tmp_path / "work", owner))
    round_ = Round(lab, CHANGE if scenario == "call" else FEWER)
    met: set[str] = set()
    steps: list[str] = []
    for at in itertools.count(1):
        assert at < MOST_STEPS
        found, happened = keeper_round(lab, fault, scenario, {"at": at, "act": DIE}, round_)
        met.add(found)
        if not happened:
            break
        steps.append(fault.step)
    assert len(steps) > KEEPER_FEWEST[scenario]
    assert BOTH[scenario] <= met
    is_clean(lab)


def test_a_keeper_that_dies_while_it_starts(lab: Lab, fault: Fault) -> None:
    assert lab.read("true").exit_status == 0
    for at in itertools.count(1):
        new_cell(lab)
        fault.wanted = {"at": at, "act": DIE}
        with pytest.raises(SandboxError) as lost:
            lab.sh("echo x > a")
        if "open" in fault.asked:
            break
        assert fault.happened()
        assert str(lost.value).endswith("nothing landed")
    assert at > STARTING_FEWEST
    assert lab.sh("echo x > a").landed
    is_clean(lab)


STARTING_FEWEST = 2


def keeper_round(
    lab: Lab, fault: Fault, scenario: str, wanted: dict[str, Any], round_: Round
) -> tuple[str, bool]:
    """Meet a fault; return how the files and the record are, and whether it really happened."""
    call = f"k{wanted['at']}"
    act = round_.begin(lab, scenario, call)
    fault.wanted = wanted
    said = ""
    try:
        act()
    except SandboxError as error:
        said = str(error)
    happened = fault.happened()
    if not happened:
        assert said == ""
        new_cell(lab)  # the next call would come to it
    assert lab.read("true").exit_status == 0
    met = agrees(lab, scenario, call, round_)
    assert "\n" not in said
    if said.endswith("nothing landed"):
        assert met not in ("landed", "undone", "discard"), said
    round_.put_back(lab, call)
    return met, happened


@pytest.mark.parametrize("at", (3, 5, 11))
def test_a_keeper_that_hangs_is_taken_for_lost(
    make_lab: MakeLab,
    fault: Fault,
    tmp_path: Path,
    owner: int,
    at: int,
) -> None:
    short = Settings(keeper=KeeperSettings(look_seconds=10, land_seconds=10))
    lab = make_lab(workspace(tmp_path / "work", owner), settings=short)
    _, happened = keeper_round(lab, fault, "call", {"at": at, "act": HANG}, Round(lab))
    assert happened


# The cell


def test_a_cell_that_is_killed_at_any_step(
    make_lab: MakeLab, tmp_path: Path, owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(workspace(tmp_path / "work", owner))
    round_ = Round(lab)
    met: set[str] = set()
    for at in itertools.count(1):
        assert at < MOST_STEPS
        call = f"k{at}"
        killed: list[str] = []
        name = lab.cell.labels[LABEL_CELL]
        with monkeypatch.context() as patch:
            steps = Steps(_killer(pid_outside(lab.cell), killed), at)
            steps.watch(patch.setattr)
            rebind(lab)
            steps.armed = True
            with contextlib.suppress(SandboxError):
                lab.sh(CHANGE, derived_from="deletes", call_id=call)
            steps.armed = False
        rebind(lab)
        if killed:
            lab.run(eventually(lambda name=name: not lives(lab, name), "the loss is noticed"))  # type: ignore[misc]
        assert lab.read("true").exit_status == 0
        met.add(agrees(lab, "call", call, round_))
        round_.put_back(lab, call)
        if not killed:
            break
    assert at > CELL_FEWEST
    assert BOTH["call"] <= met
    is_clean(lab)


CELL_FEWEST = 8


def _killer(pid: int, said: list[str]) -> Callable[[str], None]:
    def kill(what: str) -> None:
        said.append(what)
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            cannot_run("processes of containers belong to somebody else here")

    return kill


def rebind(lab: Lab) -> None:
    """Have living cells use the methods of their class as they are now."""
    assert lab.supervisor._live.pool is not None
    for cell in lab.supervisor._live.pool.living():
        cell._runner.link._on_frame = cell._runner.on_frame
        cell._keeper.link._on_frame = cell._keeper.on_frame


def lives(lab: Lab, name: str) -> bool:
    """Whether the supervisor takes a cell for alive."""
    return name in {cell["name"] for cell in lab.supervisor.cells()}
