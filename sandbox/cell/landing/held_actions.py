# SPDX-License-Identifier: Apache-2.0
"""What a person does after a call, as the keeper carries it out: held layers, and undoing.

Held layers are looked at anew each time, over the workspace as it is then. Runs in the keeper:
standard library only, Python 3.9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .. import fs
from ..journal.planning import Fault
from ..overlay import diffs
from ..overlay import selection as choosing
from ..overlay import sides as pieces
from ..overlay.layer import LandingError
from ..overlay.steps import Walk
from . import land as landing
from . import multi as together
from . import room
from .fates import became
from .held import Waiting
from .net import pieces_of, turned
from .settle import finish_all, locked
from .spaces import Space

WalkLayer = Callable[[Space, str, int], Walk]
MOST_OWN = 20_000
"""Paths that are told of a landing for which there is no room; of more, not all are."""
Walks = Sequence["Walk | None"]
"""What is held per workspace; None where nothing is."""


class Landed(NamedTuple):
    """What a landing in every workspace came to."""

    conflicts: list[str]
    evicted: list[str]
    """Calls that can no longer be undone."""
    lost: list[str]
    """Of these, those whose going a person must hear of."""
    crowded: list[str]
    """Paths of which the last copy would go: nothing landed then."""
    own: list[str]
    """Of those that are to land: the paths of which they would keep the last copy themselves."""


class _InTheWay(LandingError):
    """A landing or an undo was refused; these paths are in its way."""

    def __init__(self, result: landing.Landing) -> None:
        self.paths = list(result.conflicts)
        self.crowded = result.state == "crowded"
        self.own = list(result.own)
        named = ", ".join(f"`{path}`" for path in self.paths[: together.NAMED])
        super().__init__(f"{named}: {result.message}")


class Turned(LandingError):
    """Something else landed since the changes were judged; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("something else landed meanwhile; look at it again")


class Afterwards:
    """Acts on all workspaces of a cell, or on none of them."""

    def __init__(
        self,
        spaces: list[Space],
        waiting: Waiting,
        walk: WalkLayer,
        *,
        quota: int,
        fault: Fault | None,
    ) -> None:
        self._spaces = spaces
        self._waiting = waiting
        self._walk = walk
        self._quota = quota
        self._fault = fault

    # Held layers

    def look(
        self,
        call: str,
        names: Sequence[str],
        digests: Sequence[Sequence[str]] = (),
        *,
        shown: bool,
    ) -> dict[str, Any]:
        """Return what a held transaction would change now: `changes` per workspace, and `diff`.

        `mark` tells these changes from any other; `digests` are those of the paths asked about.
        """
        if not self._waiting.there(call):
            return {"gone": True, "changes": [[] for _ in self._spaces], "diff": ""}
        walks = self._chosen(self._held(call), names)
        changes = [walked.changes if walked else [] for walked in walks]
        return {
            "changes": changes,
            "diff": self.diff(walks) if shown else "",
            "mark": landing.mark_of(changes),
            "digests": self.digests(walks, digests),
        }

    def land_held(self, request: dict[str, Any]) -> dict[str, Any]:
        """Land a held transaction, or the chosen part of it, as the id `as`.

        With `force`, files that changed meanwhile are overwritten (and kept for an undo). The rest
        stays held; `rest` are its changes per workspace. INVARIANT (P8, bound): only what a `look`
        gave as `mark` lands, and at the paths in `digests` only what is `expected`; else Turned.
        """
        call, name = request["tx"], request["as"]
        if not self._waiting.there(call):
            return {"gone": True}
        turns = [landing.turn(space.root) for space in self._spaces]  # before it is looked at
        held = self._held(call)
        walks = self._chosen(held, request["names"])
        if landing.mark_of([walk.changes if walk else [] for walk in walks]) != request["mark"]:
            raise Turned
        if all(walked is None or walked.empty for walked in walks):
            raise LandingError("nothing of it can land: device nodes, sockets and FIFOs never do")
        digests, diff = self.digests(walks, request["digests"]), self.diff(walks)
        for found, wanted in zip(digests, request["expected"]):
            if any(found.get(path) != digest for path, digest in wanted.items()):
                raise Turned
        for space, walked in self._busy(walks):
            whole = held[space.index] or walked
            self._waiting.begin(call, space.index, name, whole, walked, _landed(space))
        landed = self.land(
            walks, name, force=request["force"], at=turns, agent=request["agent"], spare=False
        )
        if landed.conflicts:
            return {"conflicts": landed.conflicts}
        for space, _ in self._busy(walks):
            self._waiting.settle(call, space.index, _landed(space))
        rest = self._rest(held, walks)
        answer = {
            **landed._asdict(),
            "changes": [walked.changes if walked else [] for walked in walks],
            "digests": digests,
            "diff": diff,
            "rest": [[] for _ in self._spaces],
        }
        if any(rest):
            later = self._held(call)
            answer["rest"] = [walked.changes if walked else [] for walked in later]
            answer["rest_diff"] = self.diff(later)
        else:
            self._waiting.remove(call)
        return answer

    def _held(self, call: str) -> list[Walk | None]:
        """Return what a held transaction would change now, per workspace."""
        found: list[Walk | None] = []
        for space in self._spaces:
            layer = self._waiting.layer(call, space.index)
            if layer is None:
                found.append(None)
                continue
            walked = self._walk(space, *layer)
            found.append(self._waiting.rest(call, space.index, walked, layer[1], _landed(space)))
        return found

    def _chosen(self, walks: Walks, names: Sequence[str]) -> list[Walk | None]:
        """Return the chosen parts; without names, all. Raises LandingError for an idle name."""
        if not names:
            return list(walks)
        idle = set(names)
        found: list[Walk | None] = []
        for space, walked in zip(self._spaces, walks):
            mine = {_inside(name, space): name for name in names}
            wanted = choosing.Names(one for one in mine if one is not None)
            chosen: set[int] = set()
            if walked is not None and "" in mine:
                chosen, idle = set(range(len(walked.changes))), idle - {mine[""]}
            elif walked is not None:
                chosen = choosing.choose(walked, wanted)
            idle -= {mine[one] for one in wanted.used}
            found.append(choosing.part(walked, chosen) if walked is not None and chosen else None)
        if idle:
            names = ", ".join(f"`{name}`" for name in sorted(idle))
            raise LandingError(f"{names}: no held change is there")
        return found

    @staticmethod
    def _rest(held: Walks, landed: Walks) -> list[int]:
        """Return how many changes are left, for each workspace where some are."""
        counts = [
            len(one.changes) - (len(other.changes) if other else 0) if one else 0
            for one, other in zip(held, landed)
        ]
        return [count for count in counts if count]

    # Landing and undoing

    def land(
        self,
        walks: Walks,
        name: str,
        *,
        force: bool,
        at: Sequence[int],
        agent: str,
        spare: bool,
        plain: bool = False,
    ) -> Landed:
        """Land in every workspace or in none. Raises Turned where something else landed since `at`,
        the turns of all workspaces. `agent`, `spare` and `plain` as in `landing.land`."""
        busy = self._busy(walks)
        late = [path for _, walked in busy for path in walked.conflicts]
        if late and not force:
            return Landed(late, [], [], [], [])
        evicted: list[str] = []
        lost: list[str] = []
        try:
            with together.whole(name, _roots(space for space, _ in busy), self._fault) as done:
                for space, walked in busy:
                    result = landing.land(
                        space.root,
                        walked.upper,
                        walked,
                        name,
                        force=force,
                        quota=self._quota,
                        at=at[space.index],
                        agent=agent,
                        spare=spare,
                        plain=plain,
                        fault=self._fault,
                    )
                    if result.state == "turned":
                        raise Turned()
                    if result.state in ("conflict", "crowded"):
                        raise _InTheWay(result)
                    done.append(space.path)
                    evicted += result.evicted
                    lost += result.lost
        except _InTheWay as error:
            if not error.crowded:
                return Landed(error.paths, [], [], [], [])
            cut = [""] if len(error.own) > MOST_OWN else []  # such a path is ignored by no rule
            return Landed([], [], [], error.paths[:MOST_OWN], cut + error.own[:MOST_OWN])
        finally:
            for space, walked in busy:
                space.note([change["path"] for change in walked.changes])
        return Landed([], evicted, lost, [], [])

    def undo(
        self,
        call: str,
        name: str,
        digests: Sequence[Sequence[str]],
        marks: Sequence[str | None],
        agent: str,
    ) -> dict[str, Any]:
        """Undo a landed call in every workspace that it changed, as `name`, as it was looked at."""
        known = self._known(call)
        found: list[landing.Landing | None] = []
        try:
            with together.whole(name, _roots(known), self._fault) as done:
                for space, wanted, mark in zip(self._spaces, digests, marks):
                    if space not in known:
                        found.append(None)
                        continue
                    found.append(self._undone(space, call, name, wanted, mark, agent))
                    done.append(space.path)
        except _InTheWay as error:
            return {"refused": error.paths}
        for space, one in zip(self._spaces, found):
            space.note([change["path"] for change in one.changes] if one else [])
        return {
            "refused": [],
            "changes": [list(one.changes) if one else [] for one in found],
            "digests": [dict(one.digests) if one else {} for one in found],
            "evicted": [call for one in found if one for call in one.evicted],
            "lost": [call for one in found if one for call in one.lost],
        }

    def _undone(
        self,
        space: Space,
        call: str,
        name: str,
        wanted: Sequence[str],
        mark: str | None,
        agent: str,
    ) -> landing.Landing:
        result = landing.undo(
            space.root,
            call,
            name,
            digests=wanted,
            mark=mark,
            agent=agent,
            quota=self._quota,
            fault=self._fault,
        )
        if result.state != "undone":
            raise _InTheWay(result)
        return result

    def clear(self, coming: Sequence[int], agent: str) -> dict[str, Any]:
        """Make room for the bytes that an agent's own tool is about to replace, per workspace.

        `full` are the workspaces where the last copy of something would go for them.
        """
        gone = []
        for space, size in zip(self._spaces, coming):
            with locked(space.root) as vault:
                finish_all(vault, self._fault)
                gone.append((space.path, room.clear(vault, size, self._quota, agent)))
        return {
            "full": [path for path, one in gone if one.last],
            "evicted": [call for _, one in gone for call in one.evicted],
        }

    def outlook(self, call: str, *, shown: bool) -> dict[str, Any]:
        """Return what an undo would do: `refused`, and per workspace `changes`; `diff` as text."""
        known = self._known(call)
        looks = [
            landing.outlook(
                space.root, call, space.patterns.hides, space.patterns.counts, shown=shown
            )
            if space in known
            else None
            for space in self._spaces
        ]
        return {
            "refused": [path for look in looks if look for path in look.conflicts],
            "changes": [list(look.changes) if look else [] for look in looks],
            "mark": [landing.mark_of(look.changes) if look else None for look in looks],
            "diff": "".join(look.diff for look in looks if look),
        }

    def net(self, calls: Sequence[str], *, forward: bool) -> dict[str, Any]:
        """Return what undoing these calls, newest first, would change in all: `changes` per
        workspace, and `diff`. `forward`: what they changed, which is the same turned round."""
        changes, texts = [], []
        for space in self._spaces:
            with locked(space.root) as vault:
                finish_all(vault, self._fault)
                with pieces_of(vault, calls) as found:
                    shown = [turned(piece) for piece in found] if forward else found
                    hides, counts = space.patterns.hides, space.patterns.counts
                    changes.append([piece.change for piece in shown])
                    texts.append(diffs.text(shown, hides, counts))
        return {"changes": changes, "diff": "".join(texts)}

    def _known(self, call: str) -> list[Space]:
        known = [
            space
            for space in self._spaces
            if any(entry["call"] == call for entry in landing.list_undo(space.root))
        ]
        if not known:
            raise LandingError(f"before-images of `{call}` are not kept any more")
        return known

    # Texts and digests

    def diff(self, walks: Walks) -> str:
        """Return the changes of all workspaces as text."""
        return "".join(
            diffs.diff(walked, space.root, space.patterns.hides, space.patterns.counts)
            for space, walked in self._busy(walks)
        )

    def digests(self, walks: Walks, wanted: Sequence[Sequence[str]]) -> list[dict[str, str]]:
        """Return, per workspace, the SHA-256 of what will stand at some changed paths."""
        found: list[dict[str, str]] = []
        for space, walked, paths in zip(self._spaces, walks, wanted):
            if walked is None or not paths:
                found.append({})
                continue
            root = fs.open_directory(space.root)
            try:
                found.append(pieces.digests(pieces.of_walk(walked, root), paths))
            finally:
                os.close(root)
        return found

    def _busy(self, walks: Walks) -> list[tuple[Space, Walk]]:
        return [
            (space, walked)
            for space, walked in zip(self._spaces, walks)
            if walked is not None and not walked.empty
        ]


def _roots(spaces: Iterable[Space]) -> dict[str, str]:
    return {space.path: space.root for space in spaces}


def _landed(space: Space) -> Callable[[str], bool]:
    return lambda name: became(space.root, name) is not None


def _inside(name: str, space: Space) -> str | None:
    """Return a name relative to a workspace; of further workspaces the whole path is given."""
    if name == space.path or name.startswith(space.path + "/"):
        return name[len(space.path) :].strip("/")
    return None if space.index or name.startswith("/") else name.strip("/")
