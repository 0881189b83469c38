# SPDX-License-Identifier: Apache-2.0
"""An agent let the supervisor run out of open files: its own entry could not be read, so that it
passed for a person and shut the supervisor down."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.agents.peer import Caller, Peer
from sandbox.agents.registering import register
from sandbox.agents.registry import Registry
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.operations.requests import ShutdownRequest
from sandbox.processes.scarcity import most_connections

MOST_LOOKS = 400


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return Dirs.under(tmp_path).create()


@pytest.fixture
def pair(dirs: Dirs) -> Iterator[socket.socket]:
    """Return a connection whose other end belongs to an agent: this very process."""
    with subprocess.Popen(["sleep", "60"]) as other:
        register(dirs, other.pid, name="other", source="test")
        register(dirs, os.getpid(), name="own", source="test")
        one, two = socket.socketpair()
        with one, two:
            yield one
        other.kill()
    for agent in Registry(dirs).all():
        Registry(dirs).remove(agent)


class Scarce:
    """Lets the n-th look fail, and as many after it as are said, as where no file is left."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.fails = 0
        for name in ("open", "listdir", "scandir"):
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left < 0 <= self.left + self.fails:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(*arguments, **more)

        return look


@pytest.mark.parametrize("fails", [1, 3, 1_000], ids=["once", "a few times", "from then on"])
def test_who_asks_is_never_taken_for_nobody(
    dirs: Dirs, pair: socket.socket, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    peer = Peer(dirs, pair)
    registry = Registry(dirs)
    refused = 0
    with monkeypatch.context() as patch:
        scarce = Scarce(patch)
        for at in range(MOST_LOOKS):
            for look in (
                peer.agent,
                lambda: Caller.of_process(registry, os.getpid()).around,
                lambda: registry.find("own"),
            ):
                scarce.left, scarce.fails = at, fails
                try:
                    assert look() is not None
                except (Unavailable, BadInput):
                    refused += 1
            if scarce.left > 0:
                break
    assert refused
    found = peer.agent()  # the control
    assert found is not None
    assert found.id == "own"


def test_what_is_a_persons_is_refused_while_no_file_can_be_opened(
    dirs: Dirs, pair: socket.socket
) -> None:
    peer = Peer(dirs, pair)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.dup(0))
        with pytest.raises(SandboxError):
            peer.check(ShutdownRequest(force=True), lambda: None)
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.raises(BadInput, match="is a person's decision"):
        peer.check(ShutdownRequest(force=True), lambda: None)


def test_a_server_holds_fewer_connections_than_it_may_have_files() -> None:
    assert most_connections() <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
