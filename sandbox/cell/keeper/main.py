# SPDX-License-Identifier: Apache-2.0
"""The trusted container beside a cell: mounts, lists, lands and undoes. Never runs agent code.

Speaks frames (see protocol) on its standard input and output, one request at a time. It shares the
cell's process namespace (PID 1 there is the runner), so that it ends when the cell ends.

Layout inside the keeper: /lower/N the real workspaces, /tx/live/CELL/N layers of open transactions,
/tx/held/CALL/N layers that wait for a person, /mask mask layers.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Collection
from typing import Any

from .. import mounts, protocol
from ..faults import Faults
from ..git.entries import Contents
from ..journal import removal, vault
from ..landing import land as landing
from ..landing import multi as together
from ..landing.fates import became, digests_of
from ..landing.held import Waiting
from ..landing.held_actions import Afterwards, Turned
from ..landing.spaces import LOWER, Prepared, Space
from ..observer.client import OutOfWatchers, Watch
from ..overlay import masks, onward, replaced, shadows, walk
from . import dialling, listeners, private
from . import orphans as leftovers
from .notes import note_git
from .placer import Placer
from .views import Nowhere, Views

DOOR = "/door/door"
LIVE, HELD = "/tx/live", "/tx/held"
AGAIN_SECONDS = 1.0
"""An observer that was lost is replaced ahead of time if it had lived this long."""
MOST_AT_ONCE = 1 << 20
"""Bytes of an answer from which on its changes are sent in parts."""
PART_ITEMS = 1000
PIECE_SECONDS = 0.02
"""For which old layers are removed at a time: as long as a call may have to wait for it."""
_FLAGS = mounts.NOSUID | mounts.NODEV


class Refused(Exception):
    """A request cannot be done; the message says why."""


class Transaction:
    """The layers of one call, one per workspace."""

    def __init__(self, name: str, *, writes: bool) -> None:
        self.name = name
        self.writes = writes
        self.layers: list[str] = []
        self.placed = True
        """Whether it still stands in the cell: to detach twice would take the place itself away."""
        self.since: list[int] = []
        self.walks: list[walk.Walk] = []
        """What changed, once the transaction is closed."""
        self.turns: list[int] = []
        """How often something had landed in each workspace when that was listed."""
        self.stands: Collection[str] = ()
        """Paths of workspaces where it has landed, though it could not in all of them."""
        self.unwatched = ""
        """Why nobody watches it any more."""


class Keeper:
    """Handles the requests of the supervisor."""

    def __init__(self) -> None:
        self._spaces: list[Space] = []
        self._open: dict[str, Transaction] = {}
        self._cell = ""
        self._agent = ""
        """Whose calls run in the cell."""
        self._lock = -1
        """Holds the folder of this cell's layers, for as long as the keeper lives."""
        self.fault = Faults()
        self.direct_fd: int | None = None
        """The supervisor's own connection, once there is one."""
        self._undo_bytes = vault.UNDO_QUOTA
        self._waiting = Waiting(HELD, LIVE)
        self._after = Afterwards([], self._waiting, self._walk, quota=0, fault=None)
        self._count = 0
        self._trash = removal.Trash()
        """Layers of transactions that are over, removed while nothing is asked."""
        self._ready: dict[tuple[int, str], Prepared] = {}
        self._patterns: dict[str, list[str]] = {}
        self._placer: Placer | Views | Nowhere | None = None
        self._ahead = False
        """Whether the next views are mounted while the keeper is idle."""
        self._staged: Transaction | None = None
        """What stands in the views before the call that will use it is known."""
        self._watch = Watch()
        self._layers = private.LayerMounts()
        self._dialled: socket.socket | None = None
        """A connection to a port of the cell that nobody has asked for yet."""

    @property
    def watching(self) -> list[int]:
        """The descriptor on which the observer speaks, while it lives; see `alarms`."""
        return [] if self._watch.lost else [self._watch.fileno()]

    def alarms(self) -> list[dict[str, Any]]:
        """Return what the supervisor must hear at once of open transactions."""
        found = []
        for layer, watched in self._watch.take():
            name = next((t.name for t in self._open.values() if layer in t.layers), None)
            if name is not None:
                found.append({"op": "alarm", "tx": name, **(watched.alarm or {})})
        if self._watch.lost:
            for transaction in self._open.values():
                if transaction.writes and not transaction.unwatched:
                    transaction.unwatched = self._watch.lost
                    found.append({"op": "alarm", "tx": transaction.name, "lost": self._watch.lost})
        return found

    # -- requests (each returns the answer's fields)

    def direct(self, request: dict[str, Any]) -> dict[str, Any]:
        """Connect to the supervisor, and hand over the runner's spare socket end."""
        process = mounts.take_descriptor(1, request["fd"])
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(DOOR)
        socket.send_fds(sock, [b"r"], [process])
        os.close(process)
        self.direct_fd = sock.detach()
        return {}

    def listen(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open sockets on the cell's loopback and hand them to the supervisor."""
        listeners.hand_over(listeners.open_listeners(request["listeners"]), DOOR)
        return {}

    def check_port(self, request: dict[str, Any]) -> dict[str, Any]:
        """Refuse a port on which no process of the cell listens."""
        dialling.find_places(request["port"])
        return {}

    def dial(self, request: dict[str, Any]) -> dict[str, Any]:
        """Connect to a port on which a process of the cell listens; `hand` gives the socket."""
        self._drop_dialled()
        self._dialled = dialling.dial(request["port"])
        return {}

    def hand(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Hand the supervisor the socket of the last `dial`."""
        if self._dialled is None:
            raise Refused("nothing was dialled")
        dialled, self._dialled = self._dialled, None
        listeners.hand_over([dialled], DOOR)
        return {}

    def _drop_dialled(self) -> None:
        if self._dialled is not None:
            self._dialled.close()
            self._dialled = None

    def setup(self, request: dict[str, Any]) -> dict[str, Any]:
        """Recover the workspaces, make the masks, enter the cell."""
        self._cell = f"{LIVE}/{request['cell']}"
        self._agent = request["agent"]
        self._undo_bytes = request["undo_bytes"]
        vault.Patience.seconds = request["wait_seconds"]
        self._patterns = request["patterns"]
        self._watch.rules(self._patterns)
        self._lock = leftovers.occupy(LIVE, request["cell"])
        leftovers.sweep(LIVE)
        os.makedirs(HELD, exist_ok=True)
        recovered = []
        for index, path in enumerate(request["workspaces"]):
            recovered += landing.recover(f"{LOWER}/{index}", fault=self.fault)
            self._spaces.append(Space(index, path, request))
        together.settle({space.path: space.root for space in self._spaces})
        self._after = Afterwards(
            self._spaces, self._waiting, self._walk, quota=self._undo_bytes, fault=self.fault
        )
        self._placer = self._make_placer(request["place"], request["home"])
        roots = [os.stat(space.root) for space in self._spaces]
        return {
            "hidden": [space.hidden for space in self._spaces],
            "roots": [(info.st_dev, info.st_ino) for info in roots],
            "recovered": recovered,
        }

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a transaction: place a read-only view or a fresh private layer in the cell."""
        writes = request["access"] == "write"
        if writes:
            self._renew_watch()
        transaction = Transaction(request["tx"], writes=writes)
        if self._staged is not None:
            self._take_staged(transaction)
        else:
            for space in self._spaces:
                space.notice()
            self._place_all(transaction)
        self._open[transaction.name] = transaction
        return {}

    def stage(self, request: dict[str, Any]) -> dict[str, Any]:
        """Place the views of a transaction that is opened later, under a name not known yet."""
        staged = Transaction("", writes=request["access"] == "write")
        self._place_all(staged)
        self._staged = staged
        return {}

    def look(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Look up again what to hide and to pin; say whether what is staged is out of date."""
        before = [(space.hidden, space.pinned) for space in self._spaces]
        for space in self._spaces:
            space.look()
        changed = before != [(space.hidden, space.pinned) for space in self._spaces]
        return {"changed": changed or bool(self._watch.lost)}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Detach a transaction and list its changes. The layers stay."""
        transaction = self._open[request["tx"]]
        transaction.placed = False
        self._detach(len(self._spaces))
        if not transaction.writes:
            del self._open[transaction.name]
            return {"changes": [], "empty": True}
        for layer in transaction.layers:
            self._watch.mark(layer)
        try:
            listed = self._list(transaction)
        except (landing.LandingError, RecursionError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _TOO_DEEP:
                raise
            listed = _unlisted(len(self._spaces), _said(error))
        return {**listed, **self._seen(transaction)}

    def _list(self, transaction: Transaction) -> dict[str, Any]:
        """Return what a closed transaction changed. Raises LandingError where nobody can say."""
        walks = self._look_through(transaction)
        return {
            "changes": [walked.changes for walked in walks],
            "empty": all(walked.empty for walked in walks),
            "diff": self._after.diff(walks),
        }

    def land(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a closed transaction to the real workspaces.

        Where something else landed since the changes were listed, nothing is done; they are listed
        anew then (`turned`, `changes`), to be judged again.
        """
        transaction = self._open[request["tx"]]
        walks, turns = transaction.walks, transaction.turns
        try:
            landed = self._after.land(
                walks,
                request["tx"],
                force=False,
                at=turns,
                agent=self._agent,
                spare=True,
                plain=request.get("plain", False),
            )
        except Turned:
            walks = self._look_through(transaction)
            found = [walked.changes for walked in walks]
            empty = all(walked.empty for walked in walks)
            return {"turned": True, "conflicts": [], "changes": found, "empty": empty}
        except together.Parted as error:
            transaction.stands = error.stands.keys()
            raise
        if not landed.conflicts and not landed.crowded:
            self._forget(transaction)
        return landed._asdict()

    def digests(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the SHA-256 of what a closed transaction puts at some paths, per workspace."""
        walks = self._open[request["tx"]].walks
        return {"digests": self._after.digests(walks, request["digests"])}

    def hold(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep a closed transaction for a person to look at."""
        transaction = self._open[request["tx"]]
        stand = {n for n, space in enumerate(self._spaces) if space.path in transaction.stands}
        kept = [
            n for n, walked in enumerate(transaction.walks) if walked.changes and n not in stand
        ]
        if kept:
            self._keep(transaction, kept)
        self._open.pop(transaction.name)
        self._release(transaction)
        for index, layer in enumerate(transaction.layers):
            if index not in kept:
                self._trash.add(layer)
        return {}

    def waiting(self, _request: dict[str, Any]) -> dict[str, Any]:
        """List the transactions that wait for a person."""
        return {"waiting": self._waiting.list()}

    def look_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what a held transaction, or the named part of it, would change now."""
        wanted = request.get("digests", ())
        return self._after.look(request["tx"], request["names"], wanted, shown=request["shown"])

    def land_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a held transaction, or a part. With `force`, later changes are overwritten.

        Where something else would land than what was looked at, nothing does (`turned`).
        """
        try:
            return self._after.land_held(request)
        except Turned:
            return {"turned": True}

    def drop(self, request: dict[str, Any]) -> dict[str, Any]:
        """Throw a transaction away, open, closed or held."""
        transaction = self._open.get(request["tx"])
        if transaction is not None:
            if transaction.placed:
                transaction.placed = False
                self._detach(len(self._spaces))
            self._forget(transaction)
        return {"gone": not self._waiting.remove(request["tx"]) and transaction is None}

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Undo a landed call in every workspace that it changed."""
        marks, agent = request["mark"], request["agent"]
        return self._after.undo(request["call"], request["as"], request["digests"], marks, agent)

    def net(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what undoing several calls would change in all, or what they changed."""
        return self._after.net(request["calls"], forward=request["forward"])

    def clear(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make room for before-images of an agent's own edit."""
        return self._after.clear(request["bytes"], request["agent"])

    def outlook(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what an undo would do."""
        return self._after.outlook(request["call"], shown=request["shown"])

    def fate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say what became of calls and undos whose answers nobody heard: `landed`, `held` or not.

        `changes` are those of what landed, per workspace; `stands` says in which alone it did.
        """
        fates = {}
        for name in request["calls"]:
            if not _NAME.fullmatch(name):
                raise Refused("a name that cannot be the name of a folder")
            found = [became(space.root, name) for space in self._spaces]
            landed = any(one is not None for one in found)
            state = "held" if os.path.isdir(f"{HELD}/{name}") else "nothing"
            changes = [one or [] for one in found]
            stands = together.standing(name) if landed else {}
            fates[name] = {
                "state": "landed" if landed else state,
                "changes": changes,
                "stands": stands,
            }
        return {"fates": fates}

    def left(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the SHA-256 of what a landed call or an undo left at some paths, per workspace."""
        name, wanted = request["call"], request["digests"]
        found = [digests_of(space.root, name, paths) for space, paths in zip(self._spaces, wanted)]
        return {"digests": found}

    def count(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Say how many transactions wait for a person (the answer's `held`)."""
        return {}

    # -- parts

    def _make_placer(self, place: str, home: dict[str, Any]) -> Placer | Views | Nowhere:
        if place == "cell":
            self._ahead = True
            targets = [space.path for space in self._spaces]
            return Placer(targets, (home["reading"], home["files"]))
        return Views(len(self._spaces)) if place == "views" else Nowhere()

    def _take_staged(self, transaction: Transaction) -> None:
        assert self._staged is not None
        if self._staged.writes != transaction.writes:
            raise Refused("its views were made for the other kind of access")
        transaction.layers = self._staged.layers
        # Nothing has run over them yet: from now on, who else changes a file is in its way.
        transaction.since = [space.stamp() for space in self._spaces if transaction.writes]
        self._staged = None

    def prepare(self) -> bool:
        """Mount the next views ahead of time and remove old layers. Called while idle.

        Return whether there is more to remove: it is done in pieces, so that no call waits for it.
        """
        if self._watch.age > AGAIN_SECONDS:
            self._renew_watch()
        for space in self._spaces if self._ahead else ():
            for access in ("read", "write"):
                key = (space.index, access)
                if key not in self._ready:
                    try:
                        self._ready[key] = self._make(space, access)
                    except OSError:  # said when a transaction opens
                        break
        return self._trash.work(self._watch.knows, PIECE_SECONDS)

    def _make(self, space: Space, access: str) -> Prepared:
        """Return a new detached mount over a workspace, with a private layer if it may write."""
        lower = f"{space.mask}:{space.lower}"
        if access == "read":
            options = {"lowerdir": lower, **private.OPTIONS}
            return Prepared("", space.mask, mounts.overlay(options, _FLAGS | mounts.RDONLY))
        self._count += 1
        layer = f"{self._cell}/{self._count}.{space.index}"
        upper, work = f"{layer}/upper", f"{layer}/work"
        os.mkdir(layer, 0o700)
        os.mkdir(upper)
        os.mkdir(work)
        info = os.stat(space.root)
        os.chown(upper, space.uid, space.gid)
        os.chmod(upper, info.st_mode & 0o7777)
        self._watch.begin(layer, space.root)
        try:
            mount = self._layers.mount(lower, upper, work, _FLAGS)
            return Prepared(layer, space.mask, mount)
        except OSError:
            self._discard(layer)
            raise

    def _keep(self, transaction: Transaction, kept: list[int]) -> None:
        """Put layers where they wait. Raises OSError, then the transaction can only be dropped."""
        layers = {index: transaction.layers[index] for index in kept}
        since = {index: transaction.since[index] for index in kept}
        held = f"{HELD}/{transaction.name}"
        private.keep(layers, since, f"{self._cell}/hold", held, self.fault)

    def _place_all(self, transaction: Transaction) -> None:
        try:
            for space in self._spaces:
                self._place(space, transaction)
        except OSError:
            self._detach(len(transaction.layers))
            self._forget(transaction)
            raise

    def _place(self, space: Space, transaction: Transaction) -> None:
        assert self._placer is not None
        access = "write" if transaction.writes else "read"
        if transaction.writes:
            transaction.since.append(space.stamp())
        ready = self._ready.pop((space.index, access), None)
        if ready is not None and ready.mask != space.mask:
            self._throw(ready)
            ready = None
        if ready is None:
            ready = self._make(space, access)
        try:
            if ready.layer:
                self._watch.ensure(ready.layer)
            self._placer.place(space.index, ready.mount, space.pinned if transaction.writes else [])
        except OSError:
            if ready.layer:
                self._discard(ready.layer)
            raise
        finally:
            os.close(ready.mount)
        transaction.layers.append(ready.layer)

    def _throw(self, ready: Prepared) -> None:
        os.close(ready.mount)
        if ready.layer:
            self._discard(ready.layer)

    def _discard(self, layer: str) -> None:
        """Have a layer removed when nobody watches it any more."""
        self._watch.forget(layer)
        self._trash.add(layer)

    def _release(self, transaction: Transaction) -> None:
        """Have the layers of a transaction watched no more."""
        for layer in transaction.layers:
            if layer:
                self._watch.forget(layer)

    def _seen(self, transaction: Transaction) -> dict[str, Any]:
        """Return what the observer saw of a transaction that is closed; nothing is no news."""
        seen = [self._watch.settle(layer) for layer in transaction.layers]
        alarm = next((watched.alarm for watched in seen if watched.alarm is not None), None)
        found = {
            "alarm": alarm,
            "lost": transaction.unwatched or self._watch.lost,
            "behind": any(watched.behind for watched in seen),
            "lossy": any(watched.lossy for watched in seen),
        }
        return {"watch": {k: v for k, v in found.items() if v}} if any(found.values()) else {}

    def _renew_watch(self) -> None:
        """Start a new observer where the last one is lost. What is prepared was watched by it."""
        used = self._staged is not None or any(t.writes for t in self._open.values())
        self._watch.poll()
        if not self._watch.lost or used:
            return
        self._watch.close()
        if self._watch.lacks:
            for space in self._spaces:
                space.spare_kernel()
        self._watch = Watch(self._patterns)
        for key in [key for key, ready in self._ready.items() if ready.layer]:
            self._throw(self._ready.pop(key))

    def _detach(self, count: int) -> None:
        assert self._placer is not None
        for space in self._spaces[:count]:
            self._placer.remove(space.index)

    def _walk(self, space: Space, upper: str, since: int) -> walk.Walk:
        walked = walk.walk(
            upper,
            space.root,
            masks=space.hidden,
            since=since,
            owners=space.back,
            reads=space.patterns.reads,
            condenses=space.patterns.condenses,
        )
        replaced.note_replaced(walked, space.root, self._agent)
        onward.note_onward([walked], [space.root])
        onward.note_own(walked, space.root, self._agent)
        shadows.note_shadows(walked, space.root)
        look = space.patterns
        contents = Contents(look.reads, look.condenses)
        note_git(walked.changes, space.root, upper, space.hidden, look.counts, contents=contents)
        return walked

    def _look_through(self, transaction: Transaction) -> list[walk.Walk]:
        """Return what a closed transaction changes as things stand, and keep it to be landed."""
        transaction.turns = [landing.turn(space.root) for space in self._spaces]  # before looking
        layers = zip(self._spaces, transaction.layers, transaction.since)
        transaction.walks = [self._walk(space, f"{at}/upper", since) for space, at, since in layers]
        if len(transaction.walks) > 1:  # what went from one workspace to another
            onward.note_onward(transaction.walks, [space.root for space in self._spaces])
        return transaction.walks

    def _forget(self, transaction: Transaction) -> None:
        self._open.pop(transaction.name, None)
        for layer in transaction.layers:
            if layer:
                self._discard(layer)


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
"""Names of calls and cells become names of folders here."""
_ABOUT_HELD = ("setup", "hold", "land_held", "drop", "count")
"""Requests whose answer says how many transactions wait for a person."""
_TOO_DEEP = (errno.ENAMETOOLONG, errno.ELOOP)
"""What the system answers where no path leads to something."""
_LISTS = ("close", "look_held", "outlook", "net")
"""Requests that list changes, and make none themselves."""
_CHANGES = ("changes", "rest")
"""Fields of an answer that list changes, per workspace."""
_DOES = ("land", "land_held", "undo", "fate")
"""Requests that change files, or say that this was done; their answers list what changed."""
_REQUESTS = (
    "direct",
    "listen",
    "check_port",
    "dial",
    "hand",
    "setup",
    "stage",
    "look",
    "open",
    "close",
    "land",
    "hold",
    "waiting",
    "look_held",
    "land_held",
    "drop",
    "digests",
    "undo",
    "clear",
    "net",
    "outlook",
    "fate",
    "left",
    "count",
)


def serve() -> None:
    """Answer requests until standard input ends."""
    keeper = Keeper()
    inputs = {0: protocol.Decoder()}
    protocol.write_all(1, protocol.pack({"op": "hello"}))
    busy = False
    while True:
        for fd in select.select([*inputs, *keeper.watching], [], [], 0 if busy else None)[0]:
            if fd not in inputs:
                continue
            data = os.read(fd, 65536)
            if not data:
                return
            for _, request in inputs[fd].feed(data):
                protocol.write_all(fd or 1, _packed(_answer(keeper, request)))
            if keeper.direct_fd is not None and keeper.direct_fd not in inputs:
                inputs[keeper.direct_fd] = protocol.Decoder()
        for alarm in keeper.alarms():
            protocol.write_all(keeper.direct_fd or 1, protocol.pack(alarm))
        busy = keeper.prepare()


def _packed(answer: dict[str, Any]) -> bytes:
    """Return an answer as frames that are short enough, the answer itself last.

    Where nothing was done, an error takes the place of a list that is too long. What was done is
    told all the same: with the first entries of each list, and how many there were.
    """
    frame = protocol.pack(answer)
    if len(frame) <= protocol.MAX_BODY:
        return frame if len(frame) <= MOST_AT_ONCE else _in_parts(answer)
    if answer["op"] in _LISTS:
        error = "more changed than can be listed; make fewer changes in one call"
        if answer["op"] == "close":
            listed = _unlisted(len(answer["changes"]), error)
            return protocol.pack({"op": answer["op"], "n": answer["n"], **listed})
        return protocol.pack({"op": answer["op"], "n": answer["n"], "error": error})
    if answer["op"] not in _DOES:
        return frame
    most = protocol.MAX_BODY // 64
    while len(frame) > protocol.MAX_BODY:
        frame = protocol.pack({**_cut(answer, most), "n": answer["n"]})
        most //= 4
    return frame


def _in_parts(answer: dict[str, Any]) -> bytes:
    """Return an answer with its long lists of changes sent ahead, so many at a time.

    Whoever reads it does other work between two parts.
    """
    frames = []
    short = dict(answer)
    for key in _CHANGES:
        if not answer.get(key):
            continue
        short[key] = [[] for _ in answer[key]]
        for at, items in enumerate(answer[key]):
            for start in range(0, len(items), PART_ITEMS):
                part = {"op": "part", "n": answer["n"], "key": key, "at": at}
                part["items"] = items[start : start + PART_ITEMS]
                frames.append(protocol.pack(part))
    return b"".join((*frames, protocol.pack(short)))


def _unlisted(workspaces: int, why: str) -> dict[str, Any]:
    """Return the answer on a transaction that is closed and cannot be listed: nothing may land."""
    return {"changes": [[] for _ in range(workspaces)], "empty": True, "diff": "", "unlisted": why}


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "folders are nested too deep" if isinstance(error, RecursionError) else str(error)


def _cut(value: Any, most: int) -> Any:
    """Return an answer with at most so many entries in each list and signs in each text.

    `total` of an answer says how many changes there were of each list of them.
    """
    if isinstance(value, dict):
        cut = {key: _cut(one, most) for key, one in value.items()}
        totals = {key: sum(map(len, value[key])) for key in _CHANGES if key in value}
        return {**cut, "total": totals} if totals else cut
    if isinstance(value, list):
        return [_cut(one, most) for one in value[:most]]
    return value[:most] if isinstance(value, str) else value


def _answer(keeper: Keeper, request: dict[str, Any]) -> dict[str, Any]:
    head = {"op": request["op"], "n": request["n"]}
    started = time.perf_counter()
    try:
        if request["op"] not in _REQUESTS:
            raise Refused(f"unknown request `{request['op']}`")
        for key in ("tx", "call", "as", "cell"):
            if not _NAME.fullmatch(request.get(key, "x")):
                raise Refused("a name that cannot be the name of a folder")
        if "fault" in request:
            keeper.fault.want(request["fault"])
        keeper.fault(f"{request['op']} asked")
        answer = getattr(keeper, request["op"])(request)
        keeper.fault(f"{request['op']} done")
    except OutOfWatchers as error:
        return {**head, "error": f"it cannot be watched: {error}", "lacks": error.limit}
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename}"
        return {**head, "error": text, "errno": error.errno}
    except (
        Refused,
        dialling.BadDial,
        listeners.BadListener,
        masks.TooLarge,
        landing.LandingError,
    ) as error:
        return {**head, "error": str(error)}
    except RecursionError:
        return {**head, "error": "folders are nested too deep"}
    except KeyError as error:
        return {**head, "error": f"unknown transaction or field {error}"}
    if request["op"] in _ABOUT_HELD:
        answer["held"] = len(os.listdir(HELD))
    return {**head, **answer, "ms": (time.perf_counter() - started) * 1000}


def main() -> None:
    """Run as the keeper's only program."""
    os.umask(0)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # see fs.being_written
    try:
        serve()
    except KeyboardInterrupt:
        sys.exit(0)
