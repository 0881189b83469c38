# SPDX-License-Identifier: Apache-2.0
"""The sweep over cells: through the engine, and on this host directly, at the same time.

Where the engine runs on this kernel, a cell's processes are known by the container id in their
control group, and killing process 1 of a cell ends all of it at once, its keeper too. So a stop
neither waits for an engine that is slow nor depends on one that hangs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.containers.ledger import ContainerNotes, Note
from sandbox.containers.plan import LABEL_AGENT, LABEL_CELL, LABEL_ROLE
from sandbox.errors import SandboxError
from sandbox.processes.table import Known, Proc, Sent

ENGINE_SECONDS = 5.0
"""How long the engine may take to end what runs."""
DIRECT_SECONDS = 5.0
PAUSE_SECONDS = 0.005
AT_ONCE = 16
"""Requests to the engine at once."""


class ContainerEngine(Protocol):
    """What the sweep needs of an engine."""

    def containers(self, **labels: str) -> list[dict[str, Any]]: ...
    def kill(self, identity: str) -> None: ...
    def remove(self, identity: str) -> None: ...
    def local(self, kernel: str) -> bool: ...


class Processes(Protocol):
    """What the sweep needs of a host."""

    def table(self) -> dict[int, Proc]: ...
    def process(self, pid: int) -> Proc | None: ...
    def inside_of(self, containers: Collection[str]) -> dict[int, str] | None: ...
    def containers(self, pids: Iterable[int]) -> dict[int, str]: ...
    def send(self, one: Known, number: signal.Signals, *, container: str | None = None) -> Sent: ...


@dataclass(slots=True)
class CellsSwept:
    """What became of the cells."""

    killed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class CellSweep:
    """The sweep over the cells of a state folder, or of one agent, in two parts."""

    def __init__(
        self,
        host: Processes,
        noted: ContainerNotes,
        connect: Callable[[], ContainerEngine],
        *,
        agent: str | None = None,
        engine_seconds: float = ENGINE_SECONDS,
    ) -> None:
        """`connect` reaches the engine, and may take long or raise SandboxError."""
        self._noted = noted
        self._known = {note.id: note for note in noted.all().values() if note.is_of(agent)}
        self._direct = _Direct(host)
        self._asked = _Asked(connect, agent, self._known)
        self._engine_seconds = engine_seconds

    def begin(self) -> None:
        """Kill what is known, at once, and have the engine begin its part."""
        self._direct.kill(_here(self._known))
        self._asked.start()

    def finish(self) -> CellsSwept:
        """Return when no process of a cell is left on this host and the engine has done its part,
        or name what is left."""
        answered = self._asked.wait(self._engine_seconds)
        notes = self._asked.found
        known = self._known | {
            note.id: note for note in notes.values() if note.id not in self._known
        }
        left = self._direct.kill_all(_here(known))
        swept = CellsSwept()
        _say_killed(swept, known, self._direct.ended, notes)
        swept.left += left
        if not answered:
            _say_silent(swept, known, self._asked.problem)
            return swept
        swept.left += [
            f"container {note.id[:12]} of cell {note.name} runs" for note in self._asked.running
        ]
        for identity in known:
            if identity not in notes:
                self._noted.remove(identity)
        return swept


class _Direct:
    """Kills the processes of containers on this host."""

    def __init__(self, host: Processes) -> None:
        self._host = host
        self.ended: dict[str, set[Known]] = {}
        """Processes that were killed, by container."""
        self._forbidden: set[Known] = set()
        self._begun: set[str] = set()
        """Containers whose process 1 was killed."""

    def kill(self, wanted: Collection[str]) -> list[tuple[Known, str]]:
        """Kill what is in these containers now; return what was found: (process, container).

        The first time only process 1 of each, which is its oldest: all else goes with it.
        """
        if not wanted:
            return []
        inside = self._host.inside_of(wanted) if not self._begun else None
        if inside is None:  # their control groups are not where engines put them: look at all
            inside = self._host.containers(self._host.table())
        found = []
        for pid, identity in inside.items():
            process = self._host.process(pid) if identity in wanted else None
            if process is not None and not process.ended:
                found.append((process.known, identity))
        found.sort(key=lambda one: (one[0].created, one[0].pid))
        for one, identity in found:
            killed = self.ended.setdefault(identity, set())
            if identity in self._begun or not killed:
                self._send(one, identity)
            killed.add(one)
        self._begun.update(self.ended)
        return found

    def _send(self, one: Known, identity: str) -> None:
        if self._host.send(one, signal.SIGKILL, container=identity) is Sent.FORBIDDEN:
            self._forbidden.add(one)

    def kill_all(self, wanted: Collection[str]) -> list[str]:
        """Kill until a pass finds none; return a line for each process that is left."""
        deadline = time.monotonic() + DIRECT_SECONDS
        while found := self.kill(wanted):
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        return [
            f"process {one.pid} of container {identity[:12]} "
            + ("belongs to another user" if one in self._forbidden else "goes on")
            for one, identity in found
        ]


class _Asked(threading.Thread):
    """Has the engine end its part, on a thread that nobody must wait for."""

    def __init__(
        self,
        connect: Callable[[], ContainerEngine],
        agent: str | None,
        known: Mapping[str, Note],
    ) -> None:
        super().__init__(name="stop-engine", daemon=True)
        self._connect = connect
        self._agent = agent
        self._known = dict(known)
        self._done = threading.Event()
        self.problem = ""
        self.found: dict[str, Note] = {}
        self.running: list[Note] = []

    def wait(self, seconds: float) -> bool:
        """Whether the engine has ended its part within this time."""
        return self._done.wait(seconds) and not self.problem

    def run(self) -> None:
        """End what only the engine can end: what has not started, and what is not on this host.

        Whether a container on this host still runs is seen at its processes, since an engine says
        so long after they are dead.
        """
        try:
            self._work(self._connect())
        except SandboxError as error:
            self.problem = str(error)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self._done.set()

    def _work(self, engine: ContainerEngine) -> None:
        deadline = time.monotonic() + ENGINE_SECONDS
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            while True:
                listed = [
                    (self._note(container, engine), container.get("State"))
                    for container in engine.containers()
                ]
                wanted = [(note, state) for note, state in listed if note.is_of(self._agent)]
                self.found |= {note.id: note for note, _ in wanted}
                fresh = [note for note, state in wanted if state == "created"]
                self.running = [
                    note
                    for note, state in wanted
                    if not note.local and state in ("running", "paused")
                ]
                if not (fresh or self.running) or time.monotonic() > deadline:
                    return
                # One that has not started must be gone before a request to start it comes.
                list(pool.map(engine.remove, [note.id for note in fresh]))
                list(pool.map(engine.kill, [note.id for note in self.running]))
                time.sleep(PAUSE_SECONDS)

    def _note(self, container: Mapping[str, Any], engine: ContainerEngine) -> Note:
        """Return what is noted of a container, or what its labels say."""
        identity = str(container["Id"])
        if identity in self._known:
            return self._known[identity]
        labels = container.get("Labels") or {}
        note = self._known[identity] = Note(
            identity,
            str(labels.get(LABEL_CELL, "")),
            str(labels.get(LABEL_ROLE, "")),
            str(labels.get(LABEL_AGENT, "")),
            local=engine.local(os.uname().release),
        )
        return note


def _here(known: Mapping[str, Note]) -> list[str]:
    return [note.id for note in known.values() if note.local]


def _say_killed(
    swept: CellsSwept,
    known: Mapping[str, Note],
    ended: Mapping[str, Collection[Known]],
    found: Collection[str],
) -> None:
    counts: Counter[str] = Counter()
    agents = {}
    for one in known.values():
        if one.role == "cell" and (one.id in ended or one.id in found):
            counts[one.name] += len(ended.get(one.id, ()))
            agents[one.name] = one.agent
    for name, count in sorted(counts.items()):
        of = f" of agent {agents[name]}" if agents[name] else ""
        many = "1 process" if count == 1 else f"{count} processes"
        swept.killed.append(f"cell {name}{of}" + (f": {many}" if count else ""))


def _say_silent(swept: CellsSwept, known: Mapping[str, Note], problem: str) -> None:
    """Say what is certain of cells without the engine."""
    why = problem or "it did not answer in time"
    far = [note.name for note in known.values() if not note.local and note.role == "cell"]
    if far:
        swept.left.append(
            f"cells {', '.join(sorted(far))} are in a virtual machine, and its engine did not "
            f"end them: {why}"
        )
    if known:
        swept.notes.append(
            f"the container engine was not used ({why}); "
            "the processes of cells were ended on this host directly"
        )
