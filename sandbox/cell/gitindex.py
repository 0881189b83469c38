# SPDX-License-Identifier: Apache-2.0
"""Git's index: what it lists, what it means, and the stat data that it remembers of each file.

A call works on an overlay, so that the index which lands remembers inodes, times and owners that
the real files do not have; git on the host would have to read them all again. `settle` sets right
what the index remembers, after a landing and after an undo. `meaning` tells a refresh of stat data,
which is no change, from a change. `note_dropped` finds hidden files that leave the index.

INVARIANT: an entry is only said to be up to date where the file's content has the object id that
the entry names, or where nothing but owner and device differ from what git itself recorded. Bytes
other than stat data and the checksum are never changed. Whatever is odd in an index (a split one,
an unknown version or extension, a wrong checksum) makes it be left alone.

Format: git's Documentation/gitformat-index.txt; raciness: Documentation/technical/racy-git.txt.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import fs
from .applying import matches
from .journal import META, PUT, SWAP, TAKE, Amendment, Identity, Op

MOST_BYTES = 256 << 20
"""A larger index is left alone."""
MOST_HASHED = 128 << 20
"""Bytes of files that are read to see that they are what the index names; the rest git reads."""

_STAT = struct.Struct(">10I")
_WORD = struct.Struct(">I")
_HALF = struct.Struct(">H")
_KINDS = (0o100644, 0o100755, 0o120000, 0o160000, 0o040000)
_HASHES: dict[int, Callable[..., Any]] = {20: hashlib.sha1, 32: hashlib.sha256}
_CACHES = (b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT")
"""Extensions that hold nothing that cannot be found out again."""
_NAME, _STAGE, _EXTENDED, _VALID = 0x0FFF, 0x3000, 0x4000, 0x8000
_CTIME, _CTIME_NS, _MTIME, _MTIME_NS, _DEV, _INO, _MODE, _UID, _GID, _SIZE = range(10)


class Entry(NamedTuple):
    """One entry. `at` is where its stat data starts in the file."""

    at: int
    stat: tuple[int, ...]
    oid: bytes
    flags: int
    more: int
    """The second half of the flags; 0 where there is none."""
    path: bytes

    @property
    def mode(self) -> int:
        """What git records of the file's type and mode."""
        return self.stat[_MODE]

    @property
    def stage(self) -> int:
        """0, or which side of a conflict this is."""
        return (self.flags & _STAGE) >> 12


class Index(NamedTuple):
    """An index as it was read."""

    content: bytes
    version: int
    width: int
    """Bytes of an object id: 20 or 32."""
    entries: list[Entry]
    extensions: list[tuple[bytes, bytes]]


class _Odd(Exception):
    """This is no index that we understand."""


def parse(content: bytes) -> Index | None:
    """Read an index; None where anything about it is odd."""
    found = []
    for width in _HASHES:
        with contextlib.suppress(_Odd, struct.error, IndexError):
            found.append(_parsed(content, width))
    return found[0] if len(found) == 1 else None


def serialise(index: Index, stats: Mapping[int, Sequence[int]]) -> bytes:
    """Return the file's bytes with other stat data in the entries that start at the given places.

    A checksum of zeros (index.skipHash) stays one.
    """
    content = bytearray(index.content)
    for at, values in stats.items():
        _STAT.pack_into(content, at, *values)
    end = len(content) - index.width
    if any(content[end:]):
        content[end:] = _HASHES[index.width](content[:end]).digest()
    return bytes(content)


def meaning(index: Index) -> str:
    """Return a digest of all that an index says but stat data and caches."""
    digest = hashlib.sha256(b"%d" % index.width)
    for entry in index.entries:
        flags = entry.flags & (_VALID | _STAGE)
        head = (len(entry.path), entry.path, entry.mode, entry.oid, flags, entry.more)
        digest.update(repr(head).encode())
    for name, held in index.extensions:
        if name not in _CACHES:
            digest.update(repr((name, held)).encode())
    return digest.hexdigest()


def _parsed(content: bytes, width: int) -> Index:
    end = len(content) - width
    if end < 12 or content[:4] != b"DIRC":
        raise _Odd
    version, count = struct.unpack_from(">2I", content, 4)
    if version not in (2, 3, 4):
        raise _Odd
    if any(content[end:]) and _HASHES[width](content[:end]).digest() != content[end:]:
        raise _Odd
    entries: list[Entry] = []
    at, path = 12, b""
    for _ in range(count):
        entry, after = _entry(content, at, width, version, path)
        if entries and (entry.path, entry.stage) <= (path, entries[-1].stage):
            raise _Odd
        if entry.mode not in _KINDS or after > end:
            raise _Odd
        entries.append(entry)
        at, path = after, entry.path
    extensions = []
    while at < end:
        name, (size,) = content[at : at + 4], _WORD.unpack_from(content, at + 4)
        at += 8 + size
        if at > end or not (b"A" <= name[:1] <= b"Z" or name == b"sdir"):
            raise _Odd  # others may not be ignored; `link` is a split index
        extensions.append((name, content[at - size : at]))
    return Index(content, version, width, entries, extensions)


def _entry(
    content: bytes, start: int, width: int, version: int, before: bytes
) -> tuple[Entry, int]:
    values = _STAT.unpack_from(content, start)
    at = start + _STAT.size
    oid = content[at : at + width]
    at += width
    (flags,) = _HALF.unpack_from(content, at)
    at += 2
    more = 0
    if flags & _EXTENDED:
        (more,) = _HALF.unpack_from(content, at)
        at += 2
        if version < 3 or more & 0x9FFF:
            raise _Odd
    kept = b""
    if version == 4:
        strip, at = _number(content, at)
        if strip > len(before):
            raise _Odd
        kept = before[: len(before) - strip]
    stop = content.find(b"\0", at)
    if stop < 0:
        raise _Odd
    path = kept + content[at:stop]
    if not path or min(len(path), _NAME) != flags & _NAME:
        raise _Odd
    after = stop + 1
    if version < 4:
        after = start + ((stop - start + 8) & ~7)
        if any(content[stop:after]):
            raise _Odd
    return Entry(start, values, oid, flags, more, path), after


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Read a number as git's `decode_varint` does; return it and where it ends."""
    byte = content[at]
    at += 1
    value = byte & 127
    while byte & 128:
        byte = content[at]
        at += 1
        value = ((value + 1) << 7) + (byte & 127)
    return value, at


# Where indexes lie


def is_index(path: str) -> bool:
    """Whether a path of a workspace is the index of a repository, or of one of its work trees."""
    full = "/" + path
    return full.endswith("/.git/index") or (
        full.endswith("/index") and full.split("/")[-4:-2] == [".git", "worktrees"]
    )


def work_tree(path: str) -> str | None:
    """Return the folder that an index is of, as a prefix; None where that is not known."""
    return path[: -len(".git/index")] if ("/" + path).endswith("/.git/index") else None


def read(root: int, path: str) -> Index | None:
    """Read an index; None where there is none that we understand."""
    return parse(_content(root, path))


def _content(root: int, path: str) -> bytes:
    """Return an index's bytes; none where it cannot be read."""
    try:
        descriptor = fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    return _bytes(descriptor)


def _bytes(descriptor: int) -> bytes:
    """Return what an open file holds, and close it."""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return b""
        return file.read()


# Hidden files that leave the index


def note_dropped(
    changes: Iterable[dict[str, Any]], root: str, upper: str, hidden: Collection[str]
) -> None:
    """Mark each change of an index that loses entries of files which the cell could not see.

    Where the new index cannot be understood, all hidden files that the old one lists count as lost.
    """
    for change in changes:
        if not is_index(change["path"]) and not is_index(change.get("source", "")):
            continue
        old = change.get("source", change["path"])
        prefix = work_tree(old)
        if prefix is None or change["kind"] == "created":
            continue
        if change["kind"] == "renamed" and is_index(change["path"]) and not change.get("modified"):
            continue
        dropped = _dropped(change, prefix, old, root, upper, hidden)
        if dropped:
            change["drops_hidden"] = [os.fsdecode(os.fsencode(prefix) + one) for one in dropped]


def _dropped(
    change: Mapping[str, Any], prefix: str, old: str, root: str, upper: str, hidden: Collection[str]
) -> list[bytes]:
    covered = {os.fsencode(path) for path in hidden}
    top = fs.open_directory(root)
    try:
        content = _content(top, old)
    finally:
        os.close(top)
    if not _may_list(content, os.fsencode(prefix), covered):
        return []
    before = parse(content)
    if before is None:
        return []
    listed = {entry.path for entry in before.entries}
    lost = {path for path in listed if _covered(os.fsencode(prefix) + path, covered)}
    if lost and change["kind"] != "deleted" and is_index(change["path"]):
        layer = fs.open_directory(upper)
        try:
            after = read(layer, change["path"])
        finally:
            os.close(layer)
        lost -= {entry.path for entry in after.entries} if after else set()
    return sorted(lost)


def _may_list(content: bytes, prefix: bytes, covered: Collection[bytes]) -> bool:
    """Whether an index can list a covered path, said at once: most list none."""
    if content[7:8] == b"\4":
        return True  # its names are not written out
    names = [path[len(prefix) :] for path in covered if path.startswith(prefix)]
    return _covered(prefix, covered) or any(name in content for name in names)


def _covered(path: bytes, folders: Collection[bytes]) -> bool:
    """Whether a path is one of `folders`, or lies in one."""
    parts = path.split(b"/")
    return any(b"/".join(parts[: n + 1]) in folders for n in range(len(parts)))


# Indexes that a run of operations leaves in the workspace


class Place(NamedTuple):
    """An index that a run touched: by which operation, and its name in a whole directory's list."""

    position: int
    path: str
    name: str | None

    def expected(self, ops: Sequence[Op], now: Sequence[Identity | None]) -> Identity | None:
        """Return what the run is recorded to have left there."""
        if self.name is None:
            return now[self.position]
        return (ops[self.position].inner or {}).get(self.name)

    def amendment(self, op: Op, identity: Identity, *, back: bool) -> Amendment:
        """Return what to record when the object of an operation became another."""
        if self.name is not None:
            return [self.position, "inner", self.name, identity]
        old = op.action == META or (op.action == SWAP and back)
        return [self.position, "old" if old else "identity", None, identity]


class Found(NamedTuple):
    """An index that lies as a run left it."""

    place: Place
    status: os.stat_result
    held: Index


def places(ops: Sequence[Op], *, back: bool) -> Iterator[Place]:
    """Give the indexes that lie in the workspace after a run in the given direction."""
    arriving = (SWAP, META, TAKE if back else PUT)
    for position, op in enumerate(ops):
        if op.action not in arriving or op.other is not None:
            continue
        if is_index(op.path):
            yield Place(position, op.path, None)
        for name in op.inner or ():
            if is_index(f"{op.path}/{name}"):
                yield Place(position, f"{op.path}/{name}", name)


def look(root: int, path: str) -> tuple[os.stat_result, Index] | None:
    """Read an index and its status; None where it cannot be understood."""
    try:
        descriptor = fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    index = parse(_bytes(descriptor))
    return None if index is None else (status, index)


def found(
    root: int, ops: Sequence[Op], now: Sequence[Identity | None], *, back: bool
) -> list[Found]:
    """Read the indexes that a run left, where they lie as it left them."""
    out = []
    for place in places(ops, back=back):
        expected = place.expected(ops, now)
        seen = look(root, place.path)
        if seen and expected is not None and matches(fs.identity(seen[0]), expected):
            out.append(Found(place, *seen))
    return out


def meanings(indexes: Iterable[Found]) -> dict[str, str]:
    """Return the meaning of each index, by its path."""
    return {one.place.path: meaning(one.held) for one in indexes}


# Stat data


def settle(
    root: int,
    folder: int,
    ops: Sequence[Op],
    indexes: Iterable[Found],
    *,
    back: bool,
    durable: bool,
) -> list[Amendment]:
    """Make indexes remember the real files; return which objects became others.

    `folder` is the landing's own, in the workspace's file system. An index that somebody else has
    changed, or holds the lock of, is left as it is, as is one that cannot be written.
    """
    amended = []
    landed = _landed(ops, back=back)
    for one in indexes:
        op = ops[one.place.position]
        prefix = work_tree(one.place.path)
        if op.action == META or prefix is None:
            continue
        with contextlib.suppress(OSError):
            before = read(folder, op.slot) if op.action == SWAP else None
            stats, sure = _stats(root, os.fsencode(prefix), one, landed, before)
            if stats:
                content = serialise(one.held, stats)
                identity = _replace(root, folder, one, content, sure=sure, durable=durable)
                if identity is not None:
                    amended.append(one.place.amendment(op, identity, back=back))
    return amended


def _landed(ops: Sequence[Op], *, back: bool) -> set[bytes]:
    """Return the paths of files that a run placed or set."""
    arriving = (SWAP, META, TAKE if back else PUT)
    out = set()
    for op in ops:
        if op.action in arriving and op.other is None:
            out.add(os.fsencode(op.path))
            out |= {os.fsencode(f"{op.path}/{name}") for name in op.inner or ()}
    return out


def _stats(
    root: int, prefix: bytes, one: Found, landed: Collection[bytes], before: Index | None
) -> tuple[dict[int, tuple[int, ...]], bool]:
    """Return new stat data by entry, and whether no entry must stay racily clean.

    Git reads a file again if its mtime is not older than the index. Where such a file may have been
    changed since it was added, the index must keep its own mtime.
    """
    stats: dict[int, tuple[int, ...]] = {}
    sure, left = True, MOST_HASHED
    known = {entry.path: (entry.stat, entry.oid) for entry in before.entries} if before else {}
    written = one.status.st_mtime_ns // 10**9
    with contextlib.closing(_Folder(root)) as folder:
        for entry in one.held.entries:
            if entry.stage or entry.more or entry.flags & _VALID or entry.mode >> 12 not in (8, 10):
                continue  # git does not look at the file, or not at its stat data
            racy = entry.stat[_MTIME] >= written
            ours = prefix + entry.path in landed
            if not (ours or racy) and known.get(entry.path) == (entry.stat, entry.oid):
                continue  # as it was before the call
            status = folder.lstat(os.fsdecode(prefix + entry.path))
            if status is None or not _resembles(entry, status):
                continue  # git sees that it changed
            if ours or racy:
                left -= status.st_size
                if left < 0 or not folder.holds(entry, status, one.held.width):
                    sure = sure and not racy
                    continue
            elif not _unchanged(entry, status):
                continue
            values = _values(entry, status)
            if values != entry.stat:
                stats[entry.at] = values
    return stats, sure


def _values(entry: Entry, status: os.stat_result) -> tuple[int, ...]:
    """Return stat data as git stores it: each truncated to 32 bits; mode and size stay."""
    values = list(entry.stat)
    values[_CTIME], values[_CTIME_NS] = divmod(status.st_ctime_ns, 10**9)
    values[_MTIME], values[_MTIME_NS] = divmod(status.st_mtime_ns, 10**9)
    values[_DEV], values[_INO] = status.st_dev, status.st_ino
    values[_UID], values[_GID] = status.st_uid, status.st_gid
    return tuple(value & 0xFFFFFFFF for value in values)


def _resembles(entry: Entry, status: os.stat_result) -> bool:
    """Whether type, size and mtime are those that the entry records."""
    size = status.st_size & 0xFFFFFFFF
    if status.st_size and not size and entry.stat[_SIZE]:
        size = 0x80000000  # newer git's word for a multiple of 4 GiB
    return (
        stat.S_IFMT(status.st_mode) == stat.S_IFMT(entry.mode)
        and entry.stat[_SIZE] == size
        and entry.stat[_MTIME : _MTIME_NS + 1] == _values(entry, status)[_MTIME : _MTIME_NS + 1]
    )


def _unchanged(entry: Entry, status: os.stat_result) -> bool:
    """Whether a file that resembles its entry is, by inode and ctime, the one that git saw."""
    values = _values(entry, status)
    return all(values[n] == entry.stat[n] for n in (_CTIME, _CTIME_NS, _INO))


class _Folder:
    """Looks at files; keeps the last one's directory open, since entries come in order."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path = ""
        self._open: int | None = None
        self._name = ""

    def close(self) -> None:
        """Close the directory."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def lstat(self, path: str) -> os.stat_result | None:
        """Return a file's status; None where it cannot be reached without following a link."""
        directory, _, self._name = path.rpartition("/")
        if self._name in ("", ".", ".."):
            return None
        try:
            if self._open is None or directory != self._path:
                self.close()
                self._open = fs.open_beneath(self._root, directory)
                self._path = directory
            return os.stat(self._name, dir_fd=self._open, follow_symlinks=False)
        except OSError:
            return None

    def holds(self, entry: Entry, status: os.stat_result, width: int) -> bool:
        """Whether the file that was looked at last has the content that its entry names."""
        digest = _HASHES[width](b"blob %d\0" % status.st_size)
        try:
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(self._name, dir_fd=self._open)))
                return bool(digest.digest() == entry.oid)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(self._name, flags, dir_fd=self._open), "rb") as file:
                while chunk := file.read(fs.CHUNK):
                    digest.update(chunk)
                same = fs.identity(os.fstat(file.fileno())) == fs.identity(status)
        except OSError:
            return False
        return same and bool(digest.digest() == entry.oid)


_FRESH = "index.fresh"
"""Name of the new index in the landing's folder."""


def _replace(
    root: int, folder: int, one: Found, content: bytes, *, sure: bool, durable: bool
) -> Identity | None:
    """Put new content in the place of an index that still is the one we read."""
    directory, name = fs.parent(root, one.place.path)
    try:
        if one.status.st_nlink != 1 or _locked(directory, name):
            return None
        _write(folder, directory, name, one.status, content, sure=sure, durable=durable)
        if _locked(directory, name) or not _same(directory, name, one.status):
            return None
        try:
            fs.rename(folder, _FRESH, directory, name, fs.EXCHANGE)
        except OSError:
            os.rename(_FRESH, name, src_dir_fd=folder, dst_dir_fd=directory)
        else:
            if not _same(folder, _FRESH, one.status, moved=True):
                fs.rename(folder, _FRESH, directory, name, fs.EXCHANGE)
                return None
        return fs.identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FRESH, dir_fd=folder)
        if directory != root:
            os.close(directory)


def _locked(directory: int, name: str) -> bool:
    """Whether somebody is about to write an index."""
    try:
        os.stat(name + ".lock", dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _same(directory: int, name: str, status: os.stat_result, *, moved: bool = False) -> bool:
    one = fs.identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    other = fs.identity(status)
    return one[:3] == other[:3] and (moved or one == other)


def _write(
    folder: int,
    directory: int,
    name: str,
    status: os.stat_result,
    content: bytes,
    *,
    sure: bool,
    durable: bool,
) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(_FRESH, flags, 0o600, dir_fd=folder)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(target, view) :]
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            fs.set_attributes(target, fs.attributes(source))
        finally:
            os.close(source)
        os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        if not sure:
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        if durable:
            os.fdatasync(target)
    finally:
        os.close(target)
