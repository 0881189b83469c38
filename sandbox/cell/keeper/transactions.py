# SPDX-License-Identifier: Apache-2.0
"""Requests about transactions: opened, closed, landed, held or dropped, and what is seen of them.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import errno
from typing import Any

from ..landing import land as landing
from ..landing import multi as together
from ..landing.held_actions import Turned
from ..overlay import onward, walk
from . import private
from .answers import answer_unlisted, explain_error
from .placing import AGAIN_SECONDS, Placing
from .transaction import Transaction
from .workplace import HELD, Refused, Workplace

_TOO_DEEP = (errno.ENAMETOOLONG, errno.ELOOP)
"""What the system answers where no path leads to something."""


class Transactions:
    """The transactions of a cell that are open, and the one whose views are staged."""

    def __init__(self, work: Workplace, placing: Placing) -> None:
        self._work = work
        self._placing = placing
        self.open_now: dict[str, Transaction] = {}
        self._staged: Transaction | None = None
        """What stands in the views before the call that will use it is known."""

    def prepare(self) -> bool:
        """Make ready for the next call, and remove old layers. Called while idle.

        Return whether there is more to remove.
        """
        if self._placing.watch.age > AGAIN_SECONDS:
            self._renew_watch()
        return self._placing.prepare()

    def _renew_watch(self) -> None:
        used = self._staged is not None or any(t.writes for t in self.open_now.values())
        self._placing.renew_watch(used=used)

    def alarms(self) -> list[dict[str, Any]]:
        """Return what the supervisor must hear at once of open transactions."""
        alarms = []
        for layer, watched in self._placing.watch.take():
            name = next((t.name for t in self.open_now.values() if layer in t.layers), None)
            if name is not None:
                alarms.append({"op": "alarm", "tx": name, **(watched.alarm or {})})
        if lost := self._placing.watch.lost:
            for transaction in self.open_now.values():
                if transaction.writes and not transaction.unwatched:
                    transaction.unwatched = lost
                    alarms.append({"op": "alarm", "tx": transaction.name, "lost": lost})
        return alarms

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a transaction: place a read-only view or a fresh private layer in the cell."""
        writes = request["access"] == "write"
        if writes:
            self._renew_watch()
        transaction = Transaction(request["tx"], writes=writes)
        if self._staged is not None:
            self._take_staged(transaction)
        else:
            for space in self._work.spaces:
                space.notice()
            self._placing.place_all(transaction)
        self.open_now[transaction.name] = transaction
        return {}

    def _take_staged(self, transaction: Transaction) -> None:
        assert self._staged is not None
        if self._staged.writes != transaction.writes:
            raise Refused("its views were made for the other kind of access")
        transaction.layers = self._staged.layers
        # Nothing has run over them yet: from now on, who else changes a file is in its way.
        transaction.since = [space.stamp() for space in self._work.spaces if transaction.writes]
        self._staged = None

    def stage(self, request: dict[str, Any]) -> dict[str, Any]:
        """Place the views of a transaction that is opened later, under a name not known yet."""
        staged = Transaction("", writes=request["access"] == "write")
        self._placing.place_all(staged)
        self._staged = staged
        return {}

    def look(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Look up again what to hide and to pin; say whether what is staged is out of date."""
        before = [(space.hidden, space.pinned) for space in self._work.spaces]
        for space in self._work.spaces:
            space.look()
        changed = before != [(space.hidden, space.pinned) for space in self._work.spaces]
        return {"changed": changed or bool(self._placing.watch.lost)}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Detach a transaction and list its changes. The layers stay."""
        transaction = self.open_now[request["tx"]]
        transaction.placed = False
        self._placing.detach(len(self._work.spaces))
        if not transaction.writes:
            del self.open_now[transaction.name]
            return {"changes": [], "empty": True}
        for layer in transaction.layers:
            self._placing.watch.mark(layer)
        try:
            listed = self._list(transaction)
        except (landing.LandingError, RecursionError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _TOO_DEEP:
                raise
            listed = answer_unlisted(len(self._work.spaces), explain_error(error))
        return {**listed, **self._placing.tell_seen(transaction)}

    def _list(self, transaction: Transaction) -> dict[str, Any]:
        """Return what a closed transaction changed. Raises LandingError where nobody can say."""
        walks = self._look_through(transaction)
        return {
            "changes": [walked.changes for walked in walks],
            "empty": all(walked.empty for walked in walks),
            "diff": self._work.after.diff(walks),
        }

    def _look_through(self, transaction: Transaction) -> list[walk.Walk]:
        """Return what a closed transaction changes as things stand, and keep it to be landed."""
        spaces, walk_layer = self._work.spaces, self._work.walk_layer
        transaction.turns = [landing.turn(space.root) for space in spaces]  # before looking
        layers = zip(spaces, transaction.layers, transaction.since)
        transaction.walks = [walk_layer(space, f"{at}/upper", since) for space, at, since in layers]
        if len(transaction.walks) > 1:  # what went from one workspace to another
            onward.note_onward(transaction.walks, [space.root for space in spaces])
        return transaction.walks

    def land(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a closed transaction to the real workspaces.

        Where something else landed since the changes were listed, nothing is done; they are listed
        anew then (`turned`, `changes`), to be judged again.
        """
        transaction = self.open_now[request["tx"]]
        walks, turns = transaction.walks, transaction.turns
        try:
            landed = self._work.after.land(
                walks,
                request["tx"],
                force=False,
                at=turns,
                agent=self._work.agent,
                spare=True,
                plain=request.get("plain", False),
            )
        except Turned:
            walks = self._look_through(transaction)
            changes = [walked.changes for walked in walks]
            empty = all(walked.empty for walked in walks)
            return {"turned": True, "conflicts": [], "changes": changes, "empty": empty}
        except together.Parted as error:
            transaction.stands = error.stands.keys()
            raise
        if not landed.conflicts and not landed.crowded:
            self._forget(transaction)
        return landed._asdict()

    def digests(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the SHA-256 of what a closed transaction puts at some paths, per workspace."""
        walks = self.open_now[request["tx"]].walks
        return {"digests": self._work.after.digests(walks, request["digests"])}

    def hold(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep a closed transaction for a person to look at."""
        transaction = self.open_now[request["tx"]]
        stand = {n for n, space in enumerate(self._work.spaces) if space.path in transaction.stands}
        kept = [
            n for n, walked in enumerate(transaction.walks) if walked.changes and n not in stand
        ]
        if kept:
            self._keep(transaction, kept)
        self.open_now.pop(transaction.name)
        self._placing.release(transaction)
        for index, layer in enumerate(transaction.layers):
            if index not in kept:
                self._placing.trash.add(layer)
        return {}

    def _keep(self, transaction: Transaction, kept: list[int]) -> None:
        """Put layers where they wait. Raises OSError, then the transaction can only be dropped."""
        layers = {index: transaction.layers[index] for index in kept}
        since = {index: transaction.since[index] for index in kept}
        held = f"{HELD}/{transaction.name}"
        private.keep(layers, since, f"{self._work.cell}/hold", held, self._work.fault)

    def drop(self, request: dict[str, Any]) -> dict[str, Any]:
        """Throw a transaction away, open, closed or held."""
        transaction = self.open_now.get(request["tx"])
        if transaction is not None:
            if transaction.placed:
                transaction.placed = False
                self._placing.detach(len(self._work.spaces))
            self._forget(transaction)
        return {"gone": not self._work.waiting.remove(request["tx"]) and transaction is None}

    def _forget(self, transaction: Transaction) -> None:
        self.open_now.pop(transaction.name, None)
        self._placing.discard_layers(transaction)
