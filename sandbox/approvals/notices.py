# SPDX-License-Identifier: Apache-2.0
"""Tell a person at once that a question waits: the bell of the agent's terminal, a desktop notice.

Neither carries a word that an agent wrote, but for names: both may be seen by others. Both are a
convenience: where they fail, the question stands in `lockgate approvals` all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import stat
from collections.abc import Sequence

from sandbox.agents.registry import Registry
from sandbox.config.settings import NoticeSettings
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN
from sandbox.reporting.bursts import Burst
from sandbox.text.terminal import safe_line

SECONDS = 5.0
"""How long a desktop may take over a notice."""
_BUS = "DBUS_SESSION_BUS_ADDRESS"
_PSEUDO, _CONSOLE = 136, 4
"""Major numbers of terminals (Documentation/admin-guide/devices.txt)."""
_NAME_CHARS = 80


class Notices:
    """What one supervisor tells a person beside the user's channel."""

    def __init__(self, dirs: Dirs, settings: NoticeSettings) -> None:
        """Reach for nothing yet."""
        self._registry = Registry(dirs)
        self._settings = settings
        self._burst = Burst[tuple[str, str]](self.tell)

    def begin(self, agent: str, workspace: str) -> None:
        """Announce a question, together with others that come soon, without waiting."""
        self._burst.add((agent, workspace))

    async def tell(self, some: Sequence[tuple[str, str]]) -> None:
        """Say that calls of agents (their paths) in workspaces wait; fails silently."""
        if self._settings.bell:
            for agent in dict.fromkeys(agent for agent, _ in some):
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._ring, agent)
        if self._settings.desktop and os.environ.get(_BUS):
            with contextlib.suppress(Exception):  # whatever a desktop makes of it
                async with asyncio.timeout(SECONDS):
                    await _show(some)

    def _ring(self, agent: str) -> None:
        """Ring the bell of the terminal at which an agent, or one above it, was started."""
        while agent:
            if (found := self._registry.find(agent)) is not None:
                ring(self._registry.host.terminal(found.pid))
                return
            agent = agent.rpartition(BETWEEN)[0]


def ring(device: int) -> bool:
    """Ring the bell of a terminal, named by its device number (0: none); return whether it is one
    of this user's. Raises OSError."""
    major, minor = os.major(device), os.minor(device)
    folder = {_PSEUDO: "/dev/pts/", _CONSOLE: "/dev/tty"}.get(major)
    if folder is None:
        return False
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    terminal = os.open(f"{folder}{minor}", flags)
    try:
        there = os.fstat(terminal)
        mine = there.st_rdev == device and there.st_uid == os.geteuid()
        if mine and stat.S_ISCHR(there.st_mode):
            os.write(terminal, b"\a")
            return True
        return False
    finally:
        os.close(terminal)


async def _show(some: Sequence[tuple[str, str]]) -> None:
    """Show a notice on the desktop, where the extra `desktop` is installed."""
    try:
        from desktop_notifier import DesktopNotifier
    except ImportError:
        return
    await DesktopNotifier(app_name="Lockgate", app_icon=None).send(
        title="Lockgate asks", message=f"{_said(some)}: lockgate approvals --watch"
    )


def _said(some: Sequence[tuple[str, str]]) -> str:
    """Say who waits where; of several, how many they are."""
    if len(some) > 1:
        return f"{len(some)} calls wait for you"
    [(agent, workspace)] = some
    where = workspace.rstrip("/").rsplit("/", 1)[-1]
    who, place = (html.escape(safe_line(one)[:_NAME_CHARS]) for one in (agent, where))
    return f"{who} waits for you in {place}"
