# SPDX-License-Identifier: Apache-2.0
"""The agents under watch: who they are, what they come from, and how to know their processes.

The registry is files in the state folder, one for each agent, so that a stop needs no supervisor.
An entry is good for one boot, and goes when no process of the agent is left.

Front doors call `register` with the pid of their peer.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sandbox.agents.declared import Declarations
from sandbox.errors import BadInput, Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN, Latch, above
from sandbox.processes.cgroup import FOLDER as GROUPS
from sandbox.processes.cgroup import ControlGroup
from sandbox.processes.lost import Lost
from sandbox.processes.passes import Passes
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.seen import SeenProcesses
from sandbox.processes.supervisor_process import supervisor
from sandbox.processes.table import Host, Known, boot
from sandbox.processes.targets import Target, Tree, members

FOLDER = "agents"
TOKEN_BYTES = 16
MOST_PASSES = 5
"""Passes that look for what an agent started while it was put into its group."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent under watch."""

    id: str
    """Its name among all agents of this state folder."""
    parent: str | None
    """The id of the agent that it works for."""
    path: str
    """The ids of all that are above it and its own, as calls and policy files name it (`a:b`)."""
    role: str | None
    """Its role within its parent's (`parent/child`); it never widens."""
    pid: int
    created: int
    """Start of its process, in clock ticks since the boot."""
    boot: str
    token: str
    """What marks its processes, with its id."""
    foreign: int
    """The session that it was started in, where that is not its own; 0: it is."""
    starter: tuple[int, int] | None
    """The waiting `lockgate agent run`, as (pid, start); None: none waits (any more)."""
    group: str | None
    """Its control group."""
    program: str
    source: str
    """How it came: `run`, `attach`, or the name of a front door."""
    started: float
    """When it was registered, in seconds since the epoch."""

    @property
    def mark(self) -> str:
        """What stands in the environment of its processes."""
        return f"{self.id}:{self.token}"

    @property
    def root(self) -> Known:
        """Its own process."""
        return Known(self.pid, self.created)

    def placed(self, parent: Agent | None) -> Agent:
        """Return the same agent below its parent."""
        path = f"{parent.path}{BETWEEN}{self.id}" if parent else self.id
        return replace(self, parent=parent.id if parent else None, path=path)


def is_below_agent(one: Agent, agent: Agent) -> bool:
    """Whether one agent was started by another, or below it."""
    return one.path.startswith(agent.path + BETWEEN)


def find_agent(agents: Sequence[Agent], name: str) -> Agent | None:
    """Return the one of some agents that has this id or path."""
    return next((agent for agent in agents if name in (agent.id, agent.path)), None)


def with_children(agents: Sequence[Agent], agent: Agent) -> list[Agent]:
    """Return an agent and those of some that are below it."""
    return [agent, *(other for other in agents if is_below_agent(other, agent))]


class Registry:
    """The agents of a state folder. Several processes may use it at once."""

    def __init__(self, dirs: Dirs, host: Host | None = None) -> None:
        self._folder = dirs.state / FOLDER
        self._lock = dirs.lock
        self._lost = Lost(self._folder / "lost")
        self._latch = Latch(dirs)
        self.host = host or Host()
        self.declared = Declarations(dirs)
        """What a person said of agents before they run."""

    # -- reading

    @property
    def empty(self) -> bool:
        """Whether no agent is registered; cheap. Raises Unavailable where that cannot be seen."""
        return not any(name.endswith(".json") for name in self._names())

    def all(self) -> list[Agent]:
        """Return the registered agents of this boot, whether or not they still run.

        Raises Unavailable where they cannot be read.
        """
        agents, unread = self.readable()
        if unread:
            raise unread[0]
        return agents

    def readable(self) -> tuple[list[Agent], list[Unavailable]]:
        """Return the agents of this boot that can be read, and why others cannot.

        For what must act on those that it can see, as a stop does; to know who somebody is, `all`.
        """
        now, agents, unread = boot(), list[Agent](), list[Unavailable]()
        try:
            names = sorted(self._names())
        except Unavailable as error:
            return agents, [error]
        for name in names:
            try:
                agent = _read(self._folder / name) if name.endswith(".json") else None
            except Unavailable as error:
                unread.append(error)
                continue
            if agent is not None and agent.boot == now:
                agents.append(agent)
        return agents, unread

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)  # noqa: PTH208
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unseen(self._folder, error) from None

    def find(self, name: str) -> Agent | None:
        """Return an agent by its id or its path."""
        return find_agent(self.all(), name)

    def trees(self, agents: Sequence[Agent]) -> list[Tree]:
        """Return what is known of the processes of several agents."""
        apart = supervisor(self._lock, self.host)
        return [
            Tree(
                agent.id,
                agent.mark,
                agent.root,
                self.seen(agent).read(),
                Known(*agent.starter) if agent.starter else None,
                agent.foreign,
                apart,
            )
            for agent in agents
        ]

    def seen(self, agent: Agent) -> SeenProcesses:
        """Return the list of an agent's processes that were seen."""
        return SeenProcesses(self._folder / f"{agent.id}.seen")

    def group(self, agent: Agent) -> ControlGroup | None:
        """Return an agent's control group."""
        return ControlGroup(Path(agent.group), agent.id) if agent.group else None

    def unwatched(self, agent: Agent) -> bool:
        """Whether the `lockgate agent run` that waits for it was killed: it adopts no more."""
        if agent.starter is None or not self._may_live(agent):
            return False
        proc = self.host.process(agent.starter[0])
        return proc is None or proc.ended or proc.known != agent.starter

    def members(self, agent: Agent) -> dict[int, Target]:
        """Return the processes of an agent that have not ended, by number."""
        return self.members_of([agent])[agent.id]

    def members_of(self, agents: Sequence[Agent]) -> dict[str, dict[int, Target]]:
        """Return the processes of several agents by id, all from one pass over the host."""
        return self._looked(agents)[0]

    def _looked(self, agents: Sequence[Agent]) -> tuple[dict[str, dict[int, Target]], bool]:
        """Return the processes of several agents by id, and whether none was overlooked."""
        found: dict[str, dict[int, Target]] = {}
        if not agents:
            return found, True
        since = min(one.created for one in agents)
        passes, shown = Passes(since), dict[Known, str]()
        while True:
            table = self.host.table()
            grouped = {one.id: group.members() for one in agents if (group := self.group(one))}
            for pids in grouped.values():
                self.host.complete(table, pids)
            markers = self.host.markers(table, since=since, known=shown)
            every: set[int] = set()
            for agent, tree in zip(agents, self.trees(agents), strict=True):
                own = members(table, tree, markers=markers, grouped=grouped.get(agent.id, ()))
                every |= own.keys()
                found[agent.id] = {pid: one for pid, one in own.items() if not one.process.ended}
            again = passes.again(table, shown, every)
            if all(found.values()) or not again:
                return found, passes.sure

    def of_process(self, pid: int) -> Agent | None:
        """Return the agent that a process belongs to, the innermost one, or None.

        By every proof that a stop goes by: what a stop would end never passes for somebody else.
        """
        if self.empty:
            return None
        agents = self.all()
        line = [proc for proc in self.host.line(pid) if proc.pid > 1]
        starts = {proc.known for proc in line}
        marks = {self.host.marker(proc.pid) for proc in line}
        found = [
            agent
            for agent in agents
            if agent.root in starts
            or agent.mark in marks
            or not starts.isdisjoint(self.seen(agent).read())
        ]
        if not found and line:  # it may have left its tree and its environment
            own = self.members_of(agents)
            pids = {proc.pid for proc in line}
            found = [agent for agent in agents if not pids.isdisjoint(own[agent.id])]
        # A child's processes are its parent's too, and may carry the parent's mark alone.
        return max(found, key=lambda one: one.path.count(BETWEEN), default=None)

    # -- writing

    def add(self, agent: Agent) -> None:
        """Register an agent. Raises BadInput: the name is taken; Unavailable."""
        path = self._folder / f"{agent.id}.json"
        with self._locked():
            there = _read(path)
            if there is not None and self._lives(there):
                raise BadInput(
                    f"agent `{agent.id}` runs already (process {there.pid}); "
                    "`--name` gives another name"
                )
            self._note_lost(there)
            self._drop(there, path)
            self._write(path, agent)

    def let_go(self, agent: Agent) -> None:
        """Note that nobody waits for an agent any more, and that this is as it should be."""
        path = self._folder / f"{agent.id}.json"
        with self._locked():
            there = _read(path)
            if there is not None and there.token == agent.token and there.starter is not None:
                self._write(path, replace(there, starter=None))

    def take_lost(self, wanted: Callable[[str], bool]) -> list[str]:
        """Return the agents that ended unwatched since the last stop, and forget them."""
        with self._locked():
            return self._lost.take(wanted)

    def remove(self, agent: Agent) -> None:
        """Forget an agent; its processes go on."""
        with self._locked():
            self._drop(agent, self._folder / f"{agent.id}.json")

    def drop_ended(self) -> list[Agent]:
        """Forget agents without any process left, of this boot or an earlier one; return them.

        None is forgotten where one of its processes may have been overlooked.
        """
        if self.empty:
            return []
        with self._locked():
            some = [(path, _read(path)) for path in sorted(self._folder.glob("*.json"))]
            agents = [(path, one) for path, one in some if one is not None]
            living = [one for _, one in agents if self._may_live(one)]
            left, sure = self._looked(living)
            kept = {agent.id for agent in living if left.get(agent.id) or not sure}
            gone = [(path, one) for path, one in agents if one.id not in kept]
            for path, one in gone:
                self._note_lost(one)
                self._drop(one, path)
        return [one for _, one in gone]

    def note_seen(self) -> None:
        """Note the processes that agents have now, so that they are known later by what they are.

        Cheap: one pass over the host for all agents, and nothing where there is none.
        """
        agents = [] if self.empty else self.all()
        if not agents:
            return
        for agent, own in zip(agents, self.members_of(agents).values(), strict=True):
            self.seen(agent).add({target.process.known for target in own.values()}, self.host)

    def _note_lost(self, agent: Agent | None) -> None:
        if agent is None or not self.unwatched(agent):
            return
        stops = (self._latch.read(), *map(self._latch.read, above(agent.path)))
        if all(
            latch_info is None or latch_info.paused for latch_info in stops
        ):  # else the stop may have ended it
            self._lost.add(agent.path)

    def _may_live(self, agent: Agent) -> bool:
        return agent.boot == boot()

    def _lives(self, agent: Agent) -> bool:
        return self._may_live(agent) and bool(self.members(agent))

    def _drop(self, agent: Agent | None, path: Path) -> None:
        if agent is not None:
            if group := self.group(agent):
                group.remove()
            self.seen(agent).remove()
            with contextlib.suppress(OSError):
                path.with_suffix(".session").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    def _write(self, path: Path, agent: Agent) -> None:
        own_files.write(path, json.dumps(asdict(agent)))

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return own_files.locked(self._folder / "lock", self._folder)


def _unseen(path: Path, error: OSError) -> Unavailable:
    """Return the error for entries that cannot be seen: an agent would pass for nobody's."""
    refuse_scarcity(error)
    return Unavailable(f"`{path}`: {error.strerror}; which agents there are cannot be seen")


def _read(path: Path) -> Agent | None:
    try:
        data = json.loads(own_files.read(path))
        starter = data.pop("starter")
        agent = Agent(**data, starter=(int(starter[0]), int(starter[1])) if starter else None)
    except (FileNotFoundError, IsADirectoryError, own_files.NoFile):
        return None  # no registry puts anything but a file there
    except OSError as error:
        raise _unseen(path, error) from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None
    return agent if agent.id == path.stem and _sound(agent) else None


def _sound(agent: Agent) -> bool:
    """Whether an entry that was read is one that a registry writes; else nothing goes by it."""
    words = (agent.id, agent.path, agent.boot, agent.token, agent.program, agent.source)
    maybe = (agent.parent, agent.role, agent.group)
    numbers = (agent.pid, agent.created, agent.foreign)
    if not (
        all(isinstance(word, str) for word in words)
        and all(one is None or isinstance(one, str) for one in maybe)
        and all(type(number) is int for number in numbers)
        and isinstance(agent.started, int | float)
    ):
        return False
    group = Path(agent.group) if agent.group else None
    # A group that is not the agent's very own would freeze and end what is not the agent's.
    return group is None or (group.name == agent.token and group.parent.name == GROUPS)
