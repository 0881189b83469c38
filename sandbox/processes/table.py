# SPDX-License-Identifier: Apache-2.0
"""The processes of this host, and signals to exactly one of them.

A process is named by its number and its start time in clock ticks since the boot, which together
no other process of this boot has. INVARIANT (P10, "never another's"): a signal goes to a handle
whose process was compared with that name after the handle was opened.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from sandbox.processes.scarcity import refuse_scarcity

MARKER = "LOCKGATE_AGENT"
"""The variable that marks an agent's processes: `ID:TOKEN`."""
_MARKER = f"{MARKER}=".encode()
_CONTAINER = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_PROC = "/proc"
_GROUPS = (
    "/sys/fs/cgroup/freezer/docker/{}/cgroup.procs",
    "/sys/fs/cgroup/docker/{}/cgroup.procs",
    "/sys/fs/cgroup/system.slice/docker-{}.scope/cgroup.procs",
    "/sys/fs/cgroup/freezer/system.slice/docker-{}.scope/cgroup.procs",
)
"""Where engines put the control group of a container, in both versions and with both drivers."""
_MOST = 1 << 22


class Known(NamedTuple):
    """A process's name: its number and its start in ticks since the boot."""

    pid: int
    created: int


class Proc(NamedTuple):
    """What the table says of one process."""

    pid: int
    ppid: int
    session: int
    created: int
    """Clock ticks since the boot."""
    state: str
    """One letter, as `ps` shows it."""
    threads: int
    name: str

    @property
    def known(self) -> Known:
        """Its name."""
        return Known(self.pid, self.created)

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs. Threads may live on after the first one has exited."""
        return self.state in "ZX" and self.threads <= 1


class Table(dict[int, Proc]):
    """All processes by number, as one pass over the host saw them."""

    missed: frozenset[int] = frozenset()
    """Numbers that were listed, and whose processes had ended before they were looked at."""


class Sent(str, Enum):
    """What became of a signal."""

    SENT = "sent"
    GONE = "gone"
    """The process is gone, or another one has its number."""
    FORBIDDEN = "forbidden"
    """The process belongs to somebody else."""


class Host:
    """This host's processes."""

    def table(self) -> Table:
        """Return all processes by number; those that end meanwhile may be left out."""
        found, missed = Table(), set()
        for name in _names(_PROC):
            if name.isdecimal():
                if (one := self.process(int(name))) is not None:
                    found[one.pid] = one
                else:
                    missed.add(int(name))
        found.missed = frozenset(missed)
        return found

    def complete(self, table: Table, pids: Iterable[int]) -> None:
        """Add processes to a table that came after it was made."""
        for pid in pids:
            if pid not in table and (one := self.process(pid)) is not None:
                table[pid] = one

    def process(self, pid: int) -> Proc | None:
        """Return one process, or None if there is none."""
        text = _content(f"{_PROC}/{pid}/stat")
        return _parsed(text) if text else None

    def line(self, pid: int) -> list[Proc]:
        """Return a process and those that it comes from, the nearest first."""
        found: list[Proc] = []
        while pid > 0 and (one := self.process(pid)) is not None and one not in found:
            found.append(one)
            pid = one.ppid
        return found

    def marker(self, pid: int) -> str | None:
        """Return the mark in a process's environment, or None; not every process shows it."""
        return self._mark(pid, exited=True) or None

    def _mark(self, pid: int, *, exited: bool) -> str | None:
        """Return a process's mark, an empty text for none, or None where it shows nothing.

        `exited`: its first thread may have exited while others live, which are asked then.
        """
        text = _content(f"{_PROC}/{pid}/environ")
        if not text and exited:
            for thread in _names(f"{_PROC}/{pid}/task"):
                text = text or _content(f"{_PROC}/{pid}/task/{thread}/environ")
        for entry in text.split(b"\0") if _MARKER in text else ():
            if entry.startswith(_MARKER):
                return entry[len(_MARKER) :].decode("utf-8", "replace")
        return "" if text else None

    def markers(
        self, table: Mapping[int, Proc], *, since: int, known: dict[Known, str] | None = None
    ) -> dict[int, str]:
        """Return the marks of the processes that are not older than `since` (ticks).

        `known` keeps, from one pass to the next, what processes showed: a mark or, as an empty
        text, none. One that shows no environment at all is looked at again.
        """
        seen: dict[Known, str] = {} if known is None else known
        found = {}
        for pid, one in table.items():
            if one.created < since:
                continue
            mark = seen.get(one.known)
            if mark is None:
                mark = self._mark(pid, exited=one.state == "Z" and one.threads > 1)
                if mark is not None:
                    seen[one.known] = mark
            if mark:
                found[pid] = mark
        return found

    def inside_of(self, containers: Collection[str]) -> dict[int, str] | None:
        """Return the processes of containers by their control groups, without a look at all others.

        None where the group of one is not where engines usually put it.
        """
        found: dict[int, str] = {}
        for identity in containers:
            lists = [text for place in _GROUPS if (text := _content(place.format(identity)))]
            if not any(lists):
                return None
            for text in lists:
                found |= {int(pid): identity for pid in text.split() if pid.isdigit()}
        return found

    def containers(self, pids: Iterable[int]) -> dict[int, str]:
        """Return the id of the container that each process is in, by its control group."""
        found = {}
        for pid in pids:
            if (match := _CONTAINER.search(_content(f"{_PROC}/{pid}/cgroup"))) is not None:
                found[pid] = match[0].decode("ascii")
        return found

    def send(self, one: Known, number: signal.Signals, *, container: str | None = None) -> Sent:
        """Send a signal to exactly this process; with `container`, only if it is in that one."""
        try:
            handle = os.pidfd_open(one.pid)
        except ProcessLookupError:
            return Sent.GONE
        try:
            now = self.process(one.pid)
            if now is None or now.created != one.created:
                return Sent.GONE
            if container and self.containers((one.pid,)).get(one.pid) != container:
                return Sent.GONE
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return Sent.GONE
        except PermissionError:
            return Sent.FORBIDDEN
        finally:
            os.close(handle)
        return Sent.SENT

    def owner(self, pid: int) -> int | None:
        """Return the uid of a process, or None if it is gone."""
        try:
            return Path(f"{_PROC}/{pid}").stat().st_uid
        except OSError:
            return None

    def command(self, pid: int) -> str:
        """Return a process's command line, as one text; agents choose it, so make it safe."""
        text = _content(f"{_PROC}/{pid}/cmdline").rstrip(b"\0")
        return text.replace(b"\0", b" ").decode("utf-8", "backslashreplace")

    def words(self, pid: int) -> list[str]:
        """Return a process's command line, word by word; none where it cannot be read."""
        text = _content(f"{_PROC}/{pid}/cmdline").rstrip(b"\0")
        return text.decode("utf-8", "backslashreplace").split("\0") if text else []

    def terminal(self, pid: int) -> int:
        """Return the device number of the terminal that a process is controlled from; 0: none."""
        _, _, rest = _content(f"{_PROC}/{pid}/stat").rpartition(b")")
        fields = rest.split(None, 5)
        return int(fields[4]) & 0xFFFFFFFF if len(fields) > 4 else 0

    def has_terminal(self, pid: int) -> bool:
        """Whether a process has a terminal that it is controlled from."""
        return self.terminal(pid) != 0

    def inside(self, pid: int) -> bool:
        """Whether a process is in a process namespace below ours (a container)."""
        for line in _content(f"{_PROC}/{pid}/status").split(b"\n"):
            if line.startswith(b"NSpid:"):
                return len(line.split()) > 2
        return False


def boot() -> str:
    """Return what names this boot of the machine; start times are good for one boot only."""
    return _content(f"{_PROC}/sys/kernel/random/boot_id").decode("ascii", "replace").strip()


def _parsed(text: bytes) -> Proc | None:
    """Parse /proc/PID/stat. The name in it may hold anything, brackets and blanks among that."""
    try:
        start, _, rest = text.rpartition(b")")
        number, _, name = start.partition(b"(")
        fields = rest.split(None, 20)
        return Proc(
            pid=int(number),
            ppid=int(fields[1]),
            session=int(fields[3]),
            created=int(fields[19]),
            state=fields[0].decode("ascii"),
            threads=int(fields[17]),
            name=name.decode("utf-8", "backslashreplace"),
        )
    except (ValueError, IndexError):
        return None


def _names(folder: str) -> list[str]:
    """Return what a folder of /proc holds; nothing for a process that has ended. Raises Unavailable
    where nothing can be read at all just now."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone; half the time
    except OSError as error:
        refuse_scarcity(error)
        return []


def _content(path: str) -> bytes:
    """Return a whole file of /proc, empty where it cannot be read. Raises Unavailable where nothing
    can be read at all just now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        refuse_scarcity(error)
        return b""
    try:
        data = os.read(fd, 4096)
        if len(data) < 4096:
            return data
        parts = [data]
        while data and sum(map(len, parts)) < _MOST:
            parts.append(data := os.read(fd, 1 << 16))
        return b"".join(parts)
    except OSError as error:
        refuse_scarcity(error)
        return b""
    finally:
        os.close(fd)
