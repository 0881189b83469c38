# SPDX-License-Identifier: Apache-2.0
"""How a command in a cell ended, and how a request of a cell fails."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.errors import SandboxError


class CellLost(SandboxError):
    """The cell ended under a call: nothing of that call landed."""


class KeeperRefused(SandboxError):
    """The keeper answered a request with an error, and did nothing of it."""

    def __init__(self, op: str, reason: str, *, failed: bool) -> None:
        """`failed`: the system refused it something; else what was asked for cannot be done."""
        super().__init__(f"the keeper could not {op}: {reason}")
        self.reason = reason
        self.failed = failed


class Unwatchable(SandboxError):
    """The kernel watches as much for this user as it may, so no call that writes can be begun."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended."""

    status: int
    signal: int | None
    oom: bool
    error: str | None
    ended: str | None
    """Why Lockgate ended it: `timed-out`, `flooded`, `protected` (a protected path appeared),
    `unwatched` (nobody saw any more whether one does), `traffic` (more than it may went over its
    network), `cancelled`; None if it ended by itself."""
    input_read: int | None = None
    """How many bytes of its input it read; None: it was given none, or all to its end."""
    vouched: bool = False
    """Whether the program that it was asked about is the image's, in a home nobody wrote in."""
