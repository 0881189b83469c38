# SPDX-License-Identifier: Apache-2.0
"""Fixtures that many tests share. Where tests must run, a missing engine fails them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import docker
import docker.errors
import pytest
from hypothesis import settings

from sandbox.containers.endpoints import connect
from sandbox.containers.images import Images, ensure_images
from sandbox.containers.plan import LABEL_TEST
from sandbox.containers.progress import SilentProgress
from sandbox.errors import Unavailable
from tests.examples import FEW, QUICK

MUST_RUN = os.environ.get("LOCKGATE_TESTS_MUST_RUN") == "1"

# Where all must pass, property tests try the same examples each time; elsewhere they try new ones.
# No example is timed: that would tell of the machine, not of the code.
settings.register_profile("may-skip", deadline=None)
settings.register_profile("must-run", derandomize=True, deadline=None)
settings.register_profile("quick", max_examples=FEW, deadline=None)
if MUST_RUN:
    settings.load_profile("must-run")
elif QUICK:
    settings.load_profile("quick")

STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")
"""What Python says before a process is started."""


LONG = ("test_crashes.py", "test_crashing_engine.py")
"""Files whose tests take a minute each: they come first, each for itself."""
LONG_SECONDS = 1200
"""When such a test is taken to hang: it walks through all steps of a call, beside others."""


DIED = pytest.StashKey[list[str]]()
"""Names of processes that died while they ran tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C; and start no process in place of one that died, which might wait for ever."""
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        and threading.current_thread() is threading.main_thread()
    ):  # started in the background; what tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"
    if QUICK:
        sys.addaudithook(_skip_at_a_process)


_running: list[str] = []
"""The test that runs now."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note which test runs."""
    _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        _running.pop()


def _skip_at_a_process(event: str, _arguments: tuple[Any, ...]) -> None:
    if _running and event in STARTS:
        pytest.skip("it starts a process")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Note a process that died: what it had left was not run."""
    if error:
        node.config.stash.setdefault(DIED, []).append(node.gateway.id)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let no run pass in which a process died."""
    if session.config.stash.get(DIED, []):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which processes died."""
    for name in config.stash.get(DIED, []):
        terminalreporter.write_line(f"{name}, which ran tests, died: not all tests were run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs an engine, so that `-m "not docker"` leaves it out; put long tests first.

    Where several processes run the tests, all of a file go to one of them.
    """
    for item in items:
        if "docker_client" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.docker)
        if item.path.name in LONG:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
        elif config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: (item.path.name not in LONG, "container" not in item.path.parts))


def opened_below(folder: Path) -> list[str]:
    """Return what this process has open in a folder: other tests' descriptors come and go."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing itself, or a thread's
            found.append(entry.readlink())
    return sorted(str(path) for path in found if path.is_relative_to(folder))


def cannot_run(reason: str) -> NoReturn:
    """Skip a test that this host cannot run, or fail it where it must run."""
    if MUST_RUN:
        pytest.fail(f"must run here, but cannot: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def run_id() -> str:
    """Return the value of the label LABEL_TEST on everything that this test run makes."""
    return uuid.uuid4().hex[:12]


@pytest.fixture(scope="session")
def docker_client(run_id: str) -> Iterator[docker.DockerClient]:
    """Return a client of the engine that runs; at the end, what carries the run's label goes."""
    try:
        client = connect()
    except Unavailable as error:
        cannot_run(str(error))
    yield client
    made = f"{LABEL_TEST}={run_id}"
    for container in client.containers.list(all=True, filters={"label": made}):
        with contextlib.suppress(docker.errors.APIError):
            container.remove(force=True, v=True)
    for volume in client.volumes.list(filters={"label": made}):
        with contextlib.suppress(docker.errors.APIError):
            volume.remove(force=True)


@pytest.fixture(scope="session")
def images(docker_client: docker.DockerClient) -> Images:
    """Return this version's images, built if they are missing."""
    return ensure_images(docker_client, SilentProgress())
