# SPDX-License-Identifier: Apache-2.0
"""How a person is told at once: the bell of the agent's terminal, a notice on the desktop."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.agents.registering import register
from sandbox.approvals.notices import Notices, ring
from sandbox.config.settings import NoticeSettings
from sandbox.host.dirs import Dirs
from sandbox.processes.table import Host

WAIT_SECONDS = 120
WAITS = "import sys; print('here', flush=True); sys.stdin.read()"
SERVED = """
import asyncio, sys
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method

class Notifications(ServiceInterface):
    @dbus_method()
    def GetCapabilities(self) -> "as":
        return ["body"]

    @dbus_method()
    def GetServerInformation(self) -> "ssss":
        return ["shown", "nobody", "1", "1.2"]

    @dbus_method()
    def Notify(self, app: "s", old: "u", icon: "s", title: "s", body: "s", actions: "as",
               hints: "a{sv}", timeout: "i") -> "u":
        print(app, title, body, sep="|", flush=True)
        return 1

async def serve():
    bus = await MessageBus().connect()
    bus.export("/org/freedesktop/Notifications", Notifications("org.freedesktop.Notifications"))
    await bus.request_name("org.freedesktop.Notifications")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


@pytest.fixture
def dirs() -> Iterator[Dirs]:
    with tempfile.TemporaryDirectory(prefix="lg-") as root:
        yield Dirs.under(Path(root)).create()


def tell(dirs: Dirs, agent: str, *, calls: int = 1, **settings: bool) -> None:
    notices = Notices(dirs, NoticeSettings(**settings))
    asyncio.run(notices.tell([(agent, "/home/me/sh<b>op")] * calls))


def rung(terminal: int, seconds: float) -> bytes:
    """Return what a terminal is sent within so many seconds, up to a bell."""
    seen = b""
    while b"\a" not in seen and select.select([terminal], [], [], seconds)[0]:
        seen += os.read(terminal, 100)
    return seen


def test_the_terminal_of_an_agent_rings_and_no_other(dirs: Dirs) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", WAITS])
    try:
        while b"here" not in os.read(terminal, 100):
            pass
        register(dirs, pid, name="main", source="test")
        tell(dirs, "other", desktop=False)
        tell(dirs, "main", desktop=False, bell=False)
        ours, theirs = pty.openpty()  # a terminal of nobody's
        assert not ring(Host().terminal(1))
        tell(dirs, "main:sub:1", desktop=False)
        assert rung(terminal, WAIT_SECONDS).count(b"\a") == 1
        assert rung(ours, 0) == rung(terminal, 0) == b""
        assert ring(os.fstat(theirs).st_rdev)
        assert rung(ours, WAIT_SECONDS) == b"\a"
        os.close(ours)
        os.close(theirs)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.parametrize("device", [0, os.makedev(1, 3), os.makedev(8, 0)])
def test_what_is_no_terminal_does_not_ring(device: int) -> None:
    assert not ring(device)


def test_the_desktop_shows_who_asks_where_and_no_word_of_the_call(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = subprocess.PIPE
    words = ["dbus-daemon", "--session", "--nofork", "--print-address"]
    with subprocess.Popen(words, stdout=pipe, text=True) as daemon:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", daemon.stdout.readline().strip())
        with subprocess.Popen([sys.executable, "-c", SERVED], stdout=pipe, text=True) as shown:
            assert shown.stdout is not None
            assert shown.stdout.readline() == "ready\n"
            tell(dirs, "main", desktop=False)
            tell(dirs, "main:<i>x</i>\x1b[2J")
            line = shown.stdout.readline()
            tell(dirs, "main", calls=12)
            several = shown.stdout.readline()
            shown.kill()
        daemon.kill()
    counted = "12 calls wait for you: lockgate approvals --watch"
    assert several == f"Lockgate|Lockgate asks|{counted}\n"
    assert line == (
        "Lockgate|Lockgate asks|main:&lt;i&gt;x&lt;/i&gt;\\x1b[2J waits for you in "
        "sh&lt;b&gt;op: lockgate approvals --watch\n"
    )


def test_a_desktop_that_is_not_there_is_no_failure(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={dirs.state}/no-such-bus")
    tell(dirs, "main")
