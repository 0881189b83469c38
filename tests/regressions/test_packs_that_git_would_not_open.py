# SPDX-License-Identifier: Apache-2.0
"""Packs whose indexes lie, objects that go on for ever: held, in bounded time and memory."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.model import Outcome
from tests.gitchanges import copy, held_for, judged, sh

PREPARE = "git init -q -b main; echo one > a; git add a; git commit -qm one; echo x > x"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Return a repository, and it with one commit in a pack more."""
    before = tmp_path / "before"
    before.mkdir()
    sh(before, PREPARE)
    after = copy(before, tmp_path / "after")
    sh(after, "echo more >> a; git commit -qam two; git repack -dq; chmod -R u+w .git/objects")
    return before, after


def pack(folder: Path, suffix: str) -> Path:
    """Return the one file of a repository's packs with a suffix."""
    (found,) = (folder / ".git/objects/pack").glob(f"*{suffix}")
    return found


def signed(content: bytes) -> bytes:
    """Return content with its checksum behind it."""
    return content + hashlib.sha1(content).digest()


def put(path: Path, at: int, new: bytes) -> None:
    """Change some bytes of a file, and its checksum."""
    text = bytearray(path.read_bytes()[:-20])
    text[at : at + len(new)] = new
    path.write_bytes(signed(bytes(text)))


def write(folder: Path, objects: list[tuple[bytes, bytes]]) -> None:
    """Put a pack of raw objects, (name, bytes with their head), in place of the one there."""
    data, rows = struct.pack(">4sII", b"PACK", 2, len(objects)), []
    for name, raw in objects:
        rows.append((name, zlib.crc32(raw), len(data)))
        data += raw
    data = signed(data)
    rows.sort()
    fan = [sum(row[0][0] <= byte for row in rows) for byte in range(256)]
    index = b"\377tOc\0\0\0\2" + struct.pack(">256I", *fan)
    index += b"".join(row[0] for row in rows)
    index += b"".join(struct.pack(">I", row[1]) for row in rows)
    index += b"".join(struct.pack(">I", row[2]) for row in rows)
    pack(folder, ".pack").write_bytes(data)
    pack(folder, ".idx").write_bytes(signed(index + data[-20:]))


def head(kind: int, size: int) -> bytes:
    """Return the head of an object in a pack."""
    out, size = bytearray([kind << 4 | size & 15]), size >> 4
    while size:
        out[-1] |= 128
        out.append(size & 127)
        size >>= 7
    return bytes(out)


def number(value: int) -> bytes:
    """Return a size as deltas have it."""
    out = bytearray([value & 127])
    while value := value >> 7:
        out[-1] |= 128
        out.append(value & 127)
    return bytes(out)


def blob(content: bytes) -> bytes:
    """Return the name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()


def delta(base: bytes, size: int, steps: bytes) -> bytes:
    """Return a delta upon a named object of so many bytes."""
    text = number(len(base)) + number(size) + steps
    return head(7, len(text)) + blob(base) + zlib.compress(text)


def _bomb(folder: Path) -> None:
    size = 31 << 20
    raw = head(3, size) + zlib.compress(bytes(size), 9)
    write(folder, [(bytes([n]) * 20, raw) for n in range(1, 20)])


def _delta_bomb(folder: Path) -> None:
    """A megabyte of deltas, each a copy of 64 KiB over and over."""
    base = bytes(1 << 16)
    raw = [(blob(base), head(3, len(base)) + zlib.compress(base))]
    size = 480 << 16
    raw += [(bytes([n]) * 20, delta(base, size, b"\x80" * 480)) for n in range(1, 20)]
    write(folder, raw)


def _circle(folder: Path) -> None:
    """Two deltas, each upon the other."""
    one, two = blob(b"1"), blob(b"2")
    text = zlib.compress(number(1) + number(1) + b"\1x")
    write(folder, [(one, head(7, 4) + two + text), (two, head(7, 4) + one + text)])


def _no_steps(folder: Path) -> None:
    """Steps that add nothing."""
    base = b"base\n"
    steps = b"\x90\0" * 100_000
    write(folder, [(blob(base), head(3, 5) + zlib.compress(base)),
                   (blob(b"y"), delta(base, 1, steps))])  # fmt: skip


def _trailing(folder: Path) -> None:
    """An object of the right name, which goes on behind its size."""
    text = b"evil\n"
    write(folder, [(blob(text), head(3, 5) + zlib.compress(text + b"more"))])


def _loose_behind(folder: Path) -> None:
    text = b"blob 5\0evil\n"
    name = hashlib.sha1(text).hexdigest()
    path = folder / ".git/objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(text) + b"behind")


def _loose_bomb(folder: Path) -> None:
    path = folder / ".git/objects/ab" / ("0" * 38)
    path.parent.mkdir(exist_ok=True)
    unpacked = zlib.compressobj(9)
    path.write_bytes(b"".join(unpacked.compress(bytes(1 << 20)) for _ in range(70)))


FORGED: dict[str, Callable[[Path], object]] = {
    "another number of objects": lambda one: put(pack(one, ".pack"), 8, b"\0\0\0\7"),
    "no pack at all": lambda one: put(pack(one, ".pack"), 0, b"JUNK"),
    "another version": lambda one: put(pack(one, ".pack"), 4, b"\0\0\0\4"),
    "an index of another pack": lambda one: put(
        pack(one, ".idx"), len(pack(one, ".idx").read_bytes()) - 40, b"\0" * 20
    ),
    "names out of order": lambda one: put(pack(one, ".idx"), 8 + 1024, b"\xff" * 20),
    "a fan that lies": lambda one: put(pack(one, ".idx"), 8, b"\0\0\0\1"),
    "another checksum of an object": lambda one: put(
        pack(one, ".idx"), len(pack(one, ".idx").read_bytes()) - 64, b"\1\2\3\4"
    ),
    "an offset behind the end": lambda one: put(
        pack(one, ".idx"), len(pack(one, ".idx").read_bytes()) - 44, b"\x7f\xff\xff\xff"
    ),
    "a cut pack": lambda one: pack(one, ".pack").write_bytes(pack(one, ".pack").read_bytes()[:-1]),
    "a cut index": lambda one: pack(one, ".idx").write_bytes(pack(one, ".idx").read_bytes()[:99]),
    "no pack": lambda one: pack(one, ".pack").unlink(),
    "no index": lambda one: pack(one, ".idx").unlink(),
    "an endless object": _bomb,
    "endless deltas": _delta_bomb,
    "deltas in a circle": _circle,
    "steps that add nothing": _no_steps,
    "an object that goes on": _trailing,
    "a loose object that goes on": _loose_behind,
    "an endless loose object": _loose_bomb,
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_pack_that_git_would_not_open_is_held(
    sides: tuple[Path, Path], forge: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.cell.git.packs.MOST_SPENT", 64 << 20)
    before, after = sides
    forge(after)
    found = judged(before, after)
    assert found.outcome is Outcome.HOLD
    assert held_for(found, "commit-content") + held_for(found, "git-history")


@pytest.mark.parametrize("folder", [".git/modules/objects", "bare", "clone.git"])
def test_objects_of_repositories_of_any_name_are_what_their_names_say(
    sides: tuple[Path, Path], folder: str
) -> None:
    before, after = sides
    sh(before, f"git clone -q --bare . ../other; mkdir -p .git/modules; mv ../other {folder}")
    copy(before, after)
    name = sh(after / folder, "echo two | git hash-object -w --stdin; git repack -q").split()[0]
    assert held_for(judged(before, after), "git-history") == []
    path = after / folder / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    found = judged(before, after)
    said = held_for(found, "commit-content") + held_for(found, "git-history")
    assert "is not what its name says" in said[0]


def test_a_pack_as_git_makes_it_lands(sides: tuple[Path, Path]) -> None:
    assert judged(*sides).outcome is Outcome.LAND


def test_a_pack_of_ours_is_as_git_makes_them(sides: tuple[Path, Path]) -> None:
    """The control of those above: what is written by hand is right where nothing is forged."""
    before, after = sides
    copy(before, after)
    for suffix in ("pack", "idx"):
        (after / f".git/objects/pack/pack-{40 * '1'}.{suffix}").touch()
    base = b"base\n"
    write(after, [(blob(base), head(3, 5) + zlib.compress(base)),
                  (blob(b"basex"), delta(base, 5, b"\x90\4\1x"))])  # fmt: skip
    assert sh(after, "git cat-file -p $(printf basex | git hash-object --stdin)") == "basex"
    assert judged(before, after).message == ""
