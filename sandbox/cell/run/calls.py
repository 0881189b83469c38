# SPDX-License-Identifier: Apache-2.0
"""What the runner knows of one running call."""

from __future__ import annotations

import fcntl
import os
import sys
import termios
from typing import Any

from .call_host import Host

OOM_COUNTERS = (
    ("/sys/fs/cgroup/memory.events", "oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)


def oom_kills() -> int:
    """Return how many processes of this container the kernel has killed for want of memory."""
    for path, key in OOM_COUNTERS:
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if len(words) == 2 and words[0] == key:
                        return int(words[1])
        except OSError:
            continue
    return 0


class Call:
    """One running call: its processes' root, its pipes, its end."""

    def __init__(self, number: int, *, exclusive: bool) -> None:
        self.number = number
        self.exclusive = exclusive
        self.oom = oom_kills()
        self.host: Host | None = None
        """Where it runs; None when it is the runner's own child."""
        self.vouched = False
        """Whether its program is the image's, in a home that nobody wrote in."""
        self.main: int | None = None
        self.child: object = None
        """Keeps the process from being reaped by somebody else."""
        self.answer: dict[str, Any] | None = None
        self.swept_until: float | None = None
        """While what it left is being ended: when patience ends (monotonic seconds)."""
        self.open: set[int] = set()
        """Output pipes that have not ended."""
        self.stdin: int | None = None
        self.pending = bytearray()
        self.stdin_ended = False
        self.stdin_whole = False
        """Whether its end was given, too."""
        self.stdin_written = 0
        self.stdin_read: int | None = None
        """How many bytes the command read; None: nothing was given, or to its end."""

    def count_read(self, fd: int) -> None:
        """Note how much of its input the command has read; what is left in the pipe it has not."""
        left = fcntl.ioctl(fd, termios.FIONREAD, bytes(4))
        self.stdin_read = self.stdin_written - int.from_bytes(left, sys.byteorder)

    def drain(self, fd: int) -> tuple[bool, int]:
        """Write what is pending for standard input; return (blocked, bytes taken)."""
        before = len(self.pending)
        try:
            while self.pending:
                written = os.write(fd, self.pending)
                self.stdin_written += written
                del self.pending[:written]
        except BlockingIOError:
            return True, before - len(self.pending)
        except BrokenPipeError:
            self.pending.clear()
            self.stdin_ended = True
        return False, before - len(self.pending)
