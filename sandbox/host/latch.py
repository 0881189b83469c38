# SPDX-License-Identifier: Apache-2.0
"""The stop latch on disk: one for everything, one for each agent that was stopped or paused.

Whatever starts something asks `check` before and after. The file `STOP` may be made by hand. Where
the state folder cannot be written (a full disk), the latch is kept beside the socket instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sandbox.errors import Stopped, Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.text.terminal import safe_line

NAME = "STOP"
AGENTS = "stops"
BETWEEN = ":"
"""Between an agent's name and that of its sub-agent, as in policy files (levels)."""
TIME = "%Y-%m-%d %H:%M:%S %z"
_mending: ContextVar[bool] = ContextVar("lockgate_mending", default=False)


@contextlib.contextmanager
def mending() -> Iterator[None]:
    """Let what is done within start containers while all is stopped: a person's undo or discard.

    Nothing of an agent runs in them.
    """
    before = _mending.set(True)
    try:
        yield
    finally:
        _mending.reset(before)


@dataclass(frozen=True, slots=True)
class LatchInfo:
    """Who stopped what, and when."""

    reason: str
    at: str
    """Local time with its zone, as text; empty where it is not known."""
    agent: str | None = None
    """The agent that it stops; None: everything."""
    until: float | None = None
    """Seconds since the epoch at which a pause ends by itself; None: only a person ends it."""
    pid: int = 0
    """The process that set it and sweeps; 0: it was set by hand, and nobody sweeps yet."""
    swept: bool = False
    """Whether the sweep is done."""

    @property
    def paused(self) -> bool:
        """Whether it is a pause, which ends by itself."""
        return self.until is not None

    def message(self) -> str:
        """Say why calls are refused, since when, and what ends that."""
        why = safe_line(self.reason)
        if self.until is not None:
            clock = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(self.until))
            return (
                f"agent `{self.agent}` is paused until {clock}, because {why}; "
                f"a person ends that with `lockgate agent resume {self.agent}`"
            )
        since = f" at {self.at}" if self.at else ""
        if self.agent is None:
            return f"stopped{since}: {why}; a person clears it with `lockgate resume`"
        return (
            f"agent `{self.agent}` was stopped{since}: {why}; "
            f"a person clears it with `lockgate resume --agent {self.agent}`"
        )


class Latch:
    """The latches of a state folder."""

    def __init__(self, dirs: Dirs) -> None:
        self._places = (dirs.state, dirs.runtime)
        self._all = [os.fspath(place / NAME) for place in self._places]
        self._agents = [os.fspath(place / AGENTS) for place in self._places]
        self._held: dict[str | None, LatchInfo] = {}

    # -- setting

    def set(self, reason: str, *, agent: str | None = None, until: float | None = None) -> None:
        """Set a latch, on disk when this returns; one that is set already stays as it is.

        A stop takes the place of a pause. Raises Unavailable where it cannot be written; what was
        made of the file counts as set all the same.
        """
        now = self.read(agent)
        if now is not None and not (now.paused and until is None):
            return
        self._set(LatchInfo(reason, time.strftime(TIME), agent, until, os.getpid()))

    def _set(self, info: LatchInfo) -> None:
        problem = ""
        for place in self._places:
            try:
                _write(self._path(place, info.agent), json.dumps(asdict(info)))
                return
            except OSError as error:
                problem = problem or f"`{place}`: {error.strerror or error}"
        raise Unavailable(f"the stop latch cannot be written in {problem}")

    def hold(self, reason: str, agent: str | None = None) -> None:
        """Hold calls of this process back where no latch can be written, as on a full disk.

        It is written as soon as there is room, and then counts as any latch.
        """
        self._held[agent] = LatchInfo(reason, time.strftime(TIME), agent, None, os.getpid())

    def _write_held(self) -> None:
        for agent, info in list(self._held.items()):
            with contextlib.suppress(Unavailable):
                self._set(info)
                del self._held[agent]

    def mark_swept(self, agent: str | None = None) -> None:
        """Note in a latch that its sweep is done. Without room on the disk nothing is noted."""
        info = self.read(agent)
        if info is None or info.paused:
            return
        data = json.dumps(asdict(replace(info, agent=agent, swept=True)))
        for place in self._places:
            with contextlib.suppress(OSError):
                # Never made anew: a person may have cleared it just now.
                flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                fd = os.open(self._path(place, agent), flags)
                try:
                    _fill(fd, data)
                finally:
                    os.close(fd)

    def clear(self, agent: str | None = None) -> None:
        """Clear a latch. Raises Unavailable."""
        for place in self._places:
            path = self._path(place, agent)
            try:
                path.unlink(missing_ok=True)
                _sync(path.parent)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Unavailable(f"`{path}` cannot be removed: {error.strerror}") from None

    # -- asking

    def check(self, agent: str | None = None) -> None:
        """Raise Stopped while everything, this agent, or one above it (`above:below`) is stopped.

        Costs four looks at the file system where nothing is stopped.
        """
        if _mending.get():
            return
        if self._held:
            self._check_held(agent)
        if any(os.path.lexists(path) for path in self._all) and (info := self.read()) is not None:
            raise Stopped(info.message())
        if agent is None or not any(os.path.lexists(path) for path in self._agents):
            return
        for name in above(agent):
            if (info := self.read(name)) is not None:
                raise Stopped(info.message())

    def _check_held(self, agent: str | None) -> None:
        self._write_held()
        for name in (None, *(above(agent) if agent is not None else ())):
            if (info := self._held.get(name)) is not None:
                raise Stopped(info.message())

    def read(self, agent: str | None = None) -> LatchInfo | None:
        """Return why calls are stopped, or None. A latch that cannot be read counts as set."""
        for place in self._places:
            info = _read(self._path(place, agent), agent)
            if info is not None and not (info.until is not None and info.until <= time.time()):
                return info
        return None

    def agents(self) -> list[LatchInfo]:
        """Return the agents that are stopped or paused."""
        found: dict[str, LatchInfo] = {}
        for folder in self._agents:
            with contextlib.suppress(OSError):
                for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names alone
                    info = _read(Path(folder) / name, None)
                    if info is not None and info.agent and self.read(info.agent) is not None:
                        found.setdefault(info.agent, info)
        return list(found.values())

    def in_force(self) -> list[LatchInfo]:
        """Return all stops and pauses: that of everything first, then those of agents."""
        everything = self.read()
        return [*([everything] if everything is not None else []), *self.agents()]

    def _path(self, place: Path, agent: str | None) -> Path:
        if agent is None:
            return place / NAME
        # A digest: an agent's name may hold anything, and may be as long as it likes.
        return place / AGENTS / hashlib.sha256(agent.encode("utf-8", "replace")).hexdigest()[:32]


def above(agent: str) -> Iterator[str]:
    """Yield an agent's name and those of the agents above it, which its name says (`a:b`)."""
    parts = agent.split(BETWEEN)
    for count in range(len(parts), 0, -1):
        yield BETWEEN.join(parts[:count])


def below(agent: str, one: str) -> bool:
    """Whether an agent's name is `agent`, or that of a sub-agent of it (`agent:...`)."""
    return one == agent or one.startswith(agent + BETWEEN)


def _read(path: Path, agent: str | None) -> LatchInfo | None:
    if not os.path.lexists(path):
        return None
    try:
        text = own_files.read(path)
    except OSError as error:
        if not os.path.lexists(path):  # it was cleared just now
            return None
        return LatchInfo(f"the latch cannot be read: {error.strerror}", _made(path), agent)
    except UnicodeDecodeError:
        text = ""
    try:
        data = json.loads(text)
        until = data.get("until")
        return LatchInfo(
            str(data["reason"]),
            str(data["at"]),
            data.get("agent"),
            float(until) if until is not None else None,
            int(data.get("pid", 0)),
            data.get("swept") is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return LatchInfo(_words(text) or "set by hand", _made(path), agent)


def _made(path: Path) -> str:
    """Return when a latch was made or written to."""
    try:
        return time.strftime(TIME, time.localtime(path.lstat().st_mtime))
    except OSError:
        return ""


def _words(text: str) -> str:
    """Return what a person wrote into the file, in one line."""
    return safe_line(" ".join(text.split()))[:200]


def _write(path: Path, text: str) -> None:
    """Write a latch. Its existence alone stops, so it stays when its text cannot be written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        _fill(fd, text)
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        _sync(path.parent)


def _fill(fd: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError):  # no room for the reason
        if os.pwrite(fd, data, 0) == len(data):
            os.ftruncate(fd, len(data))
    with contextlib.suppress(OSError):
        os.fsync(fd)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


__all__ = ["Latch", "LatchInfo", "above", "below"]
