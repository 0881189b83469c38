# SPDX-License-Identifier: Apache-2.0
"""Agents on this host and the stop that reaches them: real processes, each with a mark of its own.

Every test ends what it started, by number and start time; nothing else ever gets a signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest

from policy.agent_names import RULE
from sandbox.agents.registering import describe, register
from sandbox.agents.registry import Agent, Registry
from sandbox.errors import BadInput, Stopped
from sandbox.guard.child import MODULE
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.processes.table import Host, Known, Sent
from sandbox.stopping.stop import stop_all
from tests.conftest import cannot_run
from tests.evasions import EVASIONS, Evasion, command, marked
from tests.sandbox.shells import ROOT

WAIT_SECONDS = 120.0
NOBODY = 65_534


class Place:
    """A state folder of its own, and the command line over it, perhaps as another user."""

    def __init__(self, root: Path, *, without_groups: bool = False) -> None:
        self.root = root
        self.without_groups = without_groups
        self.dirs = Dirs(root / "s/lockgate", root / "c/lockgate", root / "lockgate")
        self.mark = f"lgmark{uuid.uuid4().hex[:10]}"
        self.beat = root / "beat"
        self._started: list[subprocess.Popen[bytes]] = []

    def env(self) -> dict[str, str]:
        """Return the environment of the command line."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "XDG_STATE_HOME": str(self.root / "s"),
            "XDG_CONFIG_HOME": str(self.root / "c"),
            "XDG_RUNTIME_DIR": str(self.root),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def words(self, *words: str) -> list[str]:
        """Return a command line of Lockgate."""
        return [sys.executable, "-m", "sandbox.cli.main", *words]

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own; it is ended at the end of the test."""
        if self.without_groups:  # hide the control groups from it, and from it alone
            hide = "mount --make-rprivate / && mount -t tmpfs -o ro none /sys/fs/cgroup"
            argv = ["unshare", "-m", "bash", "-c", f'{hide} && exec "$@"', "bash", *argv]
        process = subprocess.Popen(
            argv,
            env=self.env(),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run `lockgate WORDS`; return status, stdout, stderr."""
        process = self.start(self.words(*words))
        out, err = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, out.decode(), err.decode()

    def agent(self, script: str, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a shell as an agent, and wait until it is registered."""
        process = self.start(
            self.words("agent", "run", "--name", name, *options, "--", "bash", "-c", script)
        )
        wait_for(lambda: Registry(self.dirs).find(name), f"agent {name} is registered")
        return process

    def registered(self, name: str) -> Agent:
        """Return an agent."""
        found = Registry(self.dirs).find(name)
        assert found is not None
        return found

    def beats(self) -> bool:
        """Whether somebody goes on writing to the file."""
        before = self.beat.stat().st_size if self.beat.exists() else 0
        time.sleep(0.4)
        return self.beat.exists() and self.beat.stat().st_size > before

    def lives(self, evasion: Evasion) -> bool:
        """Whether the evasion's process runs."""
        return self.beats() if evasion.beats else bool(marked(self.mark))

    def close(self) -> None:
        """End what this test started, whatever became of it."""
        host = Host()
        for pid in marked(self.mark):
            if (one := host.process(pid)) is not None:
                host.send(one.known, signal.SIGKILL)
        with contextlib.suppress(BadInput):
            for agent in Registry(self.dirs).all():
                for target in Registry(self.dirs).members(agent).values():
                    if target.process.pid != os.getpid():
                        host.send(target.process.known, signal.SIGKILL)
                Registry(self.dirs).remove(agent)
        for process in self._started:
            process.kill()
            process.communicate()
        shutil.rmtree(self.root, ignore_errors=True)


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a bound."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def place() -> Iterator[Place]:
    """Return a place."""
    one = Place(Path(mkdtemp(prefix="lgs-")))
    yield one
    one.close()


@pytest.fixture(params=["with control groups", "without control groups"])
def either(request: pytest.FixtureRequest, place: Place) -> Place:
    """Return a place where agents get control groups if they can, and one where they do not."""
    if "without" in request.param:
        place.without_groups = os.geteuid() == 0  # nobody else gets one anyway
    return place


# every way out


@pytest.mark.parametrize("evasion", EVASIONS.values(), ids=EVASIONS)
def test_a_plain_kill_of_the_parent_ends_none_of_them(place: Place, evasion: Evasion) -> None:
    script = command(evasion, place.mark, place.beat)
    inner = place.root / "inner.sh"
    inner.write_text(script)
    parent = place.start(["bash", "-c", f"bash {inner}; true"])
    if evasion.late:
        wait_for(lambda: children(parent.pid), "the shell runs")
    else:
        wait_for(lambda: place.lives(evasion), "it runs")
    parent.kill()
    parent.wait()
    wait_for(lambda: place.lives(evasion), "it lives on")


@pytest.mark.parametrize("evasion", EVASIONS.values(), ids=EVASIONS)
def test_a_stop_ends_each_of_them(either: Place, evasion: Evasion) -> None:
    inner = either.root / "inner.sh"
    inner.write_text(command(evasion, either.mark, either.beat))
    agent = either.agent(f"bash {inner}; sleep 244", "evader")
    assert (either.registered("evader").group is None) or not either.without_groups
    if not evasion.late:
        wait_for(lambda: either.lives(evasion), "it runs")
    report = stop_all(either.dirs, "a test")
    assert marked(either.mark) == []
    assert (report.left, len(report.killed)) == ((), 1)
    assert not either.beats()
    agent.wait(WAIT_SECONDS)
    assert Registry(either.dirs).all() == []


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [one.pid for one in Host().table().values() if one.ppid == pid]


# whom it reaches, and whom not


def test_a_stop_of_one_agent_leaves_the_others_alone(place: Place) -> None:
    place.agent(f"exec -a {place.mark}-one sleep 240", "one")
    place.agent(f"exec -a {place.mark}-two sleep 240", "two")
    place.agent(f"exec -a {place.mark}-child sleep 240", "child", "--parent", "one")
    wait_for(lambda: len(live(place)) == 3, "all run")
    report = stop_all(place.dirs, "a test", agent="one")
    assert live(place) == [f"{place.mark}-two"]
    assert report.left == ()
    assert {line.split(":")[0] for line in report.killed} == {"agent one", "agent child"}
    latch = Latch(place.dirs)
    for name in ("one", "one:child", "one:child:deeper"):
        with pytest.raises(Stopped, match=r"agent `one` was stopped at .*: a test; a person"):
            latch.check(name)
    latch.check("two")
    latch.check("oneself")
    latch.check()
    status, _, err = place.run("agent", "run", "--name", "more", "--parent", "one", "--", "true")
    assert (status, "there is no agent `one`" in err) == (2, True)
    assert place.run("agent", "run", "--name", "one", "--", "true")[0] == 126
    assert place.run("agent", "run", "--name", "three", "--", "true")[0] == 0


def live_name(pid: int) -> str:
    """Return the name that a process was started under."""
    return Host().command(pid).split(" ")[0]


def live(place: Place) -> list[str]:
    """Return the names of the processes that were started under the mark."""
    return sorted(
        name for pid in marked(place.mark) if (name := live_name(pid)).startswith(place.mark)
    )


def test_an_unrelated_process_of_the_same_shell_lives_on(place: Place) -> None:
    lockgate = " ".join(place.words("agent", "run", "--name", "a", "--", "sleep", "240"))
    shell = place.start(["bash", "-c", f"(exec -a {place.mark} sleep 241) & {lockgate} & wait"])
    wait_for(lambda: Registry(place.dirs).find("a"), "the agent is registered")
    report = stop_all(place.dirs, "a test")
    assert (report.left, len(report.killed)) == ((), 1)
    assert live(place) == [place.mark]
    assert shell.poll() is None


def test_an_agent_that_calls_stop_gets_the_answer_and_ends_after_it(place: Place) -> None:
    answer = place.root / "answer"
    stop = " ".join(place.words("stop", "--reason", "itself"))
    script = f"(setsid bash -c 'exec -a {place.mark} sleep 240' &); {stop} > {answer}; sleep 239"
    process = place.agent(script, "self")
    agent = place.registered("self")
    assert process.wait(WAIT_SECONDS) == 137
    text = answer.read_text()
    assert f"process {agent.pid} (bash) of agent self asked for this stop" in text
    assert "ends when this command has ended" in text
    wait_for(lambda: live(place) == [], "all of it is gone")
    assert Latch(place.dirs).read() is not None


def test_a_stop_by_a_program_within_an_agent_names_that_program_as_left(place: Place) -> None:
    me = Host().process(os.getpid())
    assert me is not None
    agent = register(place.dirs, os.getpid(), name="me", source="test")
    report = stop_all(place.dirs, "a test")
    assert report.left == (
        f"process {os.getpid()} ({me.name}) of agent me asked for this stop, and goes on",
    )
    Registry(place.dirs).remove(agent)


def test_a_supervisor_that_an_agent_started_is_no_part_of_the_agent(place: Place) -> None:
    reach = (
        f'{sys.executable} -c "from sandbox.client.blocking import BlockingClient as C\n'
        f"with C() as c: print(c.ping()['pid'])\""
    )
    pidfile = place.root / "pid"
    place.agent(
        f"{reach} > {pidfile}.new; mv {pidfile}.new {pidfile}; exec -a {place.mark} sleep 240", "a"
    )
    wait_for(pidfile.exists, "the supervisor answers")
    pid = int(pidfile.read_text())
    supervisor = Host().process(pid)
    assert supervisor is not None
    wait_for(lambda: live(place), "the agent goes on")

    def started() -> set[int]:
        children = {one.pid for one in Host().table().values() if one.ppid == pid and not one.ended}
        return {one for one in children if MODULE in Host().command(one)}

    wait_for(started, "the supervisor starts its guard")
    registry = Registry(place.dirs)
    [agent] = registry.all()
    try:
        assert Host().marker(pid) is None
        before = started()
        assert not {pid, *before} & set(registry.members(agent))
        assert registry.of_process(pid) is None
        group = registry.group(agent)
        assert group is None or not {pid, *before} & group.members()
        assert stop_all(place.dirs, "a test").left == ()
        assert live(place) == []
        assert Host().send(supervisor.known, signal.SIGCONT) is Sent.SENT
        assert before <= started()
        assert registry.all() == []  # nothing of it is left
    finally:
        Host().send(supervisor.known, signal.SIGTERM)


# the program under watch is as it would be without


def test_status_input_and_output_pass_through(place: Place) -> None:
    process = place.start(
        place.words("agent", "run", "--", "bash", "-c", "echo out; echo err >&2; exit 7")
    )
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out, err) == (7, b"out\n", b"err\n")
    assert Registry(place.dirs).all() == []


def test_a_signal_passes_through_and_its_death_is_passed_back(place: Place) -> None:
    process = place.agent(
        f"trap 'echo got; trap - USR1; kill -TERM $$' USR1; echo ready; "
        f"(exec -a {place.mark} sleep 240) & wait",
        "a",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(WAIT_SECONDS) == -signal.SIGTERM
    assert process.stdout.readline() == b"got\n"


def test_what_an_ended_agent_leaves_is_said_and_can_be_stopped(place: Place) -> None:
    process = place.agent(
        f"(setsid bash -c 'exec -a {place.mark} sleep 240' >/dev/null 2>&1 &)", "a"
    )
    assert process.wait(WAIT_SECONDS) == 0
    assert process.stderr is not None
    assert process.stderr.read() == (
        b"lockgate: agent a has ended; 1 process of it goes on; `lockgate stop --agent a` ends it\n"
    )
    rows = json.loads(place.run("agent", "list", "--json")[1])
    assert [(row["id"], row["state"], row["processes"]) for row in rows] == [("a", "left", 1)]
    assert stop_all(place.dirs, "a test", agent="a").left == ()
    assert live(place) == []


def test_a_killed_waiting_command_loses_no_process(place: Place) -> None:
    process = place.agent(f"exec -a {place.mark} sleep 240", "a")
    wait_for(lambda: live(place), "it runs")
    process.kill()
    process.wait()
    assert live(place) == [place.mark]
    (left,) = stop_all(place.dirs, "a test").left
    assert left.startswith("agent a: who watched it")  # what else it may have had is not known
    assert live(place) == []


def test_no_agent_starts_while_a_stop_is_in_force(place: Place) -> None:
    Latch(place.dirs).set("a test")
    status, out, err = place.run("agent", "run", "--", "touch", str(place.root / "ran"))
    assert (status, out) == (126, "")
    assert err.startswith("lockgate: stopped at ")
    assert not (place.root / "ran").exists()
    Latch(place.dirs).clear()
    assert place.run("agent", "run", "--", "touch", str(place.root / "ran"))[0] == 0
    assert (place.root / "ran").exists()


def test_a_program_that_is_not_there(place: Place) -> None:
    assert place.run("agent", "run", "--", "nosuchprogram") == (
        127,
        "",
        "lockgate: `nosuchprogram` is not found, or cannot be run\n",
    )
    assert Registry(place.dirs).all() == []


# attaching


def test_a_running_process_is_attached_with_all_that_it_started(place: Place) -> None:
    two = f"(exec -a {place.mark} sleep 240) & (exec -a {place.mark} sleep 241) & wait"
    process = place.start(["bash", "-c", two])
    wait_for(lambda: len(live(place)) == 2, "both run")
    out = json.loads(place.run("agent", "attach", str(process.pid), "--name", "a", "--json")[1])
    assert (out["processes"], out["source"]) == (3, "attach")
    (one, *_) = children(process.pid)
    process.kill()  # its children are process 1's now, and known all the same
    process.wait()
    assert Registry(place.dirs).members(place.registered("a")).keys() >= {one}
    assert stop_all(place.dirs, "a test", agent="a").left == ()
    assert live(place) == []


def test_what_cannot_be_attached(place: Place) -> None:
    assert place.run("agent", "attach", "1")[2] == (
        "lockgate: process 1 is the system's own, and no agent\n"
    )
    assert place.run("agent", "attach", "4194304")[2] == "lockgate: there is no process 4194304\n"
    process = place.start(["sleep", "240"])
    assert place.run("agent", "attach", str(process.pid), "--name", "a/b")[2] == (
        f"lockgate: `a/b` cannot name an agent: {RULE}\n"
    )
    assert place.run("agent", "attach", str(process.pid), "--name", "a")[0] == 0
    assert "is agent `a` already" in place.run("agent", "attach", str(process.pid))[2]
    assert stop_all(place.dirs, "a test").killed == ("agent a: 1 process (sleep)",)


def test_another_users_process_cannot_be_attached(place: Place) -> None:
    if os.geteuid() != 0:
        cannot_run("only root can start a program as another user")
    theirs = subprocess.Popen(["sleep", "240"], user=NOBODY, group=NOBODY, extra_groups=[])
    try:
        with pytest.raises(BadInput, match=r"process \d+ belongs to another user"):
            register(place.dirs, theirs.pid, source="test")
        assert Registry(place.dirs).empty
    finally:
        theirs.kill()
        theirs.wait()


def test_a_forgotten_agent_goes_on_and_only_a_person_may_forget_it(place: Place) -> None:
    place.agent(f"exec -a {place.mark} sleep 240", "a")
    wait_for(lambda: live(place), "it runs")
    status, _, err = place.run("agent", "remove", "a")
    assert (status, "a person's decision" in err) == (126, True)
    assert Registry(place.dirs).find("a") is not None
    assert live(place) == [place.mark]


# the registry


def test_an_agents_number_taken_anew_is_not_the_agent(place: Place) -> None:
    registry = Registry(place.dirs)
    process = place.start(["sleep", "240"])
    agent = register(place.dirs, process.pid, name="a", source="test")
    registry.remove(agent)
    if group := registry.group(agent):
        group.leave(process.pid)
    registry.add(replace(agent, created=agent.created - 1, group=None))
    assert registry.of_process(process.pid) is None
    assert [one.id for one in registry.drop_ended()] == ["a"]
    assert process.poll() is None


def test_an_entry_of_an_earlier_boot_is_dropped(place: Place) -> None:
    registry = Registry(place.dirs)
    process = place.start(["sleep", "240"])
    agent = register(place.dirs, process.pid, name="a", source="test")
    registry.remove(agent)
    registry.add(replace(agent, boot="another"))
    assert registry.all() == []
    assert stop_all(place.dirs, "a test").killed == ()
    assert process.poll() is None
    assert [one.id for one in registry.drop_ended()] == []  # the stop has dropped it
    assert registry.empty


def test_a_broken_entry_and_a_cut_list_do_no_harm(place: Place) -> None:
    process = place.start(["sleep", "240"])
    agent = register(place.dirs, process.pid, name="a", source="test")
    folder = place.dirs.state / "agents"
    (folder / "b.json").write_text('{"id": "b"')
    with (folder / "a.seen").open("a") as file:
        file.write(f"{os.getpid()} 12")
    assert [one.id for one in Registry(place.dirs).all()] == ["a"]
    report = stop_all(place.dirs, "a test")
    assert report.killed == ("agent a: 1 process (sleep)",)
    assert process.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert agent.id == "a"


def test_many_registrations_at_once_are_all_kept(place: Place) -> None:
    processes = [place.start(["sleep", "240"]) for _ in range(12)]
    script = (
        "import sys\nfrom sandbox.agents.registering import register\n"
        "from sandbox.host.dirs import Dirs\n"
        "register(Dirs.default(), int(sys.argv[1]), name='a' + sys.argv[1], source='test')"
    )
    writers = [
        place.start([sys.executable, "-c", script, str(process.pid)]) for process in processes
    ]
    for writer in writers:
        assert writer.wait(WAIT_SECONDS) == 0
    assert len(Registry(place.dirs).all()) == 12
    assert len(stop_all(place.dirs, "a test").killed) == 12


def test_a_hundred_agents_are_stopped_together(place: Place) -> None:
    registry = Registry(place.dirs)
    processes = [place.start(["sleep", "240"]) for _ in range(100)]
    for number, process in enumerate(processes):
        registry.add(describe(registry, process.pid, name=f"a{number}", role=None, parent=None,
                              source="test"))  # fmt: skip
    report = stop_all(place.dirs, "a test")
    assert (report.left, len(report.killed)) == ((), 100)
    assert [process.wait(WAIT_SECONDS) for process in processes] == [-signal.SIGKILL] * 100
    assert registry.empty


def test_a_name_is_one_living_agents_alone(place: Place) -> None:
    first, second = place.start(["sleep", "240"]), place.start(["sleep", "240"])
    register(place.dirs, first.pid, name="a", source="test")
    with pytest.raises(BadInput, match="agent `a` runs already"):
        register(place.dirs, second.pid, name="a", source="test")
    first.kill()
    first.wait()
    assert register(place.dirs, second.pid, name="a", source="test").pid == second.pid


def test_who_comes_in_through_a_front_door_is_the_agent_that_it_belongs_to(place: Place) -> None:
    inner = f"exec -a {place.mark}-1 sleep 240 & exec -a {place.mark}-2 sleep 241"
    place.agent(f"(bash -c '{inner}') & wait", "a", "--role", "coder")
    wait_for(lambda: len(live(place)) == 2, "both run")
    pids = {live_name(p): p for p in marked(place.mark)}
    pid = pids[f"{place.mark}-2"]
    assert register(place.dirs, pid, source="mcp") == place.registered("a")
    child = register(place.dirs, pid, name="sub", role="critic", source="mcp")
    assert (child.parent, child.path, child.role) == ("a", "a:sub", "coder/critic")
    assert register(place.dirs, pid, name="sub", source="mcp") == child
    inner_pid = pids[f"{place.mark}-1"]
    assert register(place.dirs, inner_pid, source="hook") == child
    with pytest.raises(BadInput, match="agent `sub` cannot start a child of `a`"):
        register(place.dirs, inner_pid, name="wider", parent="a", source="mcp")


def test_a_known_start_is_in_ticks() -> None:
    one = Host().process(os.getpid())
    assert one is not None
    assert one.known == Known(os.getpid(), one.created)
    assert one.created > 0


@pytest.mark.parametrize("watched", [True, False])
def test_what_an_attached_agent_cuts_loose_is_ended(place: Place, watched: bool) -> None:
    # Between two looks at the host: a new session, no environment, no parent left.
    if not os.access("/sys/fs/cgroup/freezer", os.W_OK):
        cannot_run("no freezer of version 1, in which what is attached can be held")
    loose = f"setsid env -i /bin/bash -c 'exec -a {place.mark} sleep 260' </dev/null & exit 0"
    shell = place.start(["bash", "-c", f"until [ -e go ]; do sleep 0.02; done; {loose}"])
    if watched:
        register(place.dirs, shell.pid, name="a", source="attach")
    (place.root / "go").touch()
    shell.wait(WAIT_SECONDS)
    wait_for(lambda: live(place) == [place.mark], "it runs")
    assert stop_all(place.dirs, "a test").left == ()
    assert live(place) == ([] if watched else [place.mark])  # the control: nobody's is not ended
