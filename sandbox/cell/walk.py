# SPDX-License-Identifier: Apache-2.0
"""Compare a call's private layer with the real workspace: what changed, and how to land it.

    walk(upper: str, lower: str, masks: Iterable[str] = (), since: int | None = None,
         owners: Mapping[int, int] | None = None) -> Walk

`upper` is the layer's path, `lower` that of the real workspace's root. `masks` are
the paths hidden from the cell, relative to the root. `since` is the ctime in nanoseconds of a stamp
file in the workspace's file system, taken when the transaction opened. `owners` maps ids in the
layer to real ids (uids and gids alike). A Walk is a list of dicts with the fields of
`policy.model.Change` (defaults left out, except `conflict`), fit for JSON; its further attributes
are for `landing`.

What counts: content, type, mode, owner, `user.*` attributes, access lists, link targets. A file
copied up without any difference is nothing; one whose mtime alone differs is no change either,
but `metas` sets its mtime when the transaction lands.

- A directory that was moved gives one RENAMED for itself and one for each thing it holds; one that
  was also changed inside carries `modified`. Its contents that went away are DELETED under the
  path that they had, what came in is CREATED.
- A file that went away while an equal one (size, mtime, content) appeared is RENAMED.
- A path that changed its type, or that another object replaced, is DELETED and also CREATED
  (or RENAMED).

Runs in the keeper: standard library only, Python 3.9. Decides nothing, changes nothing. The cost
follows the number of changes; the workspace is looked at only where the layer touches it.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import fs
from .layer import Layer, LayerError, Node, join
from .steps import Change, Meta, Put, Swap, Take, Walk, landed_mode

__all__ = ["LayerError", "Meta", "Put", "Swap", "Take", "Walk", "walk"]

MAX_TEXT = 64 * 1024
"""Bytes of a git configuration file that are passed on for gate 2 to read."""
CONFIG_NAMES = ("config", "config.worktree", "gitconfig", ".gitconfig", ".gitmodules")
"""Names under which git keeps settings, in lower case (`config` of a bare repository, too)."""


def walk(
    upper: str,
    lower: str,
    masks: Iterable[str] = (),
    since: int | None = None,
    owners: Mapping[int, int] | None = None,
) -> Walk:
    """Compare a layer with the workspace below it. Raises LayerError where that is impossible."""
    root = fs.open_directory(lower)
    try:
        return _Walker(upper, root, frozenset(masks), since, owners or {}).run()
    except OSError as error:
        raise LayerError(f"the layer cannot be listed: {error}") from None
    finally:
        os.close(root)


class _Walker:
    def __init__(
        self,
        upper: str,
        lower: int,
        masks: frozenset[str],
        since: int | None,
        owners: Mapping[int, int],
    ) -> None:
        self._layer = Layer(upper)
        self._lower = lower
        self._device = os.fstat(lower).st_dev
        self._masks = masks
        self._since = since
        self._walk = Walk(upper, owners)
        self._inodes: set[int] = set()
        self._origins: list[tuple[Change, bytes]] = []
        self._open: tuple[str, int] | None = None

    def run(self) -> Walk:
        try:
            self._directory(self._layer.root, "", "", merged=True)
        finally:
            if self._open is not None:
                os.close(self._open[1])
        for change, origin in self._origins:
            if not _mentions(origin, self._inodes):  # copied up from a file that is gone by now
                change["conflict"] = True
        self._pair_renames()
        self._walk.sort(key=lambda change: (change["path"], change["kind"]))
        return self._walk

    # The workspace below

    def _below(self, path: str) -> os.stat_result | None:
        """Return the status of a path in the workspace, None where absent."""
        directory, _, name = path.rpartition("/")
        try:
            if self._open is None or self._open[0] != directory:
                descriptor = fs.open_beneath(self._lower, directory)
                if self._open is not None:
                    os.close(self._open[1])
                self._open = (directory, descriptor)
            status = os.stat(name, dir_fd=self._open[1], follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise LayerError(f"`{path}` cannot be looked at: {error.strerror}") from None
        if not stat.S_ISDIR(status.st_mode):
            self._inodes.add(status.st_ino)
        return status

    def _tree(self, path: str, depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
        """Give all that a workspace directory holds, except directories moved elsewhere."""
        if depth > 1000:
            raise LayerError(f"`{path}` is nested too deep")
        descriptor = fs.open_beneath(self._lower, path)
        try:
            with os.scandir(descriptor) as entries:
                found = sorted((e.name, e.stat(follow_symlinks=False)) for e in entries)
        finally:
            os.close(descriptor)
        for name, status in found:
            held = join(path, name)
            if held in self._layer.sources:
                continue
            yield held, status
            if not stat.S_ISDIR(status.st_mode):
                self._inodes.add(status.st_ino)
            elif status.st_dev == self._device:
                yield from self._tree(held, depth + 1)

    # Changes

    def _emit(
        self, path: str, kind: str, status: os.stat_result, node: Node | None = None, **more: Any
    ) -> Change:
        change: Change = {
            "path": path or ".",
            "kind": kind,
            "type": _type(status),
            "conflict": False,
        }
        if not stat.S_ISDIR(status.st_mode) and status.st_size:
            change["size"] = status.st_size
        change["mode"] = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode) and kind != "deleted":
            with contextlib.suppress(OSError):
                change["target"] = (
                    os.readlink(node.real) if node else fs.readlink(self._lower, more["source"])
                )
        if self._hidden(path) or ("source" in more and self._hidden(more["source"])):
            change["hidden"] = True
        change.update((name, value) for name, value in more.items() if value)
        self._walk.append(change)
        return change

    def _hidden(self, path: str) -> bool:
        if not self._masks:
            return False
        parts = path.split("/")
        return any("/".join(parts[: n + 1]) in self._masks for n in range(len(parts)))

    def _touched(self, status: os.stat_result) -> bool:
        """Whether the real object changed after the transaction opened."""
        if status.st_dev != self._device:
            return True  # another file system was mounted there: never ours to change
        directory = stat.S_ISDIR(status.st_mode)
        return not directory and self._since is not None and status.st_ctime_ns > self._since

    def _directory(self, node: Node, path: str, low: str, *, merged: bool) -> None:
        """Compare a directory of the layer with the one of the workspace that it stands for."""
        before = os.fstat(self._lower) if not low else self._below(low)
        assert before is not None
        masked = self._hidden(low)
        opaque = node.opaque and not masked  # the cell could not see what a mask hides
        differs = self._compare_meta(node, path, low, before)
        if path != low:
            self._emit(path, "renamed", node.status, node, source=low, modified=differs)
        elif differs:
            self._emit(path, "meta", node.status, node)
        for name, child in node.held.items():
            below = None if join(low, name) in self._layer.sources else join(low, name)
            self._child(child, join(path, name), below, merged=merged and not node.opaque)
        if opaque or path != low:
            self._untouched(node, path, low, before, opaque=opaque)

    def _untouched(
        self, node: Node, path: str, low: str, before: os.stat_result, *, opaque: bool
    ) -> None:
        """List what the workspace's directory holds and the layer does not mention."""
        suspect = self._since is not None and before.st_ctime_ns > self._since
        skip = None
        for held, status in self._tree(low):
            if skip is not None and held.startswith(skip):
                continue
            skip = None
            if held[len(low) + 1 :].split("/", 1)[0] in node.held:
                if stat.S_ISDIR(status.st_mode):
                    skip = held + "/"
                continue
            if not opaque:
                self._emit(
                    path + held[len(low) :],
                    "renamed",
                    status,
                    source=held,
                    conflict=self._touched(status),
                )
            elif not self._hidden(held):
                self._delete(held, status, suspect=suspect)
                skip = held + "/"

    def _child(self, node: Node, path: str, low: str | None, *, merged: bool) -> None:
        before = None if low is None else self._below(low)
        if node.is_whiteout:
            if low is None or not merged:
                return
            if before is not None:
                self._delete(low, before)
            else:
                self._vanished(low, node)
        elif not node.is_directory:
            self._object(node, path, low, before)
        elif node.source is not None and node.source != low:
            self._moved(node, path, low, before)
        elif low is not None and before is not None and stat.S_ISDIR(before.st_mode):
            self._directory(node, path, low, merged=True)
        else:
            if low is not None and before is not None:
                self._delete(low, before)
            lost = merged and low is not None and before is None and not node.opaque
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path, conflict=lost)

    def _vanished(self, low: str, node: Node) -> None:
        self._walk.append(
            {"path": low, "kind": "deleted", "type": "file", "conflict": True}
            | ({"hidden": True} if self._hidden(low) else {})
        )

    def _object(
        self, node: Node, path: str, low: str | None, before: os.stat_result | None
    ) -> None:
        """Compare a file, link or special file with what lies below it."""
        if _type(node.status) == "special":
            self._walk.left_out.append(path)
            self._emit(path, "created" if before is None else "modified", node.status, node)
            return
        if low is None or before is None:
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path)
        elif stat.S_IFMT(before.st_mode) != stat.S_IFMT(node.status.st_mode):
            self._delete(low, before)
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path)
        else:
            self._existing(node, path, low, before)

    def _existing(self, node: Node, path: str, low: str, before: os.stat_result) -> None:
        conflict = self._touched(before)
        same = self._same(node, low, before)
        if not same or self._hidden(low):
            self._walk.swaps.append(Swap(path, node, fs.identity(before), before.st_size))
            self._drop_bits(node, path)
        modified = not same or self._compare_meta(node, path, low, before)
        kind = "modified" if not same or self._hidden(low) else "meta"
        texts = {} if same else self._texts(node, path, low)
        if path != low:
            self._emit(
                path, "renamed", node.status, node,
                source=low, modified=modified, conflict=conflict, **texts,
            )  # fmt: skip
        elif modified or kind == "modified":
            self._emit(path, kind, node.status, node, conflict=conflict, **texts)

    def _moved(self, node: Node, path: str, low: str | None, before: os.stat_result | None) -> None:
        source = node.source
        assert source is not None
        if low is not None and before is not None:
            self._delete(low, before)
        status = self._below(source)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self._walk.puts.append(Put(path, node, None))
            self._created(node, path, conflict=True)
            return
        self._walk.takes.append(Take(source, fs.identity(status), None, 0, True))
        self._walk.puts.append(Put(path, node, source))
        self._directory(node, path, source, merged=True)

    def _created(self, node: Node, path: str, *, conflict: bool = False) -> None:
        """Report a new object and all it holds; the caller adds the step that places it."""
        change = self._emit(
            path, "created", node.status, node, conflict=conflict, **self._texts(node, path, None)
        )
        self._drop_bits(node, path)
        if stat.S_ISREG(node.status.st_mode):
            origin = fs.trusted(node.real, "origin")
            if origin:
                self._origins.append((change, origin))
        for name, child in node.held.items():
            inner = join(path, name)
            if child.is_whiteout:
                continue
            if child.source is not None:
                self._moved(child, inner, None, None)
            elif _type(child.status) == "special":
                self._object(child, inner, None, None)
            else:
                self._created(child, inner)

    def _delete(self, low: str, status: os.stat_result, *, suspect: bool = False) -> None:
        inner: dict[str, list[int]] | None = None
        size = status.st_size
        self._emit(low, "deleted", status, conflict=suspect or self._touched(status))
        if stat.S_ISDIR(status.st_mode):
            inner, size = {}, 0
            for held, found in self._tree(low):
                inner[held[len(low) + 1 :]] = fs.identity(found)
                size += found.st_size
                self._emit(held, "deleted", found, conflict=self._touched(found))
        self._walk.takes.append(Take(low, fs.identity(status), inner, size, False))

    # Comparing

    def _same(self, node: Node, low: str, before: os.stat_result) -> bool:
        if stat.S_ISLNK(before.st_mode):
            return os.readlink(node.real) == fs.readlink(self._lower, low)
        if node.status.st_size != before.st_size:
            return False
        upper = os.open(node.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            lower = fs.open_beneath(self._lower, low, os.O_RDONLY | os.O_NONBLOCK)
            try:
                return fs.same_content(upper, lower)
            finally:
                os.close(lower)
        finally:
            os.close(upper)

    def _compare_meta(self, node: Node, path: str, low: str, before: os.stat_result) -> bool:
        """Note mode, owner, attributes and mtime where they differ; True if any but mtime does."""
        after = node.status
        owners = self._walk.owners
        new: list[Any] = [
            landed_mode(after),
            owners.get(after.st_uid, after.st_uid),
            owners.get(after.st_gid, after.st_gid),
            after.st_mtime_ns,
            None,
        ]
        link = stat.S_ISLNK(after.st_mode)
        old: list[Any] = [
            stat.S_IMODE(before.st_mode),
            before.st_uid,
            before.st_gid,
            before.st_mtime_ns,
            None,
        ]
        if not link:
            new[4], old[4] = _encoded(fs.attributes(node.real)), self._attributes_below(low)
        if stat.S_ISDIR(after.st_mode):
            new[3] = old[3] = None  # a directory's mtime follows what happens in it
        listed = stat.S_IMODE(after.st_mode) != old[0] or new[1:3] != old[1:3] or new[4] != old[4]
        if new != old and not any(s.path == path for s in self._walk.swaps[-1:]):
            self._walk.metas.append(Meta(path, fs.identity(before), old, new))
            self._drop_bits(node, path)
        return listed

    def _attributes_below(self, low: str) -> dict[str, str]:
        try:
            descriptor = fs.open_beneath(self._lower, low, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return {}
        try:
            return _encoded(fs.attributes(descriptor))
        finally:
            os.close(descriptor)

    def _drop_bits(self, node: Node, path: str) -> None:
        if stat.S_IMODE(node.status.st_mode) != landed_mode(node.status):
            self._walk.left_out.append(path)

    def _texts(self, node: Node, path: str, low: str | None) -> dict[str, str]:
        if path.rpartition("/")[2].lower() not in CONFIG_NAMES:
            return {}
        texts = {}
        if stat.S_ISREG(node.status.st_mode) and node.status.st_size <= MAX_TEXT:
            with open(node.real, "rb") as file:
                texts["after_text"] = file.read().decode("utf-8", "surrogateescape")
        if low is not None:
            descriptor = fs.open_beneath(self._lower, low, os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                content = file.read(MAX_TEXT + 1)
            if len(content) <= MAX_TEXT:
                texts["before_text"] = content.decode("utf-8", "surrogateescape")
        return texts

    def _pair_renames(self) -> None:
        """Join a file that went away and an equal one that appeared into one RENAMED."""
        gone: dict[tuple[int, int], list[Change]] = {}
        stats: dict[str, os.stat_result] = {}
        for change in self._walk:
            if change["kind"] == "deleted" and change["type"] in ("file", "symlink"):
                status = self._stat_again(change["path"])
                if status is not None:
                    stats[change["path"]] = status
                    gone.setdefault((status.st_size, status.st_mtime_ns), []).append(change)
        if not gone:
            return
        paired: list[Change] = []
        for change, node in self._created_files():
            key = (node.status.st_size, node.status.st_mtime_ns)
            for old in gone.get(key, ()):
                before = stats[old["path"]]
                if stat.S_IFMT(before.st_mode) != stat.S_IFMT(node.status.st_mode):
                    continue
                if old["path"] != change["path"] and self._same(node, old["path"], before):
                    gone[key].remove(old)
                    paired.append(old)
                    change.update(kind="renamed", source=old["path"])
                    if old.get("conflict"):
                        change["conflict"] = True
                    if old.get("hidden"):
                        change["hidden"] = True
                    if old["mode"] != change["mode"]:
                        change["modified"] = True
                    break
        dropped = {id(change) for change in paired}
        self._walk[:] = [c for c in self._walk if id(c) not in dropped]

    def _stat_again(self, path: str) -> os.stat_result | None:
        return fs.lstat(self._lower, path)

    def _created_files(self) -> Iterator[tuple[Change, Node]]:
        made = {c["path"]: c for c in self._walk if c["kind"] == "created"}
        stack = [(put.path, put.node) for put in self._walk.puts if put.source is None]
        while stack:
            path, node = stack.pop()
            if path in made and not node.is_directory:
                yield made[path], node
            stack += [
                (join(path, name), child)
                for name, child in node.held.items()
                if child.source is None
            ]


def _type(status: os.stat_result) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return kinds.get(stat.S_IFMT(status.st_mode), "special")


def _encoded(attributes: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in attributes.items()}


def _mentions(origin: bytes, inodes: set[int]) -> bool:
    """Whether an overlay file handle can belong to one of `inodes` (ext4, tmpfs, xfs, btrfs)."""
    if len(origin) < 29:
        return True
    handle = origin[21:]
    words = {int.from_bytes(handle[n : n + 4], "little") for n in range(0, len(handle) - 3, 4)}
    words |= {int.from_bytes(handle[n : n + 8], "little") for n in range(0, len(handle) - 7, 4)}
    return not words.isdisjoint(inodes)
