# SPDX-License-Identifier: Apache-2.0
"""How a command ends and what it says of it, for the thin programs too: imports nothing heavy."""

from __future__ import annotations

import os
import sys

from sandbox.text.plain import plain_line

FAILED = 125
"""Lockgate itself failed."""
NOT_PERMITTED = 126
TIMED_OUT = 124
INTERRUPTED = 130
USAGE = 2
REFUSED = 1
PIPE_CLOSED = 141


def say(text: str) -> None:
    """Print one line about the call to stderr, where it does not mix with output."""
    sys.stdout.flush()
    sys.stderr.write(f"lockgate: {plain_line(text)}\n")
    sys.stderr.flush()


def show_line(text: str) -> None:
    """Print one line that is safe as it stands to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_bytes(data: bytes, *, to_stderr: bool = False) -> None:
    """Write bytes to stdout or stderr as they are."""
    target = (sys.stderr if to_stderr else sys.stdout).buffer
    target.write(data)
    target.flush()


def broken_pipe() -> int:
    """Keep quiet about a reader that has left, and return the status of that."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    return PIPE_CLOSED


def user() -> str:
    """Return the name of the person at the terminal."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
