# SPDX-License-Identifier: Apache-2.0
"""The supervisor's guard: `python -m sandbox.guard.serve STATE CONFIG RUNTIME`.

A process of its own, so that looking through many files never takes time from a call, and so that
it may fail alone. It says each thing as a line of JSON on standard output: `state` (how many paths
are guarded, what is not and why), `said` (a line about the guard itself), `told` (a change that no
landing made, which is recorded by then). It ends when its standard input does: it outlives nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from policy.protected.paths import PathPolicy
from sandbox.config.settings import load_settings
from sandbox.errors import SandboxError
from sandbox.gates.policy_files import Policies
from sandbox.guard.guard import Guard
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry

NICE = 10
"""It makes room for calls."""
STATE_SECONDS = 1.0
"""How often its state, and the policy files, are looked at."""


class _Voice:
    """Says things, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, **what: Any) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()


class PathsRead:
    """What policy files protected when a guard read them, to be compared with what they do now."""

    def __init__(self) -> None:
        self._read: dict[str, PathPolicy] = {}

    def read(self, policies: Policies, workspace: str) -> PathPolicy:
        """Return what is protected in a workspace, and keep it. Raises SandboxError."""
        paths = policies.paths((workspace,))
        self._read[workspace] = paths
        return paths

    def have_changed(self, policies: Policies, workspaces: Iterable[str]) -> bool:
        """Whether other paths are protected now in one of these workspaces.

        Of one whose files cannot be read now, what was read counts on.
        """
        return any(self._has_changed(policies, workspace) for workspace in workspaces)

    def _has_changed(self, policies: Policies, workspace: str) -> bool:
        try:
            now = policies.paths((workspace,))
        except SandboxError:
            return False
        return self._read.get(workspace, now) != now


class _Served:
    """Runs one guard after another: a new one when what is protected has changed."""

    def __init__(self, dirs: Dirs, say: _Voice) -> None:
        self._dirs = dirs
        self._say = say
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            stopping, paths = threading.Event(), PathsRead()
            guard = self._guard(paths)
            watching = threading.Thread(
                target=self._look, args=(guard, paths, stopping), daemon=True
            )
            watching.start()
            guard.run(stopping)
            watching.join()

    def _guard(self, read: PathsRead) -> Guard:
        policies = Policies(self._dirs)
        return Guard(
            self._dirs,
            settings=load_settings(self._dirs).guard,
            paths=lambda workspace: read.read(policies, workspace),
            say=lambda text: self._say(said=text),
            tell=lambda one: self._say(told=one.record().as_json()),
            yields=True,
        )

    def _look(self, guard: Guard, read: PathsRead, stopping: threading.Event) -> None:
        """Say the guard's state as it changes, until it is to end or to be replaced."""
        policies, last = Policies(self._dirs), dict[str, Any]()
        while not self.over.wait(STATE_SECONDS):
            if not guard.ready.is_set():
                continue
            state = {"guarded": guard.guarded, "failed": list(guard.failed), "away": guard.away}
            if state != last:
                self._say(state=state)
                last = state
            if read.have_changed(policies, self._registered()):
                break
        stopping.set()

    def _registered(self) -> list[str]:
        try:
            return [workspace.path for workspace in Registry(self._dirs).list()]
        except SandboxError:
            return []


def main(arguments: list[str]) -> None:
    """Guard the registered workspaces until standard input ends."""
    with contextlib.suppress(OSError):
        os.nice(NICE)
    served = _Served(Dirs(*(Path(argument) for argument in arguments)), _Voice())

    def wait_for_end() -> None:
        while os.read(0, 1024):
            pass
        served.over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    served.run()


if __name__ == "__main__":
    main(sys.argv[1:])
