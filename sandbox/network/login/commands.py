# SPDX-License-Identifier: Apache-2.0
"""Runs a command that prints something short, within bounds of time and length. Blocking."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO

SECONDS = 20.0
"""How long a command may take."""
_LOOK_SECONDS = 0.05
"""How often is looked whether a command has ended that left its output to others."""


class CannotRun(Exception):
    """A command printed nothing that counts; the text says why, and holds nothing of it."""


def run(command: Sequence[str], env: Mapping[str, str], stdin: bytes, most: int) -> bytes:
    """Return what a command prints, of at most so many bytes; no shell reads its words. What it
    prints is in this memory alone. Raises CannotRun."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        raise CannotRun(f"cannot be started: {error.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    done = False
    try:
        with contextlib.suppress(OSError):  # it need not read what it is asked
            process.stdin.write(stdin)
            process.stdin.close()
        out = _read(process, process.stdout, most)
        done = True
    finally:
        process.stdout.close()
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        raise CannotRun(f"ended with status {process.returncode}")
    return out


def _read(process: subprocess.Popen[bytes], stdout: IO[bytes], most: int) -> bytes:
    """Return what a process prints until it ends."""
    until, out, tells = time.monotonic() + SECONDS, b"", True
    os.set_blocking(stdout.fileno(), False)
    with selectors.DefaultSelector() as looking:
        looking.register(stdout, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None  # before the look: what it printed is there by then
            more = b""
            if tells and looking.select(0 if ended else _LOOK_SECONDS):
                more = os.read(stdout.fileno(), most + 1)
                tells = bool(more)
            elif not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_SECONDS)
            out += more
            if len(out) > most:
                raise CannotRun("printed what is too long")
            if ended and not more:
                return out
            if time.monotonic() > until:
                raise CannotRun(f"took longer than {SECONDS:g} seconds")
