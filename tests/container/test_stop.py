# SPDX-License-Identifier: Apache-2.0
"""The emergency stop over real cells: no process is left when it returns, whatever goes on."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import docker
import pytest

from sandbox.audit.store import Store
from sandbox.calls.supervisor import Supervisor
from sandbox.containers.engine import Engine
from sandbox.containers.images import Images
from sandbox.containers.ledger import ContainerNotes, Note, state_label
from sandbox.containers.plan import LABEL_AGENT, LABEL_CELL, LABEL_ROLE, LABEL_STATE
from sandbox.containers.progress import SilentProgress
from sandbox.errors import SandboxError, Stopped
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.processes.table import Host
from sandbox.results import CallResult, StopReport
from sandbox.setup.bootstrap import Place, start
from sandbox.setup.bootstrap import stop as stop_engine
from sandbox.stopping.stop import stop_all
from sandbox.workspaces.registry import Registry as Workspaces
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab
from tests.container.lab import (
    READ,
    WAIT_SECONDS,
    WRITE,
    Lab,
    ended,
    eventually,
    snapshot,
    wait_for,
)
from tests.evasions import EVASIONS, Evasion, command, marked
from tests.fakes import lines_of

LONG = "sleep 261"


def inside(dirs: Dirs, identities: set[str] | None = None) -> dict[int, str]:
    """Return the processes on this host that are in containers of a state folder."""
    wanted = set(ContainerNotes(dirs).all()) if identities is None else identities
    host = Host()
    table = host.table()
    return {
        pid: host.command(pid)
        for pid, identity in host.containers(table).items()
        if identity in wanted and not table[pid].ended
    }


def started(lab: Lab, script: str, access: str = READ, **fields: Any) -> asyncio.Task[CallResult]:
    """Start a call and wait until it says `ready`."""

    async def begin() -> asyncio.Task[CallResult]:
        heard = asyncio.Event()
        task = asyncio.ensure_future(
            lab.call(script, access, on_output=lambda *_: heard.set(), **fields)
        )
        waiting = asyncio.ensure_future(heard.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        return task

    return lab.run(begin())


# every way to outlive its call


def test_a_stop_ends_every_way_to_stay_in_a_cell(lab: Lab) -> None:
    mark = f"lgmark{uuid.uuid4().hex[:10]}"
    marks = {what: f"{mark}x{number:02}" for number, what in enumerate(EVASIONS)}
    calls = []
    for what, one in EVASIONS.items():
        script = f"echo ready\n{command(one, marks[what], '/tmp/beat')}\n{LONG}"
        calls.append(started(lab, script))
    expected = {
        what: one
        for what, one in EVASIONS.items()
        if not (one.beats or one.refused_in_cells or one.late)
    }
    wait_for(lambda: all(marked(marks[what]) for what in expected), "all of them run")
    wait_for(lambda: lab.look("cat /tmp/beat"), "the thread goes on")
    refused = [what for what, one in EVASIONS.items() if one.refused_in_cells]
    assert not [what for what in refused if _started_by(marks[what])]
    identities = set(ContainerNotes(lab.dirs).all())
    assert len(inside(lab.dirs)) > len(EVASIONS)

    report = stop_all(lab.dirs, "a test")
    assert inside(lab.dirs, identities) == {}
    assert marked(mark) == []
    assert report.left == ()
    assert [line.split(" ")[0] for line in report.killed] == ["cell"]
    for call in calls:
        assert isinstance(lab.run(ended(call)), SandboxError)


def _started_by(mark: str) -> list[str]:
    """Return what runs under the mark beside the shell that tried to start it."""
    words = [Host().command(pid) for pid in marked(mark)]
    return [text for text in words if text.startswith(mark)]


@pytest.mark.parametrize(
    "evasion",
    [one for one in EVASIONS.values() if not one.refused_in_cells],
    ids=[what for what, one in EVASIONS.items() if not one.refused_in_cells],
)
def test_a_plain_kill_of_the_parent_ends_none_of_them_in_a_container(
    weak: Callable[[str], str], evasion: Evasion
) -> None:
    script = command(evasion, "@@", "/tmp/beat")
    # Neither what starts it nor what looks for it shows the mark.
    hidden = base64.b64encode(script.encode()).decode()
    counts = "grep -lz -- '[@]@' /proc/[0-9]*/cmdline | wc -l"
    looks = "wc -c < /tmp/beat" if evasion.beats else counts
    more = f"[ $({looks}) -gt ${{A:-0}} ]" if evasion.beats else f"[ $({looks}) -gt 0 ]"
    begun = "[ $(grep -lzx sleep /proc/[0-9]*/cmdline | wc -l) -gt 0 ]" if evasion.late else more
    runs, lives = (
        f"for i in $(seq 1200); do {it} 2>/dev/null && break; sleep 0.05; done"
        for it in (begun, more)
    )
    least = "$A" if evasion.beats else "0"
    shown = weak(
        f"echo {hidden} | base64 -d > /tmp/inner.sh\n"
        "bash -c 'bash /tmp/inner.sh; true' & P=$!\n"
        f"{runs}; kill -9 $P; wait $P\n"
        f"A=$({looks}); {lives}\n"
        # One that hops is missed by a look now and then.
        f"for i in $(seq 400); do B=$({looks}); [ $B -gt {least} ] && break; sleep 0.03; done\n"
        "echo survived $A $B"
    )
    _, before, after = shown.split()[-3:]
    assert int(after) > int(before) if evasion.beats else int(after) > 0, shown


@pytest.mark.parametrize("access", [READ, WRITE])
def test_a_fork_bomb_is_ended(lab: Lab, access: str) -> None:
    call = started(lab, "echo ready; b() { b | b & }; b; sleep 260", access)
    wait_for(lambda: len(inside(lab.dirs)) > 200, "it has spread")
    identities = set(ContainerNotes(lab.dirs).all())
    report = stop_all(lab.dirs, "a test")
    assert inside(lab.dirs, identities) == {}
    assert report.left == ()
    assert isinstance(lab.run(ended(call)), SandboxError)


# whom it reaches


def test_a_stop_of_one_agent_ends_its_cells_alone(lab: Lab) -> None:
    for agent in ("one", "one:sub", "two"):
        started(lab, f"echo ready; {LONG}", agent=agent)
    notes = ContainerNotes(lab.dirs).all().values()
    assert {one.agent for one in notes} == {"one", "one:sub", "two"}
    ours = {one.id for one in notes if one.agent != "two"}
    theirs = {one.id for one in notes if one.agent == "two"}
    others = inside(lab.dirs, theirs)
    report = stop_all(lab.dirs, "a test", agent="one")
    assert inside(lab.dirs, ours) == {}
    assert report.left == ()
    assert (
        sorted(line.split(" of ")[1].split(":")[0] for line in report.killed)
        == [
            "agent one",
            "agent one",
        ]
        or len(report.killed) == 2
    )
    assert others
    assert set(inside(lab.dirs)) >= set(others)  # it may have gone on to start more
    with pytest.raises(Stopped, match="agent `one` was stopped"):
        lab.read("true", agent="one:sub")
    assert lab.read("echo on", agent="two").stdout == "on\n"
    Latch(lab.dirs).clear("one")
    assert lab.read("echo again", agent="one").stdout == "again\n"


def test_a_call_that_a_stop_ended_says_so(lab: Lab) -> None:
    task = started(lab, f"echo ready; {LONG}", WRITE, agent="one")
    other = started(lab, f"echo ready; {LONG}", WRITE, agent="two")
    stop_all(lab.dirs, "a test", agent="one")
    with pytest.raises(Stopped, match=r"agent `one` was stopped at .*: a test"):
        lab.run(asyncio.wait_for(task, WAIT_SECONDS))
    for identity, note in ContainerNotes(lab.dirs).all().items():
        if (note.agent, note.role) == ("two", "cell"):  # the control: it is lost without a stop
            docker.from_env().containers.get(identity).kill()
    with pytest.raises(SandboxError, match="is gone") as lost:
        lab.run(asyncio.wait_for(other, WAIT_SECONDS))
    assert not isinstance(lost.value, Stopped)
    endings = {str(one.agent): one.ending for one in Store(lab.dirs).calls()}
    assert endings["one"] == "cancelled"


# at every step of a call

CHANGE = "echo changed > README.md; echo new > new.txt; echo ready"
STEPS: dict[str, tuple[str, str]] = {
    "gate 1": ("sandbox.gates.gate1.Gate1", "decide"),
    "connecting": ("sandbox.cells.pool.CellPool", "connect"),
    "making a container": ("sandbox.containers.engine.Engine", "create"),
    "starting a container": ("sandbox.containers.engine.Engine", "start"),
    "attaching to a container": ("sandbox.containers.engine.Engine", "attach"),
    "starting a cell": ("sandbox.cells.cell.Cell", "start"),
    "opening": ("sandbox.cells.transaction.Transaction", "__aenter__"),
    "running": ("sandbox.cells.cell.Cell", "run"),
    "closing": ("sandbox.cells.transaction.Transaction", "close"),
    "landing": ("sandbox.cells.transaction.Transaction", "land"),
    "leaving": ("sandbox.cells.transaction.Transaction", "__aexit__"),
}


class Stopping:
    """Stops once, before or after a method, and notes what runs when the stop returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str, name: str, when: str) -> None:
        self.dirs: Dirs | None = None
        self.report: StopReport | None = None
        self.left: dict[int, str] = {}
        module, _, kind = place.rpartition(".")
        owner = getattr(sys.modules[module], kind)
        wrapped = owner.__dict__[name]
        function = getattr(wrapped, "__func__", wrapped)

        def act() -> None:
            if self.dirs is None or self.report is not None:
                return
            known = set(ContainerNotes(self.dirs).all())
            self.report = stop_all(self.dirs, f"{when} {name}")
            known |= set(ContainerNotes(self.dirs).all())
            self.left = inside(self.dirs, known)

        async def waited(*args: Any, **options: Any) -> Any:
            if when == "before":
                await asyncio.to_thread(act)
            result = await function(*args, **options)
            if when == "after":
                await asyncio.to_thread(act)
            return result

        def direct(*args: Any, **options: Any) -> Any:
            if when == "before":
                act()
            result = function(*args, **options)
            if when == "after":
                act()
            return result

        new: Any = waited if asyncio.iscoroutinefunction(function) else direct
        monkeypatch.setattr(owner, name, classmethod(new) if wrapped is not function else new)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place, name", STEPS.values(), ids=STEPS)
def test_a_stop_during_each_step_of_a_call(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, place: str, name: str, when: str
) -> None:
    lab = make_lab()
    stopping = Stopping(monkeypatch, place, name, when)
    stopping.dirs = lab.dirs
    before = snapshot(lab.ws)

    async def call() -> CallResult | BaseException:
        try:
            return await asyncio.wait_for(lab.call(CHANGE), WAIT_SECONDS)
        except SandboxError as error:
            return error

    outcome = lab.run(call())
    assert stopping.report is not None
    assert stopping.report.left == ()
    assert stopping.left == {}
    lab.run(eventually(lambda: not inside(lab.dirs), "nothing starts after it"))
    lab.run(lab.supervisor._record.flush())
    known = next(iter(lab.supervisor._record.store.calls()), None)
    landed = isinstance(outcome, CallResult) and outcome.landed
    assert lab.text("README.md") == ("changed\n" if landed else "Hello\nworld\nagain\n")
    assert (lab.ws / "new.txt").exists() is landed
    if known is not None:
        assert bool(known.landed) is landed
    if landed:
        assert known is not None
        lab.run(lab.supervisor.undo(known.id))
    assert snapshot(lab.ws) == before
    with pytest.raises(Stopped):
        lab.read("true")


def test_what_has_landed_is_undone_while_all_is_stopped_and_what_is_held_is_kept(lab: Lab) -> None:
    first = lab.sh("echo one > one.txt")
    held = lab.sh("rm README.md")
    assert (first.landed, held.judgement) == (True, "hold")
    report = lab.run(lab.supervisor.stop("a test"))
    assert report.rollback == (f"lockgate undo {first.id}",)
    assert report.held == (f"lockgate show {held.id}",)
    assert report.last == (
        f"{held.id} rm README.md: ran",
        f"{first.id} echo one > one.txt: ran",
    )
    lab.run(lab.supervisor.undo(first.id))
    assert not (lab.ws / "one.txt").exists()
    lab.run(eventually(lambda: not inside(lab.dirs), "no cell stands after the undo"))
    with pytest.raises(Stopped):
        lab.run(lab.supervisor.land(held.id))
    Latch(lab.dirs).clear()
    assert lab.run(lab.supervisor.land(held.id)).landed
    assert not (lab.ws / "README.md").exists()


def test_a_file_that_is_made_by_hand_stops(lab: Lab) -> None:
    call = started(lab, f"echo ready; {LONG}")
    identities = set(ContainerNotes(lab.dirs).all())
    assert inside(lab.dirs)
    (lab.dirs.state / "STOP").touch()
    lab.run(eventually(lambda: not inside(lab.dirs, identities), "the supervisor notices it"))
    assert isinstance(lab.run(ended(call)), SandboxError)
    with pytest.raises(Stopped, match=r"stopped at \d.*: set by hand; a person clears it"):
        lab.read("true")
    lab.run(
        eventually(
            lambda: any(r["event"] == "stop" for r in lines_of(lab.supervisor._record.store)),
            "it is recorded",
        )
    )


# supervisors that are of no help


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_stop_needs_no_supervisor(
    docker_client: docker.DockerClient, images: Images, tmp_path: Path, number: signal.Signals
) -> None:
    root = Path(mkdtemp(prefix="lgd-"))
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(root / "s"),
        "XDG_CONFIG_HOME": str(root / "c"),
        "XDG_RUNTIME_DIR": str(root),
    }
    dirs = Dirs(root / "s/lockgate", root / "c/lockgate", root / "lockgate")
    lockgate = [sys.executable, "-m", "sandbox.cli.main"]
    work = tmp_path / "work"
    work.mkdir()

    def run(*words: str) -> str:
        done = subprocess.run(
            [*lockgate, *words], env=env, cwd=work, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    supervisor = None
    try:
        Workspaces(dirs.create()).add(work, approved=True)
        shown = run("run", "--background", "--", "sleep", "267")
        assert shown.startswith("c"), shown
        wait_for(lambda: any("sleep 267" in one for one in inside(dirs).values()), "it runs")
        pid = int((dirs.lock).read_text().split('"pid": ')[1].split(",")[0])
        supervisor = Host().process(pid)
        assert supervisor is not None
        identities = set(ContainerNotes(dirs).all())
        Host().send(supervisor.known, number)
        report = stop_all(dirs, "a test")
        assert inside(dirs, identities) == {}
        assert report.left == ()
    finally:
        if supervisor is not None:
            Host().send(supervisor.known, signal.SIGKILL)
        engine = Engine(docker_client, state_label(dirs))
        for one in engine.containers():
            engine.remove(one["Id"])
        engine.remove_volume(f"lockgate-layers-{engine.state}")
        shutil.rmtree(root, ignore_errors=True)


def test_a_call_after_a_stop_by_a_dead_setter_is_swept_by_the_supervisor(lab: Lab) -> None:
    started(lab, f"echo ready; {LONG}")
    identities = set(ContainerNotes(lab.dirs).all())
    script = (
        "import sys; from pathlib import Path; from sandbox.host.dirs import Dirs; "
        "from sandbox.host.latch import Latch; "
        "Latch(Dirs.under(Path(sys.argv[1]))).set('it died')"
    )
    subprocess.run([sys.executable, "-c", script, str(lab.dirs.state.parent)], check=True)
    lab.run(eventually(lambda: not inside(lab.dirs, identities), "the supervisor sweeps"))


# an engine that hangs


def tiny_image(client: docker.DockerClient) -> str:
    """Make an image that holds `sleep` and `sh` of this host and what they are linked to."""
    data = BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for program in ("/bin/sh", "/bin/sleep"):
            path = Path(program)
            libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
            words = [word for word in libraries.stdout.split() if word.startswith("/")]
            for name in (str(path), *words):
                if name.lstrip("/") not in tar.getnames():
                    info = tar.gettarinfo(str(Path(name).resolve()), arcname=name.lstrip("/"))
                    with Path(name).resolve().open("rb") as file:
                        tar.addfile(info, file)
    client.api.import_image_from_data(data.getvalue(), repository="lockgate-test/tiny", tag="1")
    return "lockgate-test/tiny:1"


@pytest.fixture
def second_engine() -> Iterator[tuple[docker.DockerClient, int]]:
    """Return an engine of our own, which may be hung up, and its pid."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        cannot_run("only root can start an engine of its own")
    root = Path(mkdtemp(prefix="lge-"))
    place = Place(
        socket=root / "d.sock",
        pid_file=root / "d.pid",
        exec_root=root / "x",
        # An engine without a bridge removes `docker0`, whoever made it: not the host's.
        command=(
            "unshare", "--net", "dockerd", f"--data-root={root / 'data'}", "--storage-driver=vfs",
            "--bridge=none", "--iptables=false",
        ),
        state=root,
    )  # fmt: skip
    client = start(place, SilentProgress())
    pid = int(place.pid_file.read_text())
    engine = Host().process(pid)
    assert engine is not None
    try:
        yield client, pid
    finally:
        Host().send(engine.known, signal.SIGCONT)
        for one in client.containers.list(all=True):
            one.remove(force=True)
        client.close()
        stop_engine(place)
        mounts = Path("/proc/mounts").read_text()
        for line in mounts.splitlines():
            if str(root) in line:
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.docker
def test_a_stop_ends_cells_of_an_engine_that_hangs(
    second_engine: tuple[docker.DockerClient, int], tmp_path: Path
) -> None:
    client, pid = second_engine
    dirs = Dirs.under(tmp_path / "lockgate").create()
    engine = Engine(client, state_label(dirs))
    image = tiny_image(client)
    notes = ContainerNotes(dirs)
    identities = set()
    for name in ("first", "second"):
        labels = {
            LABEL_STATE: state_label(dirs), LABEL_CELL: name, LABEL_ROLE: "cell",
            LABEL_AGENT: "main",
        }  # fmt: skip
        made = client.containers.run(
            image, ["/bin/sh", "-c", "sleep 268 & sleep 268 & sleep 268"], detach=True,
            labels=labels, network_mode="none",
        )  # fmt: skip
        identities.add(str(made.id))
        notes.add(Note(str(made.id), name, "cell", "main", local=True))
    wait_for(lambda: len(inside(dirs, identities)) == 8, "both run")
    assert len(engine.containers()) == 2
    hung = Host().process(pid)
    assert hung is not None
    Host().send(hung.known, signal.SIGSTOP)
    report = stop_all(dirs, "a test", engine=engine)
    assert inside(dirs, identities) == {}
    assert report.left == ()
    assert report.killed == (
        "cell first of agent main: 4 processes",
        "cell second of agent main: 4 processes",
    )
    assert report.notes == (
        "the container engine was not used (it did not answer in time); "
        "the processes of cells were ended on this host directly",
    )


def test_a_started_container_that_a_stop_overtook_is_ended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latch alone is set, and nobody sweeps: what is about to start does not."""
    real = Engine.start

    def start_late(self: Engine, identity: str) -> None:
        Latch(lab.dirs).set("a test")
        real(self, identity)

    monkeypatch.setattr(Engine, "start", start_late)
    assert isinstance(lab.run(ended(lab.call("true"))), Stopped)
    assert inside(lab.dirs) == {}
    wait_for(lambda: lab.containers() == [], "the container is removed")


def test_a_supervisor_that_begins_after_a_stop_starts_nothing(lab: Lab) -> None:
    Latch(lab.dirs).set("a test")

    async def begin() -> BaseException:
        async with Supervisor(lab.dirs) as other:
            return await ended(other.warm(str(lab.ws)))

    assert isinstance(lab.run(begin()), Stopped)
    assert lab.containers() == []
