# SPDX-License-Identifier: Apache-2.0
"""The same promises for every kind of cell: resident, disposable, and disposable under gVisor."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from policy.model import Limits
from sandbox.cells.pair.outcomes import CellLost
from sandbox.config.settings import CellSettings, Dirs, IdleSettings, Lifetime, Settings
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import AGENT_ID, LABEL_STATE
from sandbox.containers.runtimes import missing
from sandbox.errors import NotEnforced, Stopped
from sandbox.results import Ending
from sandbox.setup import gvisor
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab
from tests.container.lab import (
    ME,
    OWNERS,
    WAIT_SECONDS,
    Lab,
    after,
    ended,
    eventually,
    repository,
    snapshot,
    wait_for,
)
from tests.container.routes import ROUTES, Route, take

RESIDENT = Settings()
DISPOSABLE = Settings(lifetime=Lifetime.DISPOSABLE, warm=0)
GVISOR = Settings(lifetime=Lifetime.DISPOSABLE, runtime=gvisor.NAME, warm=0)
KINDS = {"resident": RESIDENT, "disposable": DISPOSABLE, "gvisor": GVISOR}
FRESH = [kind for kind in KINDS if kind != "resident"]
UNKNOWN_TO_GVISOR = ("a new path is unnamed first",)
"""Needs O_TMPFILE on a file system of the host, which gVisor refuses: the control cannot work."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, docker_client: docker.DockerClient) -> str:
    """Return the kind of cell; where gVisor must be there and is not, the test fails."""
    name = str(request.param)
    if name == "gvisor" and (problem := missing(gvisor.NAME, docker_client.info())):
        cannot_run(problem)
    return name


@pytest.fixture
def of_kind(kind: str, make_lab: MakeLab) -> Callable[..., Lab]:
    """Return a function that makes a lab with cells of this kind; keywords are settings."""

    def make(*workspaces: Path, limits: Limits | None = None, **settings: Any) -> Lab:
        wanted = KINDS[kind].model_copy(update=settings)
        return make_lab(*workspaces, settings=wanted, limits=limits)

    return make


fresh = pytest.mark.parametrize("kind", FRESH, indirect=True)


# -- landing and gate 2


@pytest.mark.parametrize("owner", OWNERS)
def test_what_a_call_changed_lands_and_is_undone(of_kind: Callable[..., Lab], owner: int) -> None:
    lab = of_kind()
    before = snapshot(lab.ws)
    done = lab.sh("echo new > made.txt; mv src moved; rm tool.sh; id -u", derived_from="deletes")
    assert (done.exit_status, done.judgement, done.landed) == (0, "land", True)
    assert int(done.stdout) == (owner or AGENT_ID) != 0
    assert lab.text("made.txt") == "new\n"
    assert (lab.ws / "made.txt").stat().st_uid == owner
    assert lab.text("moved/app.py") == "print('one')\n"
    assert not (lab.ws / "tool.sh").exists()
    lab.run(lab.supervisor.undo(done.id))
    assert snapshot(lab.ws) == before


def test_nothing_changes_while_a_call_runs(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    before = snapshot(lab.ws)

    async def work() -> None:
        heard, looked = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(
            lab.call(
                "echo changed > README.md; rm tool.sh; echo ready; read x",
                stdin=after(looked),
                on_output=lambda *_: heard.set(),
                derived_from="deletes",
            )
        )
        await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
        assert snapshot(lab.ws) == before
        looked.set()
        assert (await task).landed

    lab.run(work())
    assert lab.text("README.md") == "changed\n"


def test_gate_2_holds_and_discards(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    held = lab.sh("rm README.md")
    assert (held.judgement, held.landed) == ("hold", False)
    assert (lab.ws / "README.md").exists()
    landed = lab.run(lab.supervisor.land(held.id))
    assert landed.landed
    assert not (lab.ws / "README.md").exists()
    gone = lab.sh("echo x > t; mv t .devkit-waiver.yml")
    assert (gone.judgement, gone.landed) == ("discard", False)
    assert not (lab.ws / ".devkit-waiver.yml").exists()


def test_an_edit_meanwhile_is_a_conflict(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()

    async def work() -> Any:
        heard, edited = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(
            lab.call(
                "echo ready; read x; echo mine > README.md",
                stdin=after(edited),
                on_output=lambda *_: heard.set(),
            )
        )
        await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
        (lab.ws / "README.md").write_text("theirs\n")
        edited.set()
        return await task

    done = lab.run(work())
    assert (done.judgement, done.landed) == ("hold", False)
    assert lab.text("README.md") == "theirs\n"


@pytest.mark.parametrize("route", ROUTES.values(), ids=list(ROUTES))
@fresh
def test_the_lowest_routes_are_closed(of_kind: Callable[..., Lab], kind: str, route: Route) -> None:
    name = next(name for name, one in ROUTES.items() if one is route)
    lab = of_kind()
    assert take(lab.ws, route, protected=True, call=lab.sh)
    if kind == "gvisor" and name in UNKNOWN_TO_GVISOR:
        return
    control = of_kind()
    call = lambda command: control.sh(command, derived_from="deletes")  # noqa: E731
    assert take(control.ws, route, protected=False, call=call)


def test_a_protected_file_is_read_only_in_the_cell(of_kind: Callable[..., Lab]) -> None:
    done = of_kind().sh("echo x > devkit.config.json; echo y > README.md; echo went on")
    assert "Read-only file system" in done.stderr
    assert (done.stdout, done.landed) == ("went on\n", True)


def _mode(lab: Lab, name: str) -> int:
    return (lab.ws / name).stat().st_mode & 0o777


def test_settings_of_a_protected_file_never_land(of_kind: Callable[..., Lab]) -> None:
    """gVisor carries a chmod of a read-only mount out, for itself alone."""
    lab = of_kind()
    before = snapshot(lab.ws)
    change = "chmod 777 {0}; touch -d 2001-01-01 {0}; ln {0} second; true"
    lab.sh(change.format("devkit.config.json"))
    lab.sh("chmod 777 .git/hooks/pre-commit .git/hooks; true")
    assert snapshot(lab.ws)["devkit.config.json"] == before["devkit.config.json"]
    assert _mode(lab, ".git/hooks/pre-commit") == 0o755
    (lab.ws / "devkit.config.json").write_text("a person's")
    assert not (lab.ws / "second").exists() or lab.text("second") != "a person's"
    assert lab.sh("chmod 600 README.md").landed  # the control
    assert _mode(lab, "README.md") == 0o600


def test_a_protected_path_that_appears_ends_the_call(of_kind: Callable[..., Lab]) -> None:
    done = of_kind().sh("echo x > tmp1; mv tmp1 .devkit-waiver.yml; sleep 60; echo went on")
    assert (done.judgement, done.landed, done.stdout) == ("discard", False, "")


# -- what a cell sees


@pytest.mark.parametrize("owner", OWNERS)
def test_a_reading_call_cannot_write(of_kind: Callable[..., Lab], owner: int) -> None:
    lab = of_kind()
    before = snapshot(lab.ws)
    done = lab.read("cat README.md; echo x > new; rm -f README.md; echo y >> tool.sh")
    assert done.stdout == "Hello\nworld\nagain\n"
    assert done.stderr.count("Read-only file system") == 3
    assert snapshot(lab.ws) == before


def test_secrets_are_hidden(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    assert "planted" in lab.text(".env")
    look = "cat .env; echo .*; grep -rs planted . ; true"
    for found in (lab.read(look), lab.sh(look)):
        assert "No such file or directory" in found.stderr
        assert "planted" not in found.stdout
        assert ".env" not in found.stdout.split()
        assert ".gitignore" in found.stdout.split()
    made = lab.sh("echo MINE=1 > .env; cat .env")
    assert made.stdout == "MINE=1\n"
    assert "planted" in lab.text(".env")


PROBE = """
import ctypes, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("caps", int(status["CapEff"], 16), int(status["CapPrm"], 16), int(status["CapBnd"], 16))
print("root", os.getuid() == 0)
libc = ctypes.CDLL(None, use_errno=True)
def refused(*call):
    return libc.syscall(*call) == -1 and ctypes.get_errno() in (1, 38)
print("unshare", refused(272, 0x10000000), "keyctl", refused(250, 0, 0, 0, 0, 0),
      "mount", refused(165, b"none", b"/tmp", b"tmpfs", 0, 0), "bpf", refused(321, 0, 0, 0))
try:
    socket.create_connection(("192.0.2.1", 80), 3)
    print("network")
except OSError as error:
    print("no network", type(error).__name__ != "TimeoutError")
for name in ("/", "/usr", "/etc", "/cell"):
    try:
        open(name + "/probe", "w")
        print("wrote", name)
    except OSError:
        pass
print(sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else ["lo"])
"""


def test_a_cell_has_no_capability_no_network_and_a_read_only_root(
    of_kind: Callable[..., Lab],
) -> None:
    lab = of_kind()
    (lab.ws / "probe.py").write_text(PROBE)
    done = lab.sh("python3 probe.py")
    assert done.stdout == (
        "caps 0 0 0\nroot False\nunshare True keyctl True mount True bpf True\n"
        "no network True\n['lo']\n"
    ), done.stderr


@fresh
def test_a_cell_has_no_mount_of_the_host_but_its_view(
    of_kind: Callable[..., Lab], kind: str
) -> None:
    lab = of_kind()

    async def work() -> list[dict[str, Any]]:
        task = asyncio.ensure_future(lab.call("sleep 300"))
        await eventually(lambda: lab.containers("cell"), "a cell is there")
        found = await asyncio.to_thread(lambda: lab.cell.attrs["Mounts"])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return list(found)

    mounts = [one for one in lab.run(work()) if one["Type"] != "tmpfs"]
    if kind == "disposable":
        assert mounts == []
    else:
        (view,) = mounts
        assert (view["Destination"], view["Type"]) == (str(lab.ws), "bind")
        assert view["Source"].endswith("-views/_data/0")


# -- nothing of one call is seen by the next


@fresh
def test_nothing_of_one_call_is_there_for_the_next(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    lab.sh("echo t > /tmp/left; echo h > ~/left; (setsid sleep 300 &) ; echo x > landed.txt")
    look = "cat landed.txt; cat /tmp/left ~/left; grep -als 'sleep' /proc/[0-9]*/cmdline; echo END"
    found = lab.read(look)
    assert found.stdout.splitlines()[0] == "x"  # what landed is
    assert found.stderr.count("No such file or directory") == 2
    seen = found.stdout.splitlines()[1:-1]
    assert len(seen) <= 1  # the command itself says `sleep`


def test_a_resident_cell_keeps_its_home(make_lab: MakeLab) -> None:
    """The control of the test above; a reading call has another home, which nobody can write."""
    lab = make_lab(settings=RESIDENT)
    lab.sh("echo t > /tmp/left; echo h > ~/left")
    assert lab.sh("cat /tmp/left ~/left").stdout == "t\nh\n"
    assert lab.read("cat /tmp/left ~/left").stdout == "t\n"


@fresh
def test_calls_of_one_agent_run_at_the_same_time(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()

    async def work() -> list[Any]:
        wait = "echo {0} > {0}.txt; sleep 300"
        one, two = (asyncio.ensure_future(lab.call(wait.format(n))) for n in ("a", "b"))
        await eventually(lambda: len(lab.containers("cell")) == 2, "two cells are there")
        for task in (one, two):
            task.cancel()
        await asyncio.gather(one, two, return_exceptions=True)
        return await asyncio.gather(*(landed(n) for n in ("a", "b")))

    async def landed(name: str) -> bool:
        """Whether a call lands: on a busy machine one may be held, unwatched, and is made again."""
        for _ in range(3):
            if (await lab.call(f"echo {name} > {name}.txt")).landed:
                return True
        return False

    assert all(lab.run(work()))
    assert (lab.text("a.txt"), lab.text("b.txt")) == ("a\n", "b\n")


# -- input, output, limits, endings


def test_input_output_status_and_tools(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    data = bytes(range(256)) * 4000
    heard = bytearray()
    done = lab.sh(
        "cat; echo err >&2; exit 7",
        stdin=data,
        on_output=lambda stream, part: heard.extend(part) if stream == "stdout" else None,
    )
    assert (done.exit_status, done.stderr, bytes(heard)) == (7, "err\n", data)
    assert lab.tool("Write", file_path="w.txt", content="written\n").landed
    assert "written" in lab.tool("Read", file_path="w.txt").stdout
    edited = lab.tool("Edit", file_path="w.txt", old_string="written", new_string="edited")
    assert (edited.landed, lab.text("w.txt")) == (True, "edited\n")
    assert lab.sh("kill -9 $$").exit_status == 137


def test_the_time_limit_and_a_flood_end_a_call(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind(limits=Limits(output_bytes=100_000))
    slow = lab.sh("echo before; (setsid sleep 300 &); sleep 300", timeout=1000)
    if not slow.stdout:  # a busy machine had not begun it by then
        slow = lab.sh("echo before; (setsid sleep 300 &); sleep 300", timeout=30_000)
    assert (slow.ending, slow.exit_status, slow.stdout) == (Ending.TIMED_OUT, 124, "before\n")
    flood = lab.sh("yes")
    assert flood.ending is Ending.FLOODED
    assert lab.sh("echo alive").stdout == "alive\n"


def test_memory_and_processes_are_limited(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind(cell=CellSettings(memory_mib=256, pids=64))
    hog = "python3 -c 'a = bytearray({} << 20); print(len(a))'"
    assert lab.sh(hog.format(32)).stdout == f"{32 << 20}\n"
    try:
        done = lab.sh(hog.format(600))
    except CellLost:  # a sandbox with a kernel of its own ends as a whole
        pass
    else:
        assert (done.exit_status, done.stdout) == (137, "")
    many = "for i in $(seq 200); do sleep 20 & done; wait"
    try:
        done = lab.sh(many, timeout=15_000)
    except CellLost:
        pass
    else:
        assert "Resource temporarily unavailable" in done.stderr or done.exit_status != 0
    assert lab.sh("echo alive").stdout == "alive\n"


def test_a_background_call_runs_and_lands_when_it_is_ended(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()

    async def work() -> Any:
        script = "echo made > made.txt; echo ready; sleep 300"
        begun = await lab.call(script, run_in_background=True)
        assert begun.ending is Ending.RUNNING
        while "ready" not in (await lab.supervisor.peek(begun.id))["stdout"]:
            await asyncio.sleep(0.05)
        beside = await lab.call("echo beside > beside.txt")
        assert beside.landed
        assert not (lab.ws / "made.txt").exists()
        return await lab.supervisor.end(begun.id)

    done = lab.run(work())
    assert (done.ending, done.landed) == (Ending.CANCELLED, True)
    assert lab.text("made.txt") == "made\n"


def test_a_cancelled_call_lands_nothing_and_leaves_nothing(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    before = snapshot(lab.ws)

    async def work() -> None:
        heard = asyncio.Event()
        task = asyncio.ensure_future(
            lab.call("echo x > x.txt; echo ready; sleep 300", on_output=lambda *_: heard.set())
        )
        await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)

    lab.run(work())
    assert snapshot(lab.ws) == before


def test_a_lost_cell_fails_its_call_and_nothing_lands(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()
    before = snapshot(lab.ws)

    async def work(role: str) -> BaseException:
        heard = asyncio.Event()
        task = asyncio.ensure_future(
            lab.call("echo x > x.txt; echo ready; sleep 300", on_output=lambda *_: heard.set())
        )
        await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
        for one in await asyncio.to_thread(lab.containers, role):
            await asyncio.to_thread(one.kill)
        return await ended(task)

    for role in ("cell", "keeper"):
        assert isinstance(lab.run(work(role)), CellLost)
        assert snapshot(lab.ws) == before
    assert lab.sh("echo y > y.txt").landed


def test_a_stop_ends_everything(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind()

    async def work() -> None:
        heard = asyncio.Event()
        task = asyncio.ensure_future(
            lab.call("echo x > x.txt; echo ready; sleep 300", on_output=lambda *_: heard.set())
        )
        await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
        report = await lab.supervisor.stop("a test")
        assert report.left == ()
        await asyncio.gather(task, return_exceptions=True)
        assert not isinstance(task.exception(), type(None))
        await eventually(lambda: not lab.containers(), "no container is left")
        with pytest.raises(Stopped):
            await lab.call("true")

    lab.run(work())
    assert not (lab.ws / "x.txt").exists()
    (lab.dirs.state / "STOP").unlink()
    assert lab.sh("echo again").stdout == "again\n"


DIES = """
import asyncio, sys
from pathlib import Path
from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import yes
from sandbox.config.settings import Dirs, Settings
from sandbox.containers.plan import LABEL_TEST
from sandbox.calls.supervisor import Supervisor
async def main(root, work, settings, run_id):
    said = lambda _stream, data: print("begun", flush=True)
    async with Supervisor(
        Dirs.under(Path(root)),
        workspaces=[Workspace(work)],
        settings=Settings.model_validate_json(settings),
        labels={LABEL_TEST: run_id},
    ) as one:
        params = {"command": "echo x > lost.txt; echo begun; sleep 300"}
        plan = ActionPlan(tool="Bash", workspace=work, params=params)
        await one.call(plan, approver=yes, on_output=said)
asyncio.run(main(*sys.argv[1:]))
"""


def test_nothing_is_left_of_a_supervisor_that_died(
    kind: str, make_lab: MakeLab, docker_client: docker.DockerClient, tmp_path: Path, run_id: str
) -> None:
    work = repository(tmp_path / "dies", ME)
    before = snapshot(work)
    dirs = Dirs.under(tmp_path / "state" / "lockgate")
    settings = KINDS[kind].model_copy(update={"warm": 1})
    arguments = [str(dirs.state.parent), str(work), settings.model_dump_json(), run_id]
    with subprocess.Popen(
        [sys.executable, "-c", DIES, *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        process.wait(30)
    lab = make_lab(work, root=tmp_path / "state", settings=settings.model_copy(update={"warm": 0}))
    assert state_label(lab.dirs) == state_label(dirs)
    assert lab.sh("ls lost.txt; echo next > next.txt").landed
    lab.run(lab.supervisor._live.pool.end_all())  # type: ignore[union-attr]
    wait_for(lambda: lab.containers() == [], "the containers are gone")
    label = {"label": f"{LABEL_STATE}={state_label(dirs)}"}
    wait_for(lambda: docker_client.volumes.list(filters=label) == [], "the views are gone")
    assert not any("-views/_data" in line for line in Path("/proc/mounts").read_text().split("\n")
                   if state_label(dirs) in line)  # fmt: skip
    (work / "next.txt").unlink()
    assert snapshot(work) == before


# -- the warm pool


@fresh
def test_a_ready_cell_is_used_once_and_replaced(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind(warm=1)

    def ready() -> list[str]:
        return [cell["name"] for cell in lab.supervisor.cells() if not cell["busy"]]

    async def one_is_ready() -> str:
        await eventually(lambda: len(ready()) == 1, "one cell is ready")
        return ready()[0]

    lab.run(lab.supervisor.warm(str(lab.ws)))
    first = lab.run(one_is_ready())
    assert lab.sh("echo x > x.txt; echo h > ~/h").landed
    second = lab.run(one_is_ready())
    assert second != first
    assert lab.sh("cat ~/h; cat x.txt").stdout == "x\n"


@fresh
def test_a_ready_cell_hides_what_came_after_it(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind(warm=1)
    lab.run(lab.supervisor.warm(str(lab.ws)))
    (lab.ws / "src" / ".env").write_text("TOKEN=late\n")
    assert (lab.ws / "src" / "later.txt").write_text("seen\n")
    found = lab.sh("cat src/.env src/later.txt")
    assert found.stdout == "seen\n"
    assert "No such file or directory" in found.stderr


@fresh
def test_ready_cells_that_nobody_uses_end(of_kind: Callable[..., Lab]) -> None:
    lab = of_kind(warm=1, idle=IdleSettings(cell_seconds=1))
    lab.run(lab.supervisor.warm(str(lab.ws)))
    assert len(lab.supervisor.cells()) == 1
    pool = lab.supervisor._live.pool
    assert pool is not None
    lab.run(pool.end_idle(now=time.monotonic() + 60))
    assert lab.supervisor.cells() == []
    assert lab.sh("echo on").stdout == "on\n"


# -- what is refused


def test_a_resident_cell_needs_a_runtime_that_sees_moved_mounts(
    docker_client: docker.DockerClient, make_lab: MakeLab
) -> None:
    if problem := missing(gvisor.NAME, docker_client.info()):
        cannot_run(problem)
    lab = make_lab(settings=Settings(runtime=gvisor.NAME))
    with pytest.raises(NotEnforced, match="set `lifetime: disposable` too"):
        lab.sh("true")


def test_a_runtime_that_the_engine_has_not_is_one_clear_line(make_lab: MakeLab) -> None:
    lab = make_lab(settings=DISPOSABLE.model_copy(update={"runtime": "nosuch"}))
    with pytest.raises(NotEnforced, match=r"^the engine has no runtime `nosuch` \(it has .*`runc`"):
        lab.sh("true")
