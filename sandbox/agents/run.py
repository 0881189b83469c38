# SPDX-License-Identifier: Apache-2.0
"""Start an agent program on this host under watch, wait for it, and give its exit status.

The program gets this process's terminal, input, output and signals, as if it had been started
without us. It runs only when it is registered, marked and in its control group, and no stop is in
force. This process adopts what the agent leaves behind, so that nothing leaves the tree unseen.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from policy.autonomy.roles import Roles
from sandbox.agents.registering import describe
from sandbox.agents.registry import Agent, Registry
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.processes.cgroup import ControlGroup
from sandbox.processes.table import MARKER

SAMPLE_SECONDS = 1.0
FIRST_SAMPLE_SECONDS = 0.05
_SUBREAPER = 36
_FROM_KERNEL = 128
"""`si_code` of a signal that the terminal sent to the whole group, the agent among it."""
_PASSED_ON = frozenset(
    (
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT),
    )
)
_WAITED_FOR = _PASSED_ON | {signal.SIGCHLD}
_GO, _NOT_FOUND = b"g", 127


def run(
    dirs: Dirs,
    command: Sequence[str],
    *,
    name: str | None = None,
    role: str | None = None,
    parent: str | None = None,
    roles: Roles | None = None,
) -> tuple[int, Agent, int]:
    """Run a program as an agent; return (status, agent, how many of its processes go on).

    The status is the program's own, or minus the number of the signal that ended it. Raises
    BadInput (no such program, name, role or parent), Stopped, Unavailable.
    """
    if shutil.which(command[0]) is None:
        raise BadInput(f"`{command[0]}` is not found, or cannot be run")
    registry = Registry(dirs)
    registry.drop_ended()
    Latch(dirs).check()
    _become_subreaper()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        own_session = not any(map(os.isatty, (0, 1, 2)))
        child = _Child(command, mask, own_session=own_session)
        try:
            agent = _registered(
                dirs, registry, child, name=name, role=role, parent=parent, roles=roles
            )
            child.go(agent)
        except BaseException:
            child.abandon()
            raise
        status = _Waiting(registry, agent, child.pid, own_session=own_session).wait()
        registry.note_seen()
        left = len(registry.members(agent))
        with contextlib.suppress(Unavailable):
            registry.drop_ended()
            registry.let_go(agent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return status, agent, left


def end_as(status: int) -> int:
    """Return the exit status, or end this process by the signal that ended the program."""
    if status >= 0:
        return status
    number = -status
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the dump is the program's, not ours
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return 128 + number


class _Child:
    """The process that becomes the program, once it is told under which mark."""

    def __init__(
        self, command: Sequence[str], mask: set[int | signal.Signals], *, own_session: bool
    ):
        self.command = command
        self._mark_reader, self._mark_writer = os.pipe()
        self._word_reader, self._word_writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(command, mask, own_session=own_session)
        os.close(self._mark_reader)
        os.close(self._word_writer)
        os.read(self._word_reader, 1)  # it is in its session now

    def go(self, agent: Agent) -> None:
        """Let it become the program. Raises BadInput where the kernel refuses to run it."""
        os.write(self._mark_writer, agent.mark.encode())
        os.close(self._mark_writer)
        self._mark_writer = -1
        with os.fdopen(self._word_reader, "rb") as words:
            problem = words.read()
        self._word_reader = -1
        if problem:
            raise BadInput(problem.decode("utf-8", "replace"))

    def abandon(self) -> None:
        """End it before it became anything."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for fd in (self._mark_writer, self._word_reader):
            if fd >= 0:
                os.close(fd)

    def _become(
        self, command: Sequence[str], mask: set[int | signal.Signals], *, own_session: bool
    ) -> NoReturn:
        try:
            os.close(self._mark_writer)
            os.close(self._word_reader)
            if own_session:
                os.setsid()
            os.write(self._word_writer, _GO)
            mark = os.read(self._mark_reader, 4096).decode()
            if not mark:  # whoever waits has changed its mind, or died
                os._exit(_NOT_FOUND)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], list(command), {**os.environ, MARKER: mark})  # noqa: S606
        except OSError as error:
            os.write(self._word_writer, f"`{command[0]}`: {error.strerror}".lower().encode())
        finally:
            os._exit(_NOT_FOUND)


class _Waiting:
    """Waits for the program; passes on signals, adopts orphans, notes what it starts."""

    def __init__(self, registry: Registry, agent: Agent, pid: int, *, own_session: bool) -> None:
        self._registry = registry
        self._agent = agent
        self._pid = pid
        self._own_session = own_session
        self._pause = FIRST_SAMPLE_SECONDS

    def wait(self) -> int:
        """Return the program's status, or minus the signal that ended it."""
        while True:
            info = signal.sigtimedwait(_WAITED_FOR, self._pause)
            if info is None:
                self._registry.note_seen()
                self._pause = min(2 * self._pause, SAMPLE_SECONDS)
            elif info.si_signo == signal.SIGCHLD:
                if (status := self._reap()) is not None:
                    return status
            elif self._own_session or info.si_code != _FROM_KERNEL:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, info.si_signo)

    def _reap(self) -> int | None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                return None
            if pid == self._pid:
                return os.waitstatus_to_exitcode(status)


def _registered(
    dirs: Dirs,
    registry: Registry,
    child: _Child,
    *,
    name: str | None,
    role: str | None,
    parent: str | None,
    roles: Roles | None,
) -> Agent:
    """Register the child. The latch is looked at before and after: P10."""
    agent = describe(
        registry,
        child.pid,
        name=name,
        role=role,
        parent=parent,
        source="run",
        roles=roles,
        program=shlex.join(child.command),
    )
    Latch(dirs).check(agent.path)
    own = registry.host.process(os.getpid())
    group = ControlGroup.make(agent.token, agent.id)
    if group is not None and not group.add(child.pid):
        group.remove()
        group = None
    agent = replace(
        agent,
        starter=(own.pid, own.created) if own else None,
        group=str(group.path) if group else None,
    )
    try:
        registry.add(agent)
    except SandboxError:
        child.abandon()
        if group is not None:
            group.remove()
        raise
    try:
        Latch(dirs).check(agent.path)
    except SandboxError:
        child.abandon()
        registry.remove(agent)
        raise
    return agent


def _become_subreaper() -> None:
    """Become the one that orphans among our descendants are given to."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise Unavailable(f"orphans cannot be adopted: {os.strerror(ctypes.get_errno())}")
