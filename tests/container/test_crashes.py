# SPDX-License-Identifier: Apache-2.0
"""Kill -9 at every step: files are old or new, the record says which, and nothing is left.

Each walk kills at the first step, the second, and so on until the action comes to its end; what is
landed or held is then put back for the next round.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.audit.call_entry import CallEntry
from sandbox.cell.faults import DIE, HANG
from sandbox.cells.specs import Specs
from sandbox.config.settings import KeeperSettings, Settings
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_CELL
from sandbox.errors import BadInput, SandboxError
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab
from tests.container.crashing import (
    CHANGE,
    HOLD,
    MOST_STEPS,
    is_clean,
    look,
    nothing_left,
    pid_outside,
    workspace,
)
from tests.container.dying import Steps
from tests.container.lab import ME, Lab, eventually, leave


def entry_of(lab: Lab, call: str) -> CallEntry | None:
    """Return what the record says of a call; None where it says nothing."""
    lab.run(lab.supervisor._record.flush())
    try:
        return lab.supervisor._record.store.call(call)
    except BadInput:
        return None


class Round:
    """The workspace before and after an action, and how to make it ready for the next round."""

    def __init__(self, lab: Lab) -> None:
        self.old = look(lab.ws)
        done = lab.sh(CHANGE, derived_from="deletes")
        assert done.landed
        self.new = look(lab.ws)
        lab.run(lab.supervisor.undo(done.id))
        held = lab.sh(HOLD, derived_from="deletes")
        assert held.judgement == "hold"
        lab.run(lab.supervisor.land(held.id))
        self.held = look(lab.ws)
        lab.run(lab.supervisor.undo(held.id))
        assert look(lab.ws) == self.old
        assert len({str(self.old), str(self.new), str(self.held)}) == 3

    def put_back(self, lab: Lab, call: str) -> None:
        """Undo or discard whatever a call left."""
        entry = entry_of(lab, call)
        for part in (entry and entry.parts) or ():
            lab.run(lab.supervisor.undo(part))
        if entry is not None and entry.judgement == "hold" and not entry.landed:
            lab.run(lab.supervisor.discard(call))
        elif entry is not None and entry.landed and not entry.undone_by:
            lab.run(lab.supervisor.undo(call))
        assert look(lab.ws) == self.old


def agrees(lab: Lab, scenario: str, call: str, round_: Round) -> str:
    """Assert that files are old or new, and that the record says which; return which."""
    found, entry = look(lab.ws), entry_of(lab, call)
    if scenario == "call":
        landed = found == round_.new
        assert landed or found == round_.old
        if entry is None:
            assert not landed
            return "unknown"
        assert (entry.landed, entry.ending is not None) == (landed, True)
        return "landed" if landed else "not landed"
    assert entry is not None
    if scenario == "undo":
        undone = found == round_.old
        assert undone or found == round_.new
        assert bool(entry.undone_by) is undone
        return "undone" if undone else "not undone"
    if scenario == "land":
        landed = found == round_.held
        assert landed or found == round_.old
        assert entry.landed is landed
        assert (entry.judgement == "land") is landed
        return "landed" if landed else "held"
    if scenario == "part":
        landed = "new.txt" in found
        assert landed or found == round_.old
        assert (entry.judgement, entry.landed) == ("hold", False)
        assert (entry.parts or []) == ([f"{call}-1"] if landed else [])
        if landed:  # the part is known as itself, and what is left goes on from there
            part = entry_of(lab, f"{call}-1")
            assert part is not None
            assert [one["path"] for one in part.changes or ()] == ["new.txt"]
            assert "new.txt" not in [one["path"] for one in entry.changes or ()]
            assert lab.run(lab.supervisor.land(call, ["keep.txt"])).landed
        return "landed" if landed else "held"
    assert found == round_.old
    assert entry.judgement in ("hold", "discard")
    assert not entry.landed
    return str(entry.judgement)


BOTH = {
    "call": {"landed", "not landed"},
    "undo": {"undone", "not undone"},
    "land": {"landed", "held"},
    "part": {"landed", "held"},
    "discard": {"hold", "discard"},
}
"""What a walk must have met: kills before and kills after the point of no return."""
FEWEST = {"call": 20, "undo": 6, "land": 6, "part": 6, "discard": 6}


# The supervisor


@pytest.fixture
def doomed(
    tmp_path: Path, run_id: str, docker_client: docker.DockerClient, images: Images, owner: int
) -> Iterator[Callable[[str, str, int], str]]:
    """Return a function that runs a scenario in a process that dies at a step; see `dying`."""
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

        def run(scenario: str, call: str, at: int) -> str:
            say.write(f"{scenario} {call} {at}\n")
            return said.readline().strip()

        yield run
        say.close()


@pytest.mark.parametrize("scenario", BOTH)
def test_a_supervisor_that_dies_at_any_step(
    make_lab: MakeLab,
    doomed: Callable[[str, str, int], str],
    docker_client: docker.DockerClient,
    run_id: str,
    tmp_path: Path,
    scenario: str,
) -> None:
    def survivor() -> Lab:
        return Lab(docker_client, tmp_path / "lab", (tmp_path / "work",), run_id)

    lab = survivor()
    round_ = Round(lab)
    waits = lab.sh("echo run > .envrc")
    assert waits.judgement == "hold"
    leave(lab)
    steps, met = [], set()
    for at in itertools.count(1):
        assert at < MOST_STEPS
        said = doomed(scenario, f"k{at}", at)
        steps.append(said)
        lab = survivor()
        assert lab.read("true").exit_status == 0
        met.add(agrees(lab, scenario, f"k{at}", round_))
        round_.put_back(lab, f"k{at}")
        if said == "ended":
            break
        assert said.startswith("killed "), steps  # the fault really happened
        leave(lab)
        nothing_left(lab.dirs, lab.ws, held=True)
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
    """A fault for the next cell that starts, as only the supervisor can ask its keeper for one."""

    def __init__(self) -> None:
        self.wanted: dict[str, Any] | None = None
        self.cell = ""
        """Name of the cell whose keeper has it."""

    def happened(self, lab: Lab) -> bool:
        """Whether the keeper came to it: its cell is lost then."""
        assert self.wanted is None
        return not lives(lab, self.cell)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """Return a fault that the next keeper gets in its setup."""
    one, real = Fault(), Specs.make

    def make(specs: Specs, *arguments: Any, **more: Any) -> Any:
        made = real(specs, *arguments, **more)
        if one.wanted is not None:
            made.setup["fault"], one.wanted, one.cell = one.wanted, None, made.name
        return made

    monkeypatch.setattr(Specs, "make", make)
    return one


def new_cell(lab: Lab) -> None:
    """End the lab's cells, so that the next call gets a fresh one."""
    assert lab.supervisor._live.pool is not None
    for cell in lab.supervisor._live.pool.living():
        lab.run(lab.supervisor._live.pool.end(cell))


def begin(scenario: str, call: str, lab: Lab) -> Callable[[], object]:
    """Prepare a scenario and return the action that meets the fault."""
    change = {"derived_from": "deletes", "call_id": call}
    if scenario == "call":
        return lambda: lab.sh(CHANGE, **change)
    if scenario == "undo":
        assert lab.sh(CHANGE, **change).landed
        return lambda: lab.run(lab.supervisor.undo(call))
    assert lab.sh(HOLD, **change).judgement == "hold"
    if scenario == "part":
        return lambda: lab.run(lab.supervisor.land(call, ["new.txt"]))
    return lambda: lab.run(getattr(lab.supervisor, scenario)(call))


SETUP_STEPS = 1
"""Steps of a keeper before it is asked for anything but its setup; walked with `call`."""
KEEPER_FEWEST = {"call": 25, "undo": 12, "land": 20, "part": 10, "discard": 1}


@pytest.mark.parametrize("scenario", BOTH)
@pytest.mark.parametrize("owner", [ME])
def test_a_keeper_that_dies_at_any_step(
    make_lab: MakeLab, fault: Fault, tmp_path: Path, owner: int, scenario: str
) -> None:
    lab = make_lab(workspace(tmp_path / "work", owner))
    round_ = Round(lab)
    met: set[str] = set()
    first = 1 if scenario == "call" else SETUP_STEPS + 1
    for at in itertools.count(first):
        assert at < MOST_STEPS
        found, happened = keeper_round(lab, fault, scenario, {"at": at, "act": DIE}, round_)
        met.add(found)
        if not happened:
            break
    assert at - first > KEEPER_FEWEST[scenario]
    assert BOTH[scenario] <= met
    is_clean(lab)


def keeper_round(
    lab: Lab, fault: Fault, scenario: str, wanted: dict[str, Any], round_: Round
) -> tuple[str, bool]:
    """Meet a fault; return how the files and the record are, and whether it really happened."""
    call = f"k{wanted['at']}"
    act = begin(scenario, call, lab)
    new_cell(lab)
    fault.wanted = wanted
    said = ""
    try:
        act()
    except SandboxError as error:
        said = str(error)
    happened = fault.happened(lab)
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


@pytest.mark.parametrize("at", (4, 6, 12))
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
        cell._runner._on_frame = cell._on_runner
        cell._keeper._on_frame = cell._on_keeper


def lives(lab: Lab, name: str) -> bool:
    """Whether the supervisor takes a cell for alive."""
    return name in {cell["name"] for cell in lab.supervisor.cells()}
