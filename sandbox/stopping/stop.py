# SPDX-License-Identifier: Apache-2.0
"""The emergency stop: the latch first, then every cell and every agent's process, then the answer.

Works without a supervisor, with an engine that hangs and on a full disk. INVARIANT (P10): what is
not named in `left` does not run when `stop_all` returns; only a person's `resume` clears the latch.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from sandbox.agents.registry import Agent, Registry, find_agent, with_children
from sandbox.containers.ledger import ContainerNotes
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.latch import TIME, Latch, LatchInfo, below
from sandbox.processes.sweep import Swept, sweep
from sandbox.processes.table import Host, Known
from sandbox.stopping.containers import CellsSwept, CellSweep, ContainerEngine
from sandbox.stopping.silent import end_silent
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.audit.call_entry import CallEntry
    from sandbox.results import StopReport

_WHAT_CHARS = 120
"""Characters of a command that a stop shows."""
LAST = 5
"""How many actions the answer lists."""
ANSWER_SECONDS = 5.0
"""How long each part of the record is waited for."""
LOOKED_AT = 100
"""Calls among which landed ones and held ones are looked for."""
LOWEST_REAL_TIME = 1
"""Real-time priority of a stop: what it is to end may keep every processor busy."""
APPROVALS = "approvals.sqlite"
WORDS = frozenset(("stop", "abort"))

T = TypeVar("T")
Hold = Callable[[str, str | None], None]
"""Takes a reason and an agent (None: everybody)."""

__all__ = ["Latch", "LatchInfo", "Stop", "is_stop_word", "stop_all"]


def is_stop_word(text: str) -> bool:
    """Whether a text is the word `stop` or `abort` and nothing else.

    Case, blanks and punctuation around it do not matter; any other word does (`stop the server`).
    """
    kept = "".join(" " if unicodedata.category(c)[0] in "PSZC" else c for c in text)
    return kept.strip().casefold() in WORDS


def stop_all(
    dirs: Dirs,
    reason: str,
    *,
    agent: str | None = None,
    own: bool = False,
    engine: ContainerEngine | None = None,
    host: Host | None = None,
    hold: Hold | None = None,
) -> StopReport:
    """Stop everything, or one agent with its children; return what was done.

    `own`: that agent itself asks, so it need not be known yet. `engine`: one that is connected
    already; else it is looked for. `hold`: what holds calls back
    in this process where the latch cannot be written. Raises BadInput for an agent that nobody
    knows. This process and those that it comes from are not ended; what of them is an
    agent's is named in `left`.
    """
    return Stop(dirs, reason, agent=agent, own=own, engine=engine, host=host, hold=hold).run()


@contextlib.contextmanager
def _before_others() -> Iterator[None]:
    """Have a processor before what is to be ended, where the system lets us (as root).

    A better niceness would not do: control groups and sessions share the processors evenly.
    """
    usual = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(LOWEST_REAL_TIME))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, *usual)


def _in_time(work: Callable[[], T]) -> T:
    """Do what others may hold up, for a short time. Raises Unavailable, or what the work raises.

    A halted process may hold the log's lock, and a stop that does not answer is none.
    """
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = done.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise Unavailable("another process holds it up") from None
    if error is not None:
        raise error
    return cast("T", result)


@dataclass(frozen=True, slots=True)
class _Whom:
    """Whom a stop concerns."""

    path: str | None
    """None: everybody."""
    agents: tuple[Agent, ...]

    def holds(self, name: object) -> bool:
        """Whether a call of this agent is concerned."""
        return self.path is None or (isinstance(name, str) and below(self.path, name))


class Stop:
    """One stop."""

    def __init__(
        self,
        dirs: Dirs,
        reason: str,
        *,
        agent: str | None = None,
        own: bool = False,
        engine: ContainerEngine | None = None,
        host: Host | None = None,
        hold: Hold | None = None,
        last: bool = False,
    ) -> None:
        """`last`: whoever calls ends what asked for this stop, when this process has ended."""
        self._dirs = dirs
        self._reason = reason
        self._agent = agent
        self._own = own
        self._engine = engine
        self._host = host or Host()
        self._registry = Registry(dirs, self._host)
        self._latch = Latch(dirs)
        self._hold = hold
        self._last = last
        self.asking: tuple[Known, ...] = ()
        """This process and those that it comes from, where they are an agent's: they asked."""

    def run(self) -> StopReport:
        """Carry it out."""
        with _before_others():
            return self._run()

    def _run(self) -> StopReport:
        problems = [] if self._agent is not None else self._set_latch(None)
        agents, unread = self._registry.readable()
        problems += [f"what runs of an agent may go on: {error}" for error in unread]
        whom = self._whom(agents)
        if self._agent is not None:
            problems += self._set_latch(whom.path)
        cells = CellSweep(self._host, ContainerNotes(self._dirs), self._connected, agent=whom.path)
        cells.begin()
        unsure = [agent.path for agent in whom.agents if self._registry.unwatched(agent)]
        try:
            swept, asked = self._sweep_agents(whom)
        finally:
            ended = cells.finish()  # whatever failed meanwhile
        silent, gone = end_silent(self._dirs, self._host)
        if not gone:
            problems.append(silent)
        with contextlib.suppress(SandboxError):
            for agent in whom.agents:  # who waited for it may have been ended as another's
                (self._registry.let_go if swept.left or asked else self._registry.remove)(agent)
            self._registry.drop_ended()
            unsure += self._registry.take_lost(whom.holds)
        problems += [
            f"agent {one}: who watched it (`lockgate agent run`) was killed, so whatever left its "
            "processes after that is not known, and may run"
            for one in dict.fromkeys(unsure)
        ]
        self._latch.mark_swept(whom.path)
        report = self._report(whom, problems, ended, swept, asked)
        if silent and gone:
            report = report.model_copy(update={"notes": (*report.notes, silent)})
        return self._recorded(self._revoked(report, whom))

    # -- parts of it

    def _set_latch(self, agent: str | None) -> list[str]:
        try:
            self._latch.set(self._reason, agent=agent)
        except SandboxError as error:
            if self._hold is not None:
                self._hold(self._reason, agent)
            return [f"calls are held back by no latch: {error}; what runs was ended all the same"]
        return []

    def _whom(self, agents: Sequence[Agent]) -> _Whom:
        if self._agent is None:
            return _Whom(None, tuple(agents))
        agent = find_agent(agents, self._agent)
        if agent is not None:
            return _Whom(agent.path, tuple(with_children(agents, agent)))
        if not self._own and not self._is_known(self._agent):
            raise BadInput(
                f"there is no agent `{safe_line(self._agent)}`; see `lockgate agent list`, "
                "or stop everything with `lockgate stop`"
            )
        return _Whom(self._agent, ())

    def _is_known(self, name: str) -> bool:
        """Whether an agent that is not registered has a cell, or made a call."""
        if any(note.is_of(name) for note in ContainerNotes(self._dirs).all().values()):
            return True
        return any(below(name, str(call.agent)) for call in self._calls())

    def _connected(self) -> ContainerEngine:
        from sandbox.containers.endpoints import connect
        from sandbox.containers.engine import Engine
        from sandbox.containers.ledger import state_label

        return self._engine or Engine(connect(), state_label(self._dirs))

    def _sweep_agents(self, whom: _Whom) -> tuple[Swept, list[str]]:
        """End the agents' processes; return also what is spared of them, because it asks."""
        if not whom.agents:
            return Swept(), []
        own = {proc.known for proc in self._host.line(os.getpid()) if proc.pid > 1}
        trees = self._registry.trees(whom.agents)
        groups = [group for agent in whom.agents if (group := self._registry.group(agent))]
        if any(os.getpid() in group.members() for group in groups):
            groups = []  # a frozen group would freeze us
        swept = sweep(self._host, trees, groups, spared=own)
        asking = swept.spared.values()
        self.asking = tuple(swept.spared)
        then = "ends when this command has ended" if self._last else "goes on"
        return swept, [
            f"process {target.process.pid} ({target.process.name}) of agent {target.agent} "
            f"asked for this stop, and {then}"
            for target in asking
            if target.process.pid != os.getpid() or not self._last
        ]

    # -- the answer

    def _calls(self) -> Sequence[CallEntry]:
        from sandbox.audit.store import (
            Store,  # not before the sweep, which must not wait for imports
        )

        try:
            return _in_time(lambda: Store(self._dirs).calls(limit=LOOKED_AT))
        except (SandboxError, OSError, ValueError, KeyError):
            return ()  # a record that cannot be read keeps no stop from its work

    def _report(
        self,
        whom: _Whom,
        problems: list[str],
        cells: CellsSwept,
        swept: Swept,
        asked: list[str],
    ) -> StopReport:
        from sandbox.results import StopReport

        calls = [call for call in self._calls() if whom.holds(call.agent)]
        undoable, gone = self._undoable(calls)
        return StopReport(
            reason=self._reason,
            agent=whom.path,
            at=time.strftime(TIME),
            killed=(*swept.by_agent(), *cells.killed),
            left=(*problems, *swept.left, *(() if self._last else asked), *cells.left),
            notes=(*(asked if self._last else ()), *cells.notes, *gone),
            last=tuple(
                f"{call.id} {_did(call)}: {call.ending or 'not finished'}" for call in calls[:LAST]
            ),
            rollback=tuple(f"lockgate undo {one}" for one in undoable),
            held=tuple(
                f"lockgate show {call.id}"
                for call in calls
                if call.is_held and call.ending == "ran"
            ),
        )

    def _undoable(self, calls: Sequence[CallEntry]) -> tuple[list[str], list[str]]:
        """Return the calls that stand and can be taken back, and a line about those that cannot."""
        from sandbox.host.before_images import is_kept

        stand = [call for call in calls if call.landed and not (call.undone_by or call.undone)]
        stand = [call for call in stand if not call.parts]
        try:
            kept = _in_time(
                lambda: {call.id for call in stand if is_kept(call.workspaces, call.last)}
            )
        except (SandboxError, OSError):
            return [call.id for call in stand], []  # a workspace that does not answer
        gone = [call for call in stand if call.id not in kept]
        lines = [
            f"landed, and cannot be undone, since nothing is kept of it: {call.id} {_did(call)}"
            for call in gone
        ]
        return [call.id for call in stand if call.id in kept], lines

    def _revoked(self, report: StopReport, whom: _Whom) -> StopReport:
        """Take back what was granted before: after a stop a person decides anew."""
        if not (self._dirs.state / APPROVALS).exists():
            return report
        from sandbox.approvals.store.grants import Grants  # takes a tenth of a second

        try:
            count = _in_time(lambda: Grants(self._dirs).revoke_all(time.time(), agent=whom.path))
        except (SandboxError, OSError) as error:
            said = f"grants could not be taken back: {error}"
        else:
            if not count:
                return report
            said = "1 grant was taken back" if count == 1 else f"{count} grants were taken back"
        return report.model_copy(update={"notes": (*report.notes, said)})

    def _recorded(self, report: StopReport) -> StopReport:
        from sandbox.audit.events.agents import StopRecord
        from sandbox.audit.store import Store

        record = StopRecord(**report.model_dump(mode="json"))
        try:
            _in_time(lambda: Store(self._dirs).append(record, durable=True))
        except (SandboxError, OSError) as error:
            return report.model_copy(
                update={"notes": (*report.notes, f"this stop could not be recorded: {error}")}
            )
        return report


def _did(call: CallEntry) -> str:
    """Return what a call of the record was about, on one line."""
    params = call.params or {}
    keys = ("command", "file_path", "path", "url")
    what = next((params[key] for key in keys if params.get(key)), "")
    line = safe_line(" ".join(str(what).split()))
    short = line if len(line) <= _WHAT_CHARS else line[: _WHAT_CHARS - 1] + "…"
    return short if call.tool == "Bash" and short else f"{call.tool} {short}".strip()
