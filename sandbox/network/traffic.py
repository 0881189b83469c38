# SPDX-License-Identifier: Apache-2.0
"""What went through the gateway of one call, as far as it says so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sandbox.network.holding import Place

MOST_CONNECTIONS = 500
"""Connections that are kept one by one; more are only counted."""
MOST_ENDS = 1 << 15
"""Characters of how the kept connections ended, altogether; further ones are kept in one word."""


@dataclass(slots=True)
class Traffic:
    """What went through a gateway."""

    names: tuple[str, ...] = ()
    """What the call might reach: `name:port`."""
    connections: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    sent: int = 0
    received: int = 0
    refused: list[str] = field(default_factory=list)
    """Names that it asked for and had no right to."""
    over: str = ""
    """Why the call was ended: it sent or received more than it may."""
    lost: str = ""
    """How the gateway ended before its call did."""
    credentials: dict[str, int] = field(default_factory=dict)
    """How many requests got a credential, by its id."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why a credential could not be read, by its id; for people."""
    closed: set[Place] = field(default_factory=set)
    """Hosts and ports that a person was asked about and did not open."""
    _ends: int = 0
    """Characters of how connections ended."""

    def hear(self, line: bytes) -> None:
        """Take what a gateway says. Raises ValueError where it cannot be read."""
        try:
            self._take(json.loads(line))
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("no line of a gateway") from error

    def _take(self, what: dict[str, Any]) -> None:
        if "refused" in what:
            self.refused.append(str(what["refused"]))
        elif "used" in what:
            used = str(what["used"])
            self.credentials[used] = self.credentials.get(used, 0) + 1
        elif "over" in what:
            self.over = str(what["over"])
        elif "connection" in what:
            one = dict(what["connection"])
            self.count += 1
            self.sent += int(one["sent"])
            self.received += int(one["received"])
            if len(self.connections) < MOST_CONNECTIONS:
                end = str(one["end"])
                self._ends += len(end)
                one["end"] = end if self._ends <= MOST_ENDS else end.partition(":")[0]
                self.connections.append(one)

    @property
    def stopped(self) -> str:
        """Why a connection of the call was refused; of the first such one, or none. What a person
        was asked about is told elsewhere."""
        for connection in self.connections:
            if (connection["host"], connection["port"]) in self.closed:
                continue
            _, refused, why = str(connection["end"]).partition("refused: ")
            if refused:
                where = (
                    f"`{connection['host']}:{connection['port']}`"
                    if connection["host"]
                    else f"port {connection['port']}"
                )
                return f"{where}: {why}"
        return ""
