# SPDX-License-Identifier: Apache-2.0
"""What a landing is going to do, and how far it is known to have come: the file on disk.

One line per record, each with its checksum, so that a torn line counts as not written:

- the plan: the call and its operations, complete before the first real change;
- a run: an undo, or the undo of one, that is about to start;
- both say what the files that they place will hold (see landing.contents);
- an end: the run is complete, with the identity of each object as it stands in the workspace now,
  and with what each git index that the run touched means (see `git.index`). A second one replaces
  it.

A run or an end may say that objects became others, the same in meaning: `amended`.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

NAME = "journal"
VERSION = 1

TAKE, PUT, SWAP, META = "take", "put", "swap", "meta"

Identity = list[int]
Inner = dict[str, Identity]
Content = list[Any]
"""SHA-256 of what a file holds (of a link: of its target), mode, uid, gid, and what tells its
attributes from others."""
Amendment = list[Any]
"""Position of an operation; which identity of it: `identity`, `old` or `inner`; for `inner`, the
name; the new identity."""


class Op(NamedTuple):
    """One operation. `slot` is a name in the landing's folder, `path` one in the workspace.

    take: path -> slot (deleted, replaced or moved away); put: slot -> path; swap: exchange both;
    meta: set `after` where `before` was. Backwards each does the opposite.
    """

    action: str
    path: str
    slot: str = ""
    identity: Identity | None = None
    """Of the object that a take or put moves; for a swap, of the new one."""
    old: Identity | None = None
    """For take, swap and meta: of what stood at `path` before."""
    inner: Inner | None = None
    """For a whole directory, what it holds; None where contents do not matter."""
    other: str | None = None
    """For a moved directory: its other path."""
    before: list[Any] | None = None
    after: list[Any] | None = None
    carried: Inner | None = None
    """For the take of a moved directory, what it took along."""


class Run(NamedTuple):
    """One pass over the operations."""

    call: str
    back: bool
    time: float
    now: list[Identity | None] | None
    """Identities at each operation's path after the run; None while it is not complete."""
    kept: int = 0
    """Bytes that lie in the folder since then."""
    indexes: dict[str, str] | None = None
    """What the git indexes that the run touched mean, by path; older journals do not say."""
    contents: dict[str, Content] | None = None
    """What the files that the run placed held, by path; older journals do not say."""


class Journal(NamedTuple):
    """A journal as it was read."""

    call: str
    ops: list[Op]
    runs: list[Run]
    sign: str = ""
    """Stands for the agent whose landing it is (see `marks`); empty where nobody said."""
    copies: dict[str, Identity] | None = None
    """Of an agent's own edit (see `landing.adopt`), by path: which object what is kept is a copy
    of. None for a landing, which keeps the object itself."""

    @property
    def last(self) -> Run:
        """The run that stands: only the last can be incomplete."""
        return self.runs[-1]


def _line(record: object) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def append(folder: int, record: object, *, durable: bool) -> None:
    """Add one record to a folder's journal. Raises OSError, then the line does not count."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(NAME, flags, 0o600, dir_fd=folder)
    try:
        size = os.fstat(descriptor).st_size
        try:
            view = memoryview(_line(record))
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        if durable:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def plan(
    call: str,
    ops: list[Op],
    time: float,
    sign: str = "",
    copies: dict[str, Identity] | None = None,
    contents: dict[str, Content] | None = None,
) -> object:
    """Return the record that starts a journal; `sign` stands for the agent whose landing it is."""
    rows = [_trimmed(op) for op in ops]
    record: dict[str, Any] = {"v": VERSION, "call": call, "time": time, "sign": sign, "ops": rows}
    if contents:
        record["contents"] = contents
    return record if copies is None else {**record, "copies": copies}


def run(
    call: str,
    *,
    back: bool,
    time: float,
    amended: Sequence[Amendment] = (),
    contents: dict[str, Content] | None = None,
) -> object:
    """Return the record of a further run."""
    record: dict[str, Any] = {"call": call, "back": back, "time": time}
    if contents:
        record["contents"] = contents
    return {**record, "amended": amended} if amended else record


def end(
    now: list[Identity | None],
    kept: int,
    indexes: dict[str, str] | None = None,
    amended: Sequence[Amendment] = (),
) -> object:
    """Return the record that says that the last run is complete."""
    record: dict[str, Any] = {"now": now, "kept": kept}
    if indexes:
        record["indexes"] = indexes
    return {**record, "amended": amended} if amended else record


def amend(ops: list[Op], amended: Sequence[Amendment]) -> list[Op]:
    """Return operations with the identities of objects that became others."""
    ops = list(ops)
    for position, which, name, identity in amended:
        op = ops[position]
        if which == "inner":
            ops[position] = op._replace(inner={**(op.inner or {}), name: identity})
        elif which == "old":
            ops[position] = op._replace(old=identity)
        else:
            ops[position] = op._replace(identity=identity)
    return ops


def void(now: list[Identity | None], runs: int = 1) -> object:
    """Return the record that says that the last run was given up and reversed.

    With two runs, the last was the reversal of the one before it.
    """
    return {"now": now, "void": runs}


def _trimmed(op: Op) -> list[Any]:
    row = list(op)
    while row and row[-1] is None:
        row.pop()
    return row


def read(folder: int) -> Journal | None:
    """Return a folder's journal; None where no complete plan was written."""
    try:
        descriptor = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        records = list(_records(file.read()))
    if not records or records[0].get("v") != VERSION:
        return None
    head = records[0]
    runs = [Run(head["call"], False, head["time"], None, contents=head.get("contents"))]
    ops = [Op(*row) for row in head["ops"]]
    for record in records[1:]:
        ops = amend(ops, record.get("amended", ()))
        if "void" in record:
            del runs[-int(record["void"]) :]
            runs[-1] = runs[-1]._replace(now=record["now"])
        elif "now" in record:
            runs[-1] = runs[-1]._replace(
                now=record["now"], kept=record["kept"], indexes=record.get("indexes")
            )
        else:
            begun = Run(record["call"], record["back"], record["time"], None)
            runs.append(begun._replace(contents=record.get("contents")))
    return Journal(head["call"], ops, runs, head.get("sign", ""), head.get("copies"))


def _records(content: bytes) -> list[dict[str, Any]]:
    found = []
    for line in content.split(b"\n"):
        checksum, _, text = line.partition(b" ")
        if not text or checksum != b"%08x" % zlib.crc32(text):
            break
        found.append(json.loads(text))
    return found
