# SPDX-License-Identifier: Apache-2.0
"""Run the command line as a shell does, with folders of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sandbox.host.dirs import Dirs
from tests.sandbox import forking

ROOT = forking.ROOT
WAIT_SECONDS = 120
PROGRAM = (sys.executable, "-m", "sandbox.cli.main")


class Shell:
    """Starts the command line with its folders in a place of its own, as a shell does."""

    def __init__(self, place: Path) -> None:
        self.workspace = place / "a workspace"
        self.workspace.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "XDG_STATE_HOME": str(place / "s"),
            "XDG_CONFIG_HOME": str(place / "c"),
            "XDG_RUNTIME_DIR": str(place),
            "PYTHONPATH": str(ROOT),
        }
        self.program: tuple[str, ...] = PROGRAM
        self.dirs = Dirs(place / "s/lockgate", place / "c/lockgate", place / "lockgate")

    def start(self, *words: str, **options: object) -> subprocess.Popen[bytes]:
        """Start `lockgate WORDS`, without a terminal."""
        defaults: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.workspace,
            "env": self.env,
            "start_new_session": True,
        }
        command = [*self.program, *words]
        return subprocess.Popen(command, **{**defaults, **options})  # type: ignore[call-overload, no-any-return]

    def __call__(self, *words: str, data: bytes | None = None) -> tuple[int, str, str]:
        """Run `lockgate WORDS` to its end; return status, stdout, stderr."""
        if self.program == PROGRAM and forking.fits(self.env):
            return self._fork(words, data)
        stdin = subprocess.DEVNULL if data is None else subprocess.PIPE
        with self.start(*words, stdin=stdin) as process:
            out, err = process.communicate(data, timeout=WAIT_SECONDS)
        return process.returncode, out.decode(), err.decode()

    def at_terminal(
        self,
        *words: str,
        typing: Sequence[tuple[bytes, bytes]] = (),
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run `lockgate WORDS` at a terminal; for each pair, type the second after the first."""
        mine, theirs = pty.openpty()
        whole = {**self.env, **(env or {})}
        with contextlib.ExitStack() as stack:
            if self.program == PROGRAM and forking.fits(whole):
                forked = forking.forks().start(
                    words, whole, self.workspace, (theirs, theirs, theirs)
                )
                wait = forked.wait
            else:
                started = self.start(*words, stdin=theirs, stderr=theirs, stdout=theirs, env=whole)
                wait = stack.enter_context(started).wait
            os.close(theirs)
            shown, seen, left = b"", 0, list(typing)
            while select.select([mine], [], [], WAIT_SECONDS)[0]:
                try:
                    piece = os.read(mine, 65536)
                except OSError:  # the other end is closed
                    break
                shown += piece
                if left and left[0][0] in shown[seen:]:
                    seen = len(shown)
                    os.write(mine, left.pop(0)[1])
            os.close(mine)  # hangs the terminal up, should the program still wait
            return wait(WAIT_SECONDS), shown.decode().replace("\r\n", "\n")

    def _fork(self, words: Sequence[str], data: bytes | None) -> tuple[int, str, str]:
        """Run `lockgate WORDS` to its end in a fork; return status, stdout, stderr."""
        given, out, err = os.pipe(), os.pipe(), os.pipe()
        theirs = (given[0], out[1], err[1])
        process = forking.forks().start(words, self.env, self.workspace, theirs)
        for end in theirs:
            os.close(end)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_feed, given[1], data or b"")
            reading = [pool.submit(_read, end) for end in (out[0], err[0])]
            try:
                shown, said = (each.result(WAIT_SECONDS).decode() for each in reading)
                return process.wait(WAIT_SECONDS), shown, said
            except TimeoutError:
                os.kill(process.pid, signal.SIGKILL)
                raise


def _feed(end: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(end, "wb") as stream:
        stream.write(data)


def _read(end: int) -> bytes:
    with open(end, "rb") as stream:
        return stream.read()
