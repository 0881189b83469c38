# SPDX-License-Identifier: Apache-2.0
"""Compare a call's private layer with the real workspace: what changed, and how to land it.

    walk(upper: str, lower: int | str, *, masks: Iterable[str] = (), since: int | None = None,
         owners: Mapping[int, int] | None = None, reads=no_text, condenses=no_text) -> Walk

`upper` is the layer's path; `lower` is the real workspace's root, a path or an open descriptor.
`masks` are the paths hidden from the cell, relative to the root. `since` is the ctime in
nanoseconds of a stamp file in the workspace's file system, taken when the transaction opened
(`landing.land`: `stamp`). `owners` maps ids in the layer to real ids (uids and gids alike). `reads`
says of which files, besides git's settings, the texts before and after are wanted, `condenses` of
which of them the places that they name are enough.

`Walk.changes` are dicts with the fields of `policy.model.Change`, fit for JSON and sorted by path;
the rest of a Walk is for `landing`. What counts: content, type, mode, owner, `user.*` attributes,
access lists, link targets. A file copied up without any difference is nothing, unless the real one
was changed meanwhile; one whose mtime alone differs is no change either, but its mtime is set when
the transaction lands.

- A directory that was moved gives one RENAMED for itself and one for each thing it holds; one that
  was also changed carries `modified`. What went away in it is DELETED under the path that it had,
  what came in is CREATED.
- A file that went away while an equal one (size, mtime, content) appeared is RENAMED.
- A path that changed its type, or that a moved object replaced, is DELETED and also CREATED or
  RENAMED.
- `conflict`: the real file changed, appeared or vanished while the call ran.
- `hidden`: a mask hides the path. A folder removed and made anew keeps what is hidden in it.

Runs in the keeper: standard library only, Python 3.9. Decides nothing, changes nothing. The cost
follows the number of changes; the workspace is looked at only where the layer touches it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from .. import fs
from . import access
from .layer import Layer, LayerError, Node, above, join
from .lower import Below, Reads, no_text, tree
from .steps import Change, Meta, Put, Swap, Take, Walk, landed_mode, never_lands, type_name

__all__ = ["LayerError", "Walk", "walk"]


def walk(
    upper: str,
    lower: int | str,
    *,
    masks: Iterable[str] = (),
    since: int | None = None,
    owners: Mapping[int, int] | None = None,
    reads: Reads = no_text,
    condenses: Reads = no_text,
) -> Walk:
    """Compare a layer with the workspace below it. Raises LayerError where that is impossible."""
    try:
        root = fs.open_directory(lower) if isinstance(lower, str) else os.dup(lower)
    except OSError as error:
        raise LayerError(f"the workspace cannot be opened: {error}") from None
    below = Below(root, frozenset(masks), since, reads, condenses)
    result = Walk(upper, owners or {})
    result.since = since
    try:
        return _Walker(Layer(upper), below, result).run()
    except OSError as error:
        raise LayerError(f"the layer cannot be listed: {error}") from None
    finally:
        below.close()
        os.close(root)


class _Walker:
    def __init__(self, layer: Layer, below: Below, result: Walk) -> None:
        self._layer = layer
        self._below = below
        self._walk = result
        self._gone: list[tuple[Change, os.stat_result]] = []
        self._new: list[tuple[Change, Node]] = []
        self._replaced: set[str] = set()
        """Folders of the workspace in whose place the call had seen others."""
        self._carrying: list[tuple[str, dict[str, list[int]]]] = []
        """The moved folders that are looked at, the innermost last, and what goes along."""

    def run(self) -> Walk:
        self._directory(self._layer.root, "", "")
        self._find_vanished()
        self._pair_renames()
        self._walk.changes.sort(key=lambda change: (change["path"], change["kind"]))
        return self._walk

    def _emit(
        self, path: str, kind: str, status: os.stat_result, node: Node | None = None, **more: Any
    ) -> Change:
        """Report one change. Without a node it is an object of the workspace."""
        change: Change = {"path": path or ".", "kind": kind, "type": type_name(status.st_mode)}
        change["conflict"] = False
        source = more.get("source")
        if not stat.S_ISDIR(status.st_mode) and status.st_size:
            change["size"] = status.st_size
        change["mode"] = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode) and kind != "deleted":
            target = (
                os.readlink(node.real) if node else fs.readlink(self._below.root, source or path)
            )
            change["target"] = target
        if self._below.hidden(path) or (source and self._below.hidden(source)):
            change["hidden"] = True
        # before_text of an empty file is "", which says something; False says nothing
        change.update((k, v) for k, v in more.items() if v is not None and v is not False)
        self._walk.changes.append(change)
        return change

    # Directories

    def _directory(self, node: Node, path: str, low: str) -> None:
        """Compare a directory of the layer with the one of the workspace that it stands for."""
        before = self._below.status(low)
        if before is None:
            raise LayerError(f"`{low}` vanished")
        look = self._below.another if node.source == low else self._below.replaced
        replaced = not node.opaque and look(low, before, fs.origin(node.real))
        if replaced:
            self._replaced.add(low)
        differs = self._settings(node, path, low, before)
        access_now = self._access(node, low, before) if differs else {}
        if path != low:
            self._emit(
                path,
                "renamed",
                node.status,
                node,
                source=low,
                modified=differs,
                conflict=replaced or self._in_replaced(low),
                **access_now,
            )
        elif differs:
            self._emit(path, "meta", node.status, node, conflict=replaced, **access_now)
        for name, child in node.held.items():
            under = join(low, name)
            moved_away = under in self._layer.sources and child.source != under
            self._child(child, join(path, name), None if moved_away else under, node)
        if node.opaque or path != low:
            self._unmentioned(node, path, low, before)

    def _unmentioned(self, node: Node, path: str, low: str, before: os.stat_result) -> None:
        """List what the workspace's directory holds and the layer does not mention."""
        for name, status in self._below.listing(low):
            held = join(low, name)
            if name in node.held or held in self._layer.sources:
                continue
            if not node.opaque:
                self._carried(join(path, name), held, status)
            elif not self._below.hidden(held):  # the cell could not see what a mask hides
                self._delete(held, status, suspect=self._below.later(before))

    def _carried(self, path: str, held: str, status: os.stat_result) -> None:
        """Report what a moved directory takes along."""
        found = [("", status)]
        if stat.S_ISDIR(status.st_mode) and not self._below.foreign(status):
            found += tree(self._below, held, self._layer.sources, "/")
        replaced = self._in_replaced(held)
        for name, inner in found:
            self._goes_along(held + name, inner)
            conflict = replaced or self._late(held + name, inner)
            self._emit(
                path + name,
                "renamed",
                inner,
                source=held + name,
                conflict=conflict,
                **self._below.moved_texts(path + name, held + name, inner),
            )

    def _goes_along(self, low: str, status: os.stat_result) -> None:
        """Note what lies in the moved folder that is looked at, and is not taken out before."""
        if self._carrying:
            source, held = self._carrying[-1]
            held[low[len(source) + 1 :]] = fs.identity(status)

    def _child(self, node: Node, path: str, low: str | None, parent: Node) -> None:
        before = None if low is None else self._below.status(low)
        if node.is_whiteout:
            if low is None or parent.opaque:
                return
            if before is not None:
                self._delete(low, before)
            else:
                self._vanished(low)
        elif not node.is_directory:
            self._object(node, path, low, before)
        elif node.source is not None and node.source != low:
            self._moved(node, path, low, before)
        elif low is not None and before is not None and stat.S_ISDIR(before.st_mode):
            self._goes_along(low, before)
            self._directory(node, path, low)
        else:
            if low is not None and before is not None:
                self._delete(low, before)
            # A new directory over a merged one is opaque; one that is not stood for another.
            lost = low is not None and before is None and not (parent.opaque or node.opaque)
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path, conflict=lost)

    def _moved(self, node: Node, path: str, low: str | None, before: os.stat_result | None) -> None:
        source = node.source
        assert source is not None
        if low is not None and before is not None:
            self._delete(low, before)
        status = self._below.status(source)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path, conflict=True)
            return
        carried: dict[str, list[int]] = {}
        listed = None if path == source else carried  # else what it holds stays where it is
        self._walk.takes.append(Take(source, fs.identity(status), None, True, listed))
        self._walk.puts.append(Put(path, node, source))
        self._carrying.append((source, carried))
        self._directory(node, path, source)
        self._carrying.pop()

    # Files, links, special files

    def _object(
        self, node: Node, path: str, low: str | None, before: os.stat_result | None
    ) -> None:
        if never_lands(node.status.st_mode):
            self._walk.left_out.append(path)
            replaced = before is not None and not never_lands(before.st_mode)
            if low is not None and before is not None and replaced:
                self._delete(low, before, suspect=self._below.later(before))
            elif low is not None and before is not None:
                self._goes_along(low, before)
            kind = "created" if before is None or replaced else "modified"
            self._emit(path, kind, node.status, node)
            return
        if low is not None and before is not None:
            if stat.S_IFMT(before.st_mode) == stat.S_IFMT(node.status.st_mode):
                self._existing(node, path, low, before)
                return
            self._delete(low, before, suspect=self._below.later(before))
        self._walk.puts.append(Put(path, node, None))
        self._created(node, path)

    def _existing(self, node: Node, path: str, low: str, before: os.stat_result) -> None:
        self._goes_along(low, before)
        hidden = self._below.hidden(low)
        # A file that somebody else changed meanwhile is not taken for unchanged because the call
        # wrote the same: two calls that raise a number from 5 would both have made it 6.
        conflict = self._below.touched(before) or self._in_replaced(low)
        replaced = hidden or conflict or not self._below.same(node, low, before)
        texts: dict[str, str] = {}
        more: dict[str, Any] = {}
        if replaced:
            self._walk.swaps.append(Swap(path, node, fs.identity(before)))
            self._note_dropped_bits(node, path)
            texts = self._below.texts(node, path, low)
        modified = replaced or self._settings(node, path, low, before)
        if path != low:
            if not texts:
                texts = self._below.texts(node, path, low)
            kind = "renamed"
            more.update(source=low, modified=modified)
        elif modified:
            kind = "modified" if replaced else "meta"
        else:
            return
        more.update(self._access(node, low, before))
        self._emit(path, kind, node.status, node, conflict=conflict, **more, **texts)

    def _settings(self, node: Node, path: str, low: str, before: os.stat_result) -> bool:
        """Add the step that sets mode, owner, attributes and mtime; False if only mtime differs.

        INVARIANT (P3, other names): settings of a file with several names are not changed in place,
        since they would change under names that nobody judged. This name gets a file of its own, as
        it had in the call's view; an mtime alone is left as it was.
        """
        old, new, listed = self._below.settings(node, low, before, self._walk.owners)
        if before.st_nlink > 1 and not node.is_directory:
            if listed:
                self._walk.swaps.append(Swap(path, node, fs.identity(before)))
        elif old != new:
            self._walk.metas.append(Meta(path, fs.identity(before), old, new))
        if new[0] != stat.S_IMODE(node.status.st_mode):
            self._walk.left_out.append(path)
        return listed

    def _access(self, node: Node, low: str, before: os.stat_result) -> dict[str, Any]:
        """Return what gate 2 asks of modes and access lists of an object that was there before."""
        if stat.S_ISLNK(before.st_mode):
            return {}
        old, found = stat.S_IMODE(before.st_mode), {}
        if old != stat.S_IMODE(node.status.st_mode):
            found["before_mode"] = old
        lists = fs.access_lists(node.real)
        if lists and access.wider(self._below.attributes(low), old, lists):
            found["access_list"] = True
        return found

    def _created(self, node: Node, path: str, *, conflict: bool = False) -> None:
        """Report a new object and all it holds; the caller adds the step that places it."""
        more: dict[str, Any] = self._below.texts(node, path, None)
        if not stat.S_ISLNK(node.status.st_mode) and (lists := fs.access_lists(node.real)):
            above = fs.attributes(os.path.dirname(node.real))
            mode = stat.S_IMODE(node.status.st_mode)
            more["access_list"] = not access.inherited(above, lists, mode)
        change = self._emit(path, "created", node.status, node, conflict=conflict, **more)
        self._note_dropped_bits(node, path)
        if not node.is_directory:
            self._new.append((change, node))
        for name, child in node.held.items():
            inner = join(path, name)
            if child.is_whiteout:
                continue
            if child.source is not None:
                self._moved(child, inner, None, None)
            elif never_lands(child.status.st_mode):
                self._object(child, inner, None, None)
            else:
                self._created(child, inner)

    def _note_dropped_bits(self, node: Node, path: str) -> None:
        if stat.S_IMODE(node.status.st_mode) != landed_mode(node.status):
            self._walk.left_out.append(path)

    # What went away

    def _delete(self, low: str, status: os.stat_result, *, suspect: bool = False) -> None:
        """Report that something of the workspace went away, with all it holds."""
        conflict = suspect or self._late(low, status) or self._in_replaced(low)
        texts = self._below.gone_texts(low, status)
        self._gone.append((self._emit(low, "deleted", status, conflict=conflict, **texts), status))
        inner: dict[str, list[int]] | None = None
        if stat.S_ISDIR(status.st_mode):
            inner = {}
            for name, held in tree(self._below, low, self._layer.sources):
                inner[name] = fs.identity(held)
                path = join(low, name)
                texts = self._below.gone_texts(path, held)
                late = self._late(path, held)
                change = self._emit(path, "deleted", held, conflict=late, **texts)
                self._gone.append((change, held))
        self._walk.takes.append(Take(low, fs.identity(status), inner, False))

    def _late(self, low: str, status: os.stat_result) -> bool:
        """Whether somebody else changed it, or put a folder there, since the call began."""
        return self._below.touched(status) or self._below.arrived(low, status)

    def _in_replaced(self, low: str) -> bool:
        """Whether a path lies in a folder that took the place of the one that the call saw."""
        return bool(self._replaced) and any(one in self._replaced for one in above(low))

    def _vanished(self, low: str) -> None:
        change: Change = {"path": low, "kind": "deleted", "type": "file", "conflict": True}
        if self._below.hidden(low):
            change["hidden"] = True
        self._walk.changes.append(change)

    def _find_vanished(self) -> None:
        """Mark files that were copied up from one that the workspace no longer has."""
        for change, node in self._new:
            origin = None
            if stat.S_ISREG(node.status.st_mode):
                with contextlib.suppress(OSError):
                    origin = fs.origin(node.real)
            if origin is None:
                continue
            found = self._origin(origin)
            if found is None:
                change["conflict"] = True
            else:
                self._walk.origins[change["path"]] = found

    def _pair_renames(self) -> None:
        """Join a file that went away and an equal one that appeared into one RENAMED."""
        gone: dict[tuple[int, int, int], list[tuple[Change, os.stat_result]]] = {}
        for change, status in self._gone:
            if not stat.S_ISDIR(status.st_mode):
                gone.setdefault(_likeness(status), []).append((change, status))
        dropped: set[int] = set()
        for change, node in self._new if gone else ():
            for pair in gone.get(_likeness(node.status), ()):
                old, before = pair
                if old["path"] != change["path"] and self._below.same(node, old["path"], before):
                    gone[_likeness(before)].remove(pair)
                    dropped.add(id(old))
                    change.update(kind="renamed", source=old["path"])
                    if "before_text" in old:
                        change["before_text"] = old["before_text"]
                    change["conflict"] = change["conflict"] or old["conflict"]
                    if old.get("hidden"):
                        change["hidden"] = True
                    owners = self._walk.owners
                    if self._below.settings(node, old["path"], before, owners)[2]:
                        change["modified"] = True
                    break
        if dropped:
            self._walk.changes = [c for c in self._walk.changes if id(c) not in dropped]

    def _origin(self, handle: bytes) -> str | None:
        """Return the path of the file that a handle means (ext4, tmpfs, xfs, btrfs)."""
        inodes = self._below.inodes
        ends = [(n, n + size) for size in (4, 8) for n in range(0, len(handle) - size + 1, 4)]
        for start, end in ends:
            path = inodes.get(int.from_bytes(handle[start:end], "little"))
            # A number may have been given to another file since; a handle never is.
            if path is not None and fs.handle(self._below.root, path) in (None, handle):
                return path
        return None


def _likeness(status: os.stat_result) -> tuple[int, int, int]:
    return stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns
