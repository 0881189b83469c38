# SPDX-License-Identifier: Apache-2.0
"""The trusted container beside a cell: mounts, lists, lands and undoes. Never runs agent code.

Speaks frames (see protocol) on its standard input and output, one request at a time. It shares the
cell's process namespace (PID 1 there is the runner), so that it ends when the cell ends.

Layout inside the keeper: /lower/N the real workspaces, /tx/live/CELL/N layers of open transactions,
/tx/held/CALL/N layers that wait for a person, /mask mask layers.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import diffs, gitindex, landing, masks, mounts, protocol, vault, walk
from .placer import Placer

DOOR = "/door/door"
LIVE, HELD, MASKS, LOWER = "/tx/live", "/tx/held", "/mask", "/lower"
STALE_SECONDS = 600
"""A layer folder of an unknown cell that is younger may belong to one that starts just now."""
_FLAGS = mounts.NOSUID | mounts.NODEV
_OPTIONS = {"redirect_dir": "on", "xino": "off", "index": "off", "metacopy": "off"}


class Refused(Exception):
    """A request cannot be done; the message says why."""


class Space:
    """One workspace as the keeper sees it."""

    def __init__(self, index: int, path: str, request: dict[str, Any]) -> None:
        self.index = index
        self.path = path
        self.root = f"{LOWER}/{index}"
        self.owner = {int(k): int(v) for k, v in request["owners"].items()}
        self.back = {inside: real for real, inside in self.owner.items()}
        """Real owner -> owner in the cell; empty where they are the same."""
        self.uid, self.gid = request["uid"], request["gid"]
        self.patterns = masks.Patterns(**request["patterns"])
        self.mask = f"{MASKS}/{index}.0"
        self.hidden: list[str] = []
        self.pinned: list[str] = []
        self._rounds = 0
        self.lower = self.root
        if self.owner:
            tree = mounts.clone(mounts.AT_FDCWD, self.root)
            mounts.set_attributes(tree, 0, mounts.owner_map(self.owner))
            self.lower = f"/proc/self/fd/{tree}"
        self.look()

    def look(self) -> None:
        """Look up what to hide and to pin; make a new mask layer if that changed."""
        hidden, pinned = masks.find(self.root, self.patterns)
        self.pinned = pinned
        if hidden == self.hidden:
            return
        self._rounds += 1
        self.mask = f"{MASKS}/{self.index}.{self._rounds}"
        masks.build(self.mask, self.root, hidden, self.owner)
        self.hidden = hidden

    def note(self, paths: list[str]) -> None:
        """Look again if a landing touched a name that is hidden or pinned."""
        if any(self.patterns.hides(path) or self.patterns.pins(path) for path in paths):
            self.look()

    def stamp(self) -> int:
        """Return the time of the workspace's own file system, in ns (a fresh ctime)."""
        return landing.stamp(self.root)


class Prepared(NamedTuple):
    """A detached mount that waits for a call."""

    layer: str
    """Its private layer's folder; empty for a read-only one."""
    mask: str
    mount: int


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


class Keeper:
    """Handles the requests of the supervisor."""

    def __init__(self) -> None:
        self._spaces: list[Space] = []
        self._open: dict[str, Transaction] = {}
        self._cell = ""
        self.direct_fd: int | None = None
        """The supervisor's own connection, once there is one."""
        self._undo_bytes = vault.UNDO_QUOTA
        self._count = 0
        self._trash: list[str] = []
        """Layers of transactions that are over, removed while nothing is asked."""
        self._ready: dict[tuple[int, str], Prepared] = {}
        self._placer: Placer | None = None

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

    def setup(self, request: dict[str, Any]) -> dict[str, Any]:
        """Recover the workspaces, make the masks, enter the cell."""
        self._cell = f"{LIVE}/{request['cell']}"
        self._undo_bytes = request["undo_bytes"]
        self._clean(set(request["live"]))
        os.makedirs(self._cell, exist_ok=True)
        os.makedirs(HELD, exist_ok=True)
        recovered = []
        for index, path in enumerate(request["workspaces"]):
            recovered += landing.recover(f"{LOWER}/{index}")
            self._spaces.append(Space(index, path, request))
        self._placer = Placer([space.path for space in self._spaces])
        roots = [os.stat(space.root) for space in self._spaces]
        return {
            "hidden": [space.hidden for space in self._spaces],
            "roots": [(info.st_dev, info.st_ino) for info in roots],
            "recovered": recovered,
        }

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a transaction: place a read-only view or a fresh private layer in the cell."""
        writes = request["access"] == "write"
        transaction = Transaction(request["tx"], writes=writes)
        try:
            for space in self._spaces:
                self._place(space, transaction)
        except OSError:
            self._detach(len(transaction.layers))
            raise
        self._open[transaction.name] = transaction
        return {}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Detach a transaction and list its changes. The layers stay."""
        transaction = self._open[request["tx"]]
        transaction.placed = False
        self._detach(len(self._spaces))
        if not transaction.writes:
            del self._open[transaction.name]
            return {"changes": [], "empty": True}
        for space, layer, since in zip(self._spaces, transaction.layers, transaction.since):
            transaction.walks.append(self._walk(space, f"{layer}/upper", since))
        return {
            "changes": [walked.changes for walked in transaction.walks],
            "empty": all(walked.empty for walked in transaction.walks),
            "diff": "".join(self._diff(s, w) for s, w in zip(self._spaces, transaction.walks)),
        }

    def land(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a closed transaction to the real workspaces."""
        transaction = self._open[request["tx"]]
        conflicts = self._land_all(transaction.walks, request["tx"], force=False)
        if not conflicts:
            self._forget(transaction)
        return {"conflicts": conflicts}

    def hold(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep a closed transaction for a person to look at."""
        transaction = self._open.pop(request["tx"])
        for index, layer in enumerate(transaction.layers):
            if transaction.walks[index].changes:
                os.makedirs(f"{HELD}/{transaction.name}", exist_ok=True)
                os.rename(layer, f"{HELD}/{transaction.name}/{index}")
                with open(f"{HELD}/{transaction.name}/{index}.since", "w") as file:
                    file.write(str(transaction.since[index]))
            else:
                shutil.rmtree(layer, ignore_errors=True)
        return {}

    def land_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a held transaction. With `force`, files changed meanwhile are overwritten."""
        walks = self._held(request["tx"])
        if all(walked is None or walked.empty for walked in walks):
            raise Refused("nothing in it can land: device nodes, sockets and FIFOs never do")
        conflicts = self._land_all(walks, request["tx"], force=request["force"])
        if not conflicts:
            shutil.rmtree(f"{HELD}/{request['tx']}", ignore_errors=True)
        return {"conflicts": conflicts, "changes": [w.changes if w else [] for w in walks]}

    def drop(self, request: dict[str, Any]) -> dict[str, Any]:
        """Throw a transaction away, open, closed or held."""
        transaction = self._open.get(request["tx"])
        if transaction is not None:
            if transaction.placed:
                transaction.placed = False
                self._detach(len(self._spaces))
            self._forget(transaction)
        shutil.rmtree(f"{HELD}/{request['tx']}", ignore_errors=True)
        return {}

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Undo a landed call in every workspace that it changed."""
        refused: list[str] = []
        changed: list[list[dict[str, Any]]] = []
        known = [self._knows(space, request["call"]) for space in self._spaces]
        if not any(known):
            raise Refused(f"before-images of `{request['call']}` are not kept any more")
        for space, there in zip(self._spaces, known):
            changed.append([])
            if not there:
                continue
            result = landing.undo(
                space.root, request["call"], request["as"], quota=self._undo_bytes
            )
            if result.state not in ("undone", "conflict"):
                raise Refused(result.message or result.state)
            refused += result.refused
            changed[-1] = list(result.changes)
            space.note([change["path"] for change in result.changes])
        return {"refused": refused, "changes": changed}

    # -- parts

    def _clean(self, live: set[str]) -> None:
        """Remove the layers of cells that are gone."""
        os.makedirs(LIVE, exist_ok=True)
        for name in os.listdir(LIVE):
            age = time.time() - os.stat(f"{LIVE}/{name}").st_mtime
            if name not in live and age > STALE_SECONDS:
                shutil.rmtree(f"{LIVE}/{name}", ignore_errors=True)

    def prepare(self) -> None:
        """Remove old layers and mount the next views ahead of time. Called while idle."""
        while self._trash:
            shutil.rmtree(self._trash.pop(), ignore_errors=True)
        for space in self._spaces:
            for access in ("read", "write"):
                key = (space.index, access)
                if key not in self._ready:
                    try:
                        self._ready[key] = self._make(space, access)
                    except OSError:  # said when a transaction opens
                        return

    def _make(self, space: Space, access: str) -> Prepared:
        """Return a new detached mount over a workspace, with a private layer if it may write."""
        lower = f"{space.mask}:{space.lower}"
        if access == "read":
            options = {"lowerdir": lower, **_OPTIONS}
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
        options = {"lowerdir": lower, "upperdir": upper, "workdir": work, **_OPTIONS}
        return Prepared(layer, space.mask, mounts.overlay(options, _FLAGS))

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
            self._placer.place(space.index, ready.mount, space.pinned if transaction.writes else [])
        finally:
            os.close(ready.mount)
        transaction.layers.append(ready.layer)

    @staticmethod
    def _throw(ready: Prepared) -> None:
        os.close(ready.mount)
        if ready.layer:
            shutil.rmtree(ready.layer, ignore_errors=True)

    def _detach(self, count: int) -> None:
        assert self._placer is not None
        for space in self._spaces[:count]:
            self._placer.remove(space.index)

    def _walk(self, space: Space, upper: str, since: int) -> walk.Walk:
        walked = walk.walk(upper, space.root, masks=space.hidden, since=since, owners=space.back)
        gitindex.note_dropped(walked.changes, space.root, upper, space.hidden)
        return walked

    def _diff(self, space: Space, walked: walk.Walk) -> str:
        return "" if walked.empty else diffs.diff(walked, space.root)

    def _land_all(self, walks: Sequence[walk.Walk | None], call: str, *, force: bool) -> list[str]:
        """Land in every workspace or in none; return the paths that conflict."""
        landed: list[Space] = []
        for space, walked in zip(self._spaces, walks):
            if walked is None or walked.empty:
                continue
            result = landing.land(
                space.root, walked.upper, walked, call, force=force, quota=self._undo_bytes
            )
            if result.state == "landed":
                landed.append(space)
                space.note([change["path"] for change in walked.changes])
                continue
            if result.state == "nothing":
                continue
            for done in landed:
                landing.undo(done.root, call, f"{call}-back")
            if result.state != "conflict":
                raise Refused(result.message or result.state)
            return list(result.conflicts)
        return []

    def _held(self, name: str) -> list[walk.Walk | None]:
        """Return what a held transaction would change now, per workspace."""
        folder = f"{HELD}/{name}"
        if not os.path.isdir(folder):
            raise Refused(f"no held transaction `{name}`")
        out: list[walk.Walk | None] = []
        for space in self._spaces:
            layer = f"{folder}/{space.index}"
            if not os.path.isdir(layer):
                out.append(None)
                continue
            with open(f"{layer}.since") as file:
                out.append(self._walk(space, f"{layer}/upper", int(file.read())))
        return out

    @staticmethod
    def _knows(space: Space, call: str) -> bool:
        return any(entry["call"] == call for entry in landing.list_undo(space.root))

    def _forget(self, transaction: Transaction) -> None:
        self._open.pop(transaction.name, None)
        self._trash += [layer for layer in transaction.layers if layer]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
"""Names of calls and cells become names of folders here."""
_ABOUT_HELD = ("setup", "hold", "land_held", "drop")
"""Requests whose answer says how many transactions wait for a person."""
_REQUESTS = (
    "direct",
    "setup",
    "open",
    "close",
    "land",
    "hold",
    "land_held",
    "drop",
    "undo",
)


def serve() -> None:
    """Answer requests until standard input ends."""
    keeper = Keeper()
    inputs = {0: protocol.Decoder()}
    protocol.write_all(1, protocol.pack({"op": "hello"}))
    while True:
        for fd in select.select(list(inputs), [], [])[0]:
            data = os.read(fd, 65536)
            if not data:
                return
            for _, request in inputs[fd].feed(data):
                answer = _answer(keeper, request)
                protocol.write_all(fd or 1, protocol.pack(answer))
            if keeper.direct_fd is not None and keeper.direct_fd not in inputs:
                inputs[keeper.direct_fd] = protocol.Decoder()
        keeper.prepare()


def _answer(keeper: Keeper, request: dict[str, Any]) -> dict[str, Any]:
    head = {"op": request["op"], "n": request["n"]}
    started = time.perf_counter()
    try:
        if request["op"] not in _REQUESTS:
            raise Refused(f"unknown request `{request['op']}`")
        for key in ("tx", "call", "as", "cell"):
            if not _NAME.fullmatch(request.get(key, "x")):
                raise Refused("a name that cannot be the name of a folder")
        answer = getattr(keeper, request["op"])(request)
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename}"
        return {**head, "error": text, "errno": error.errno}
    except (Refused, masks.TooLarge, landing.LandingError) as error:
        return {**head, "error": str(error)}
    except KeyError as error:
        return {**head, "error": f"unknown transaction or field {error}"}
    if request["op"] in _ABOUT_HELD:
        answer["held"] = len(os.listdir(HELD))
    return {**head, **answer, "ms": (time.perf_counter() - started) * 1000}


def main() -> None:
    """Run as the keeper's only program."""
    os.umask(0)
    try:
        serve()
    except KeyboardInterrupt:
        sys.exit(0)
