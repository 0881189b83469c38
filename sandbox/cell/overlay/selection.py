# SPDX-License-Identifier: Apache-2.0
"""Choose some of the changes of a held transaction, so that they can land without the rest.

    Names(names)                      paths, folders and globs, as a person writes them
    choose(walk, names) -> set[int]   positions in `walk.changes` of what these names stand for
    part(walk, chosen) -> Walk        a walk of these changes alone

A new folder above something chosen is chosen with it. A move is chosen with both of its ends, a
moved folder only as a whole, and of what git keeps in a repository all or nothing; what would tear
one apart is refused. Pure but for the walk's nodes.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from .layer import LandingError, Node, above, join, lies_in
from .steps import Change, Put, Take, Walk


class Names:
    """Paths, folders (with all they hold) and globs. Remembers which of them fitted something."""

    def __init__(self, names: Iterable[str]) -> None:
        self._plain = {name.strip("/"): name for name in names}
        self._globs = [
            (name, _compiled(plain))
            for plain, name in self._plain.items()
            if re.search(r"[*?\[]", plain)
        ]
        self.used: set[str] = set()

    def fit(self, path: str) -> bool:
        """Whether a path is named, lies in a folder that is named, or fits a glob."""
        found = [self._plain[one] for one in (path, *above(path)) if one in self._plain]
        found += [name for name, glob in self._globs if glob.fullmatch(path)]
        self.used.update(found)
        return bool(found)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression of a glob; what is none (`[post-id]`) stands for itself."""
    try:
        return re.compile(_expression(pattern), re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern), re.DOTALL)


def _expression(pattern: str) -> str:
    """Return a regular expression in which `*` stays within one name and `**` does not."""
    pieces = []
    parts = pattern.split("/")
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if part == "**":
            pieces.append(".+" if last else "(?:[^/]+/)*")
        else:
            pieces.append(_component(part) + ("" if last else "/"))
    return "".join(pieces) + "(?:/.*)?"


def _component(part: str) -> str:
    out, at = "", 0
    while at < len(part):
        sign = part[at]
        end = part.find("]", at + 2) if sign == "[" else -1
        if sign == "*":
            out += "[^/]*"
        elif sign == "?":
            out += "[^/]"
        elif end > 0:
            inner = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out += "[" + ("^/" + inner[1:] if inner[0] in "!^" else inner) + "]"
            at = end
        else:
            out += re.escape(sign)
        at += 1
    return out


def choose(walked: Walk, names: Names) -> set[int]:
    """Return the positions of the changes that are named, and of those that must go with them.

    Raises LandingError where that would tear a move or a repository apart, or replace what was not
    named.
    """
    chosen = _Choice(walked).close(
        {
            position
            for position, change in enumerate(walked.changes)
            if sum(names.fit(path) for path in _ends(change))  # both: each notes its names as used
        }
    )
    _keep_repositories_whole(walked.changes, chosen)
    return chosen


_APART = frozenset(("branches", "config", "config.worktree", "description", "hooks", "info"))
"""What git never writes along with objects and references."""


def _keep_repositories_whole(changes: Sequence[Change], chosen: set[int]) -> None:
    """Refuse references without the objects that they need, and the like. Raises LandingError."""
    first: dict[tuple[str, bool], str] = {}
    for position, change in enumerate(changes):
        for repository, path in _kept_by_git(change):
            taken = position in chosen
            first.setdefault((repository, taken), path)
            other = first.get((repository, not taken))
            if other is not None:
                raise LandingError(
                    f"`{path}` and `{other}` belong to one repository, of which all lands or "
                    f"nothing: name `{repository}`"
                )


def _kept_by_git(change: Change) -> Iterator[tuple[str, str]]:
    """Give the repository of each end of a change, where it is a file that goes with others."""
    if change["type"] == "directory":
        return
    ends = [(change["path"], change.get("git_folders"))]
    ends.append((change.get("source"), change.get("git_sources")))
    for path, folders in ends:
        if path is None or not folders:
            continue
        inner = "" if folders[-1] == "." else folders[-1] + "/"
        if path[len(inner) :].partition("/")[0] not in _APART:
            yield folders[0], path


def _ends(change: Change) -> list[str]:
    source = change.get("source")
    return [change["path"]] if source is None else [change["path"], source]


class _Choice:
    def __init__(self, walked: Walk) -> None:
        self._changes = walked.changes
        self._moves = [(put.source, put.path) for put in walked.puts if put.source is not None]
        self._inside: list[list[int]] = [[] for _ in self._moves]
        """For each move the positions of what goes with it."""
        self._of: list[set[int]] = [set() for _ in self._changes]
        """For each change the moves with which it goes."""
        self._index()
        self._torn: set[int] = set()
        """Moves of which something is chosen; all of them is, then."""
        self._new = {
            change["path"]: position
            for position, change in enumerate(walked.changes)
            if change["kind"] != "deleted"
        }
        self._gone = {
            (change["path"] if change["kind"] == "deleted" else change["source"]): position
            for position, change in enumerate(walked.changes)
            if change["kind"] in ("deleted", "renamed")
        }

    def _index(self) -> None:
        sources = {source: number for number, (source, _) in enumerate(self._moves)}
        targets = {path: number for number, (_, path) in enumerate(self._moves)}
        for position, change in enumerate(self._changes):
            ends = [(change["path"], sources if change["kind"] == "deleted" else targets)]
            if "source" in change:
                ends.append((change["source"], sources))
            for path, moves in ends:
                mine = {moves[one] for one in (path, *above(path)) if one in moves}
                for number in mine - self._of[position]:
                    self._inside[number].append(position)
                self._of[position] |= mine

    def close(self, chosen: set[int]) -> set[int]:
        """Add what must go with what is chosen."""
        new = set(chosen)
        while new:
            new |= self._moved(new, chosen)
            found: set[int] = set()
            for position in new:
                found |= self._folders(self._changes[position], chosen)
            new = found - chosen
            chosen |= new
        return chosen

    def _moved(self, new: set[int], chosen: set[int]) -> set[int]:
        """Choose what goes with what is newly chosen; return that."""
        found: set[int] = set()
        waiting = list(new)
        while waiting:
            for number in self._of[waiting.pop()] - self._torn:
                source, path = self._moves[number]
                if self._new.get(path) not in chosen:
                    first = min(one for one in self._inside[number] if one in chosen)
                    raise LandingError(
                        f"`{self._changes[first]['path']}` goes with the move of `{source}` to "
                        f"`{path}`, which lands as a whole: name `{path}`"
                    )
                self._torn.add(number)
                more = set(self._inside[number]) - chosen
                chosen |= more
                found |= more
                waiting += more
        return found

    def _folders(self, change: Change, chosen: set[int]) -> set[int]:
        """Return the new folders above a change that stays, and of what they replace its move."""
        if change["kind"] == "deleted":
            return set()
        found = set()
        for folder in above(change["path"]):
            position = self._new.get(folder)
            if position is None or self._changes[position]["kind"] != "created":
                continue
            found.add(position)
            replaced = self._gone.get(folder)
            if replaced is not None and replaced not in chosen:
                raise LandingError(
                    f"`{change['path']}` lies in `{folder}`, which takes the place of something "
                    f"else: name `{folder}`"
                )
        return found


def part(walked: Walk, chosen: set[int], times: Callable[[str], bool] = lambda _: False) -> Walk:
    """Return a walk of the chosen changes alone, which `choose` has closed.

    `times` says at which paths a time that is no change by itself is set as well.
    """
    changes = [change for n, change in enumerate(walked.changes) if n in chosen]
    stays = {change["path"] for change in changes if change["kind"] != "deleted"}
    gone = {change["path"] for change in changes if change["kind"] == "deleted"}
    gone |= {change["source"] for change in changes if "source" in change}
    result = Walk(walked.upper, walked.owners)
    result.changes = changes
    result.since, result.origins, result.own = walked.since, walked.origins, walked.own
    moved = {put.source: put.path for put in walked.puts if put.source and put.path in stays}
    places = set(moved.values())
    for take in walked.takes:
        if take.moved:
            result.takes += [take] if take.path in moved else []
        else:
            result.takes += _taken(take, gone)
    for put in walked.puts:
        if put.path in stays:
            node = put.node if put.source else _pruned(put.node, put.path, stays)
            result.puts.append(Put(put.path, node, put.source))
    result.swaps = [swap for swap in walked.swaps if swap.path in stays]
    result.metas = [
        meta
        for meta in walked.metas
        if (meta.path or ".") in stays or times(meta.path or ".") or lies_in(meta.path, places)
    ]
    result.left_out = [path for path in walked.left_out if path in stays]
    return result


def _taken(take: Take, gone: set[str]) -> list[Take]:
    """Return what goes away of a deletion: all of it, or the chosen files and folders in it."""
    if take.inner is None:
        return [take] if take.path in gone else []
    inner = {join(take.path, name): held for name, held in take.inner.items()}
    if take.path in gone and inner.keys() <= gone:
        return [take]
    below: dict[str, list[str]] = {}
    for path in inner:
        for folder in above(path):
            below.setdefault(folder, []).append(path)
    found: dict[str, Take] = {}
    for path in sorted(inner, key=lambda one: one.split("/")):
        if path not in gone or any(folder in found for folder in above(path)):
            continue
        held = {one[len(path) + 1 :]: inner[one] for one in below.get(path, ())}
        if held and not gone.issuperset(below[path]):
            continue  # something in it stays
        is_folder = inner[path][1] < 0
        found[path] = Take(path, inner[path], held if is_folder else None, False)
    return list(found.values())


def _pruned(node: Node, path: str, stays: set[str]) -> Node:
    """Return an object of the layer with only those things in it that land."""
    if not node.is_directory:
        return node
    copy = Node(node.real, node.status)
    copy.opaque = node.opaque
    for name, child in node.held.items():
        inner = join(path, name)
        if child.source is None and not child.is_whiteout and inner not in stays:
            continue
        copy.held[name] = child if child.source is not None else _pruned(child, inner, stays)
    return copy
