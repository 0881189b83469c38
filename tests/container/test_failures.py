# SPDX-License-Identifier: Apache-2.0
"""Every failure is closed: the call fails in one clear line, nothing lands, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sandbox.containers.images import Images
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_STATE, LABEL_TEST
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.results import CallResult, Ending
from tests.conftest import cannot_run, opened_below
from tests.container.conftest import MakeLab
from tests.container.lab import (
    OWNERS,
    READ,
    WAIT_SECONDS,
    WRITE,
    Lab,
    after,
    ended,
    eventually,
    repository,
    snapshot,
    wait_for,
)

WORK = "echo new > new.txt; echo more >> README.md; echo started; sleep 266"


def interrupted(lab: Lab, act: Callable[[Lab], object], access: str = WRITE) -> BaseException:
    """Return the error of a call during which something happened from outside."""

    async def race() -> BaseException:
        heard = asyncio.Event()
        call = asyncio.ensure_future(lab.call(WORK, access, on_output=lambda *_: heard.set()))
        await heard.wait()
        await asyncio.to_thread(act, lab)
        return await ended(call)

    return lab.run(race())


def outside_pid(lab: Lab, what: str) -> int:
    """Return the pid, on the host, of a container's first process."""
    container = lab.cell if what == "runner" else lab.keeper
    container.reload()
    return int(container.attrs["State"]["Pid"])


ATTACKS: dict[str, Callable[[Lab], object]] = {
    "the cell is killed": lambda lab: lab.cell.kill(),
    "the cell is stopped politely": lambda lab: lab.cell.stop(timeout=0),
    "the cell is removed": lambda lab: lab.cell.remove(force=True),
    "the keeper is killed": lambda lab: lab.keeper.kill(),
    "the keeper is removed": lambda lab: lab.keeper.remove(force=True),
    "the runner's process is killed": lambda lab: os.kill(outside_pid(lab, "runner"), 9),
    "the keeper's process is killed": lambda lab: os.kill(outside_pid(lab, "keeper"), 9),
}


@pytest.mark.parametrize("access", [READ, WRITE])
@pytest.mark.parametrize("act", ATTACKS.values(), ids=ATTACKS)
def test_a_cell_that_is_lost_fails_its_call_and_nothing_lands(
    lab: Lab, act: Callable[[Lab], object], access: str
) -> None:
    before = snapshot(lab.ws)
    try:
        error = interrupted(lab, act, access)
    except PermissionError:
        cannot_run("processes of containers belong to somebody else here")
    assert isinstance(error, SandboxError)
    assert "is gone: the " in str(error)
    assert str(error).endswith("; nothing landed")
    assert "\n" not in str(error)
    assert snapshot(lab.ws) == before
    wait_for(lambda: lab.containers() == [], "nothing is left of the pair")
    done = lab.sh("echo again > again.txt; ls new.txt")  # a fresh cell takes the next call
    assert (done.exit_status, done.landed) == (2, True)
    failed = lab.supervisor._record.store.calls()[1]
    assert (failed.ending, failed.landed) == ("failed", False)


def test_a_background_call_whose_cell_is_lost_is_reported(lab: Lab) -> None:
    started = lab.sh("sleep 267", run_in_background=True)
    for one in lab.containers("cell"):
        one.kill()
    error = lab.run(ended(lab.supervisor.end(started.id)))
    assert "nothing landed" in str(error)


def test_a_workspace_that_is_renamed_during_a_call_gets_nothing_at_its_old_path(lab: Lab) -> None:
    moved = lab.ws.with_name("moved")

    async def race() -> object:
        heard = asyncio.Event()

        def act(_stream: str, _data: bytes) -> None:
            lab.ws.rename(moved)
            heard.set()

        call = asyncio.ensure_future(
            lab.call(
                "echo new > new.txt; echo started; read x",
                stdin=after(heard),
                on_output=act,
            )
        )
        return (await asyncio.gather(call, return_exceptions=True))[0]

    lab.run(race())
    assert not lab.ws.exists()
    with pytest.raises(BadInput, match="No such file or directory"):
        lab.sh("true")
    moved.rename(lab.ws)
    assert lab.read("cat README.md").stdout == lab.text("README.md")


def test_a_workspace_that_is_removed_during_a_call_is_one_clear_line(lab: Lab) -> None:
    async def race() -> object:
        heard = asyncio.Event()

        def act(_stream: str, _data: bytes) -> None:
            shutil.rmtree(lab.ws)
            heard.set()

        call = asyncio.ensure_future(
            lab.call("echo new > new.txt; echo started; read x", stdin=after(heard), on_output=act)
        )
        return (await asyncio.gather(call, return_exceptions=True))[0]

    found = lab.run(race())
    if isinstance(found, BaseException):
        assert isinstance(found, SandboxError)
        assert "\n" not in str(found)
    assert not (lab.ws / "new.txt").exists()
    with pytest.raises(BadInput, match="No such file or directory"):
        lab.sh("true")


def test_another_folder_at_the_path_of_a_workspace_is_not_written_through_an_old_cell(
    lab: Lab,
) -> None:
    assert lab.sh("echo one > one.txt").landed
    old = lab.ws.with_name("old")
    lab.ws.rename(old)
    lab.ws.mkdir()
    (lab.ws / "here.txt").write_text("here\n")
    done = lab.sh("cat here.txt; echo two > two.txt")
    assert (done.stdout, done.landed, lab.text("two.txt")) == ("here\n", True, "two\n")
    assert not (old / "two.txt").exists()


async def _result(work: Awaitable[CallResult]) -> CallResult | BaseException:
    return (await asyncio.gather(work, return_exceptions=True))[0]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a small tmpfs as a workspace."""
    made: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"mounted{len(made)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True
        )
        if done.returncode:
            cannot_run("only root can mount")
        made.append(place)
        return place

    yield mount
    for place in made:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_workspace_on_another_file_system_works_or_is_refused_in_one_line(
    make_lab: MakeLab, mounted: Callable[[str], Path], owner: int
) -> None:
    place = mounted("size=64m")
    lab = make_lab(repository(place / "w", owner))
    done = lab.sh("echo new > new.txt; git status --short")
    assert (done.stdout, done.landed) == ("?? new.txt\n", True)
    lab.run(lab.supervisor.undo(done.id))
    assert not (lab.ws / "new.txt").exists()


def test_a_full_disk_lands_nothing_and_loses_nothing(
    make_lab: MakeLab, mounted: Callable[[str], Path], owner: int
) -> None:
    lab = make_lab(repository(mounted("size=8m") / "w", owner))
    before = snapshot(lab.ws)
    found = lab.run(
        _result(lab.call("echo small > a.txt; echo x > README.md; head -c 20M /dev/zero > big.bin"))
    )
    assert isinstance(found, CallResult)
    assert (found.judgement, found.landed) == ("hold", False)
    assert "the keeper could not land: nothing was changed: the disk is full" in found.message
    assert snapshot(lab.ws) == before
    assert lab.sh("echo small > a.txt").landed


def test_a_full_layer_ends_the_command_and_not_the_cell(lab: Lab) -> None:
    done = lab.sh("head -c 10M /dev/full > /dev/null; echo x > /dev/full; echo $?")
    assert done.stdout == "1\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_a_workspace_that_is_mounted_read_only_is_readable_and_refuses_landings(
    make_lab: MakeLab, tmp_path: Path, owner: int
) -> None:
    folder = repository(tmp_path / "ro", owner)
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        cannot_run("only root can mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        lab = make_lab(folder)
        read = lab.run(_result(lab.call("cat README.md", READ)))
        write = lab.run(_result(lab.call("echo x > new.txt")))
        for one in (read, write):
            if isinstance(one, BaseException):
                assert isinstance(one, SandboxError)
                assert "\n" not in str(one)
                assert "ead-only file system" in str(one)
        assert isinstance(write, SandboxError)
        assert not (folder / "new.txt").exists()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_workspace_that_its_owner_may_not_write_is_not_written(lab: Lab) -> None:
    (lab.ws / "closed").mkdir()
    (lab.ws / "closed" / "f").write_text("old\n")
    (lab.ws / "closed").chmod(0o555)
    (lab.ws / "closed" / "f").chmod(0o444)
    done = lab.sh("echo x > closed/f; echo x > closed/new; rm -f closed/f")
    assert done.stderr.count("Permission denied") == 3
    assert (done.changes, lab.text("closed/f")) == ((), "old\n")


DEAD = """
import asyncio, sys
from pathlib import Path
import sandbox.gates.gate1
from tests.container import lab as labs
from sandbox.containers.endpoints import connect
sandbox.gates.gate1.decide = labs.decide
sandbox.gates.gate1.wants_second_opinion = lambda *_: False
root = Path(sys.argv[1])
one = labs.Lab(connect(), root / "lab", (root / "work",), sys.argv[2])
one.sh("echo warm")
print("ready", flush=True)
one.sh(f"echo lost > lost.txt; setsid sleep {sys.argv[3]} & sleep {sys.argv[3]}")
"""


@pytest.fixture
def killed(
    tmp_path: Path, run_id: str, docker_client: object, images: object
) -> Iterator[Callable[[int], None]]:
    """Return a function that runs a supervisor in a process of its own and kills it mid-call."""
    repository(tmp_path / "work", os.geteuid())
    program = tmp_path / "dead.py"
    program.write_text(DEAD)
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]

    def run(number: int) -> None:
        with subprocess.Popen(
            [sys.executable, str(program), str(tmp_path), run_id, _lasting(run_id)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            wait_for(lambda: _sleepers(run_id) > 0, "the call runs")
            process.send_signal(number)
            process.wait(WAIT_SECONDS)

    yield run


def _lasting(run_id: str) -> str:
    """Return how long to sleep, so that no other run's sleepers are taken for ours."""
    return f"268.{int(run_id, 16)}"


def _sleepers(run_id: str) -> int:
    wanted = f"sleep\0{_lasting(run_id)}\0".encode()
    found = 0
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += one.read_bytes() == wanted
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_nothing_runs_on_when_the_supervisor_dies(
    make_lab: MakeLab, killed: Callable[[int], None], tmp_path: Path, run_id: str, number: int
) -> None:
    before = snapshot(tmp_path / "work")
    killed(number)
    wait_for(lambda: _sleepers(run_id) == 0, "the call's processes are gone")
    lab = make_lab(tmp_path / "work", root=tmp_path / "lab")
    wait_for(lambda: lab.containers() == [], "the containers are gone")
    assert snapshot(tmp_path / "work") == before
    done = lab.sh("ls lost.txt; echo next > next.txt")
    assert (done.exit_status, done.landed) == (0, True)
    assert "No such file" in done.stderr
    assert lab.supervisor._record.store.verify() is None


def test_containers_of_an_owner_that_is_gone_are_swept_and_others_stay(
    make_lab: MakeLab, images: Images, run_id: str
) -> None:
    lab = make_lab()
    state = state_label(lab.dirs)

    def leftover(owner: str) -> str:
        return str(
            lab.client.containers.run(
                images.cell,
                entrypoint=["sleep", "269"],
                detach=True,
                network_mode="none",
                labels={
                    LABEL_STATE: state,
                    LABEL_TEST: run_id,
                    "org.lockgate.owner": owner,
                    "org.lockgate.role": "cell",
                },
            ).id
        )

    mine = psutil.Process()
    dead = [leftover("999999999:1.00"), leftover(f"{mine.pid}:1.00"), leftover("nonsense")]
    alive = leftover(f"{mine.pid}:{mine.create_time():.2f}")
    lab.sh("true")
    left = {str(one.id) for one in lab.containers()}
    assert not left & set(dead)
    assert alive in left
    lab.client.containers.get(alive).remove(force=True)


def test_a_call_is_recorded_before_it_runs_and_when_it_has_ended(lab: Lab) -> None:
    seen: list[list[str]] = []

    def look(_stream: str, _data: bytes) -> None:
        lines = lab.supervisor._record.store.log.read_text().splitlines()
        seen.append([json.loads(line)["event"] for line in lines])

    lab.sh("echo x", on_output=look)
    assert seen == [["decided"]]
    lab.run(lab.supervisor._record.flush())
    look("", b"")
    assert seen[1] == ["decided", "ended"]


def test_a_log_that_cannot_be_written_lets_nothing_run(lab: Lab) -> None:
    assert lab.sh("true").ending is Ending.RAN
    lab.run(lab.supervisor._record.flush())
    store = lab.supervisor._record.store
    assert store.audit._fd is not None
    read_only = os.open(store.log, os.O_RDONLY)
    os.dup2(read_only, store.audit._fd)
    os.close(read_only)
    for access in (READ, WRITE):
        error = lab.run(ended(lab.call("echo ran; echo x > ran.txt", access)))
        assert "cannot be written" in str(error)
    assert not (lab.ws / "ran.txt").exists()


def test_an_engine_that_is_away_is_one_clear_line(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise Unavailable("no engine answers")

    lab = make_lab()
    monkeypatch.setattr("sandbox.cells.pool.connect", none)
    with pytest.raises(Unavailable, match=r"^no engine answers$"):
        lab.sh("true")
    monkeypatch.undo()


def test_two_supervisors_share_a_state_folder(make_lab: MakeLab, tmp_path: Path) -> None:
    first = make_lab()
    second = make_lab(first.ws, root=tmp_path / "lab0")
    assert first.sh("echo one > one.txt").landed
    done = second.sh("cat one.txt; echo two > two.txt")
    assert (done.stdout, done.landed) == ("one\n", True)
    assert first.read("cat two.txt").stdout == "two\n"
    assert len(first.containers("cell")) == 2  # neither sweeps the other's
    first.run(first.supervisor.undo(done.id))
    assert not (first.ws / "two.txt").exists()
    assert first.supervisor._record.store.verify() is None


def test_idle_cells_end_and_busy_ones_do_not(lab: Lab) -> None:
    async def idle() -> tuple[int, str]:
        heard = asyncio.Event()
        call = asyncio.ensure_future(
            lab.call("echo x; read x; echo done", READ, stdin=after(heard), agent="busy")
        )
        await lab.call("true", READ, agent="idle")
        await eventually(lambda: len(lab.containers("cell")) == 2, "both run")
        pool = lab.supervisor._live.pool
        assert pool is not None
        later = asyncio.get_running_loop().time() + 10_000
        async with asyncio.timeout(WAIT_SECONDS):  # the engine may list a removed one for a moment
            while (count := len(await asyncio.to_thread(lab.containers, "cell"))) > 1:
                await pool.end_idle(now=later)
        await pool.end_idle(now=later)
        count = len(await asyncio.to_thread(lab.containers, "cell"))
        heard.set()
        return count, (await call).stdout

    assert lab.run(idle()) == (1, "x\ndone\n")


def test_a_tree_too_deep_to_be_listed_is_discarded_and_the_next_call_works(lab: Lab) -> None:
    deep = 'python3 -c \'import os\nfor _ in range(310): os.mkdir("d"); os.chdir("d")\''
    done = lab.sh(deep)
    assert (done.judgement, done.landed) == ("discard", False)
    assert "nested deeper than 300" in done.message
    assert lab.read("cat README.md").exit_status == 0
    assert not (lab.ws / "d").exists()


def test_a_cell_that_has_ended_leaves_no_descriptor_open(lab: Lab) -> None:
    def background() -> None:
        started = lab.sh("echo it > new.txt; sleep 266", run_in_background=True)
        lab.run(lab.supervisor.end(started.id))

    def sockets() -> int:
        found = 0
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the listing itself
                found += str(entry.readlink()).startswith("socket:")
        return found

    for _ in range(2):  # the client of the engine keeps a few connections
        background()
    gc.collect()
    gc.disable()  # nobody knows when that comes
    try:
        before = sockets()
        rounds = 6
        for _ in range(rounds):
            background()
        assert sockets() < before + rounds  # each cell had two
    finally:
        gc.enable()
    assert opened_below(lab.ws) == []
