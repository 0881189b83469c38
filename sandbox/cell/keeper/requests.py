# SPDX-License-Identifier: Apache-2.0
"""The keeper with its table of requests: who handles which; and how it is set up.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..journal import vault
from ..landing import land as landing
from ..landing import multi as together
from ..landing.spaces import LOWER, Space
from . import orphans as leftovers
from .past_calls import PastCalls
from .placing import Placing
from .sockets import Sockets
from .transactions import Transactions
from .workplace import HELD, LIVE, Workplace

Handler = Callable[[dict[str, Any]], dict[str, Any]]
"""Does what a request asks for, and returns the fields of its answer."""


class Keeper:
    """Handles the requests of the supervisor."""

    def __init__(self) -> None:
        self.work = Workplace()
        self.sockets = Sockets()
        self._placing = Placing(self.work)
        self.transactions = Transactions(self.work, self._placing)
        self._past = PastCalls(self.work)
        self._lock = -1
        """Holds the folder of this cell's layers, for as long as the keeper lives."""
        sockets, transactions, past = self.sockets, self.transactions, self._past
        self.requests: dict[str, Handler] = {
            "direct": sockets.direct,
            "listen": sockets.listen,
            "check_port": sockets.check_port,
            "dial": sockets.dial,
            "hand": sockets.hand,
            "setup": self.setup,
            "stage": transactions.stage,
            "look": transactions.look,
            "open": transactions.open,
            "close": transactions.close,
            "land": transactions.land,
            "digests": transactions.digests,
            "hold": transactions.hold,
            "drop": transactions.drop,
            "waiting": past.waiting,
            "look_held": past.look_held,
            "land_held": past.land_held,
            "undo": past.undo,
            "clear": past.clear,
            "net": past.net,
            "outlook": past.outlook,
            "fate": past.fate,
            "left": past.left,
            "count": past.count,
        }
        """Every request that there is, with who handles it."""

    @property
    def watching(self) -> list[int]:
        """The descriptor on which the observer speaks, while it lives; see `alarms`."""
        return [] if self._placing.watch.lost else [self._placing.watch.fileno()]

    def setup(self, request: dict[str, Any]) -> dict[str, Any]:
        """Recover the workspaces, make the masks, enter the cell."""
        self.work.cell = f"{LIVE}/{request['cell']}"
        self.work.agent = request["agent"]
        vault.Patience.seconds = request["wait_seconds"]
        self._placing.watch_for(request["patterns"])
        self._lock = leftovers.occupy(LIVE, request["cell"])
        leftovers.sweep(LIVE)
        os.makedirs(HELD, exist_ok=True)
        recovered = []
        for index, path in enumerate(request["workspaces"]):
            recovered += landing.recover(f"{LOWER}/{index}", fault=self.work.fault)
            self.work.spaces.append(Space(index, path, request))
        together.settle({space.path: space.root for space in self.work.spaces})
        self.work.keep_undo(request["undo_bytes"])
        self._placing.enter(request["place"], request["home"])
        roots = [os.stat(space.root) for space in self.work.spaces]
        return {
            "hidden": [space.hidden for space in self.work.spaces],
            "roots": [(info.st_dev, info.st_ino) for info in roots],
            "recovered": recovered,
        }
