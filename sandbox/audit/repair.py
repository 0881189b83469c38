# SPDX-License-Identifier: Apache-2.0
"""Mend an audit log with a person's word: close what a crash left, accept what was lost.

Nothing is taken away unsaid: what is cut off the end is kept beside the log, a log that is set
aside stays as it is, and each repair is a line of the log (`repaired`) with who made it. A log that
is broken in its middle cannot be mended, since what is wrong with it can only be hidden.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from sandbox.audit import chain
from sandbox.audit.events.log import LostRecord, RepairedRecord
from sandbox.audit.events.reading import read
from sandbox.audit.segments import BEGIN
from sandbox.audit.store import Store
from sandbox.errors import BadInput

_MOST_CUT = 4 * 1024 * 1024
"""Bytes at the end that may be cut off; a crash damages the last lines alone."""


def repair(store: Store, *, by: str, set_aside: bool = False) -> list[str]:
    """Mend the log; return what was done, one line each, empty where it is whole. Raises BadInput
    where its middle is broken, unless it may be `set_aside` and begun anew."""
    wrong = store.verify()
    if wrong is None:
        return []
    if set_aside:
        return [_set_aside(store, by, wrong)]
    done = [said for said in (_cut_tail(store),) if said]
    record = RepairedRecord(by=by, outcome="; ".join(done) or wrong)
    store.audit.mend(record)  # a line that says what is missing comes before it
    if lost := _lost(store):
        said = f"accepted: {'; '.join(str(lost_record.outcome) for lost_record in lost.values())}"
        store.audit.mend(RepairedRecord(by=by, accepts=list(lost), outcome=said))
        done.append(said)
    if still := store.verify():
        raise BadInput(
            f"{store.log}: {still}; that cannot be mended: keep a copy of it, find out who changed "
            "it, and begin a new log with `lockgate audit repair --set-aside`"
        )
    return done or [wrong]


def _lost(store: Store) -> dict[int, LostRecord]:
    """Return the lines that say that others were lost, and that nobody accepted yet."""
    open_: dict[int, LostRecord] = {}
    for _, raw in store.segments.from_place(BEGIN):
        if not any(name in raw for name in (b'"event":"lost"', b'"event":"repaired"')):
            continue
        try:
            record = read(raw)
        except ValueError:
            continue
        if isinstance(record, LostRecord) and record.n is not None:
            open_[record.n] = record
        elif isinstance(record, RepairedRecord):
            for number in record.accepts or ():
                open_.pop(number, None)
    return open_


def _cut_tail(store: Store) -> str:
    """Cut damaged lines off the end, and keep them beside the log; return what was cut."""
    if not store.log.is_file():
        return ""
    with store.log.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # nobody appends meanwhile
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - _MOST_CUT)
        file.seek(start)
        lines = file.read().splitlines(keepends=True)
        cut = 0
        for raw in reversed(lines):
            if raw.endswith(b"\n") and _is_line(raw[:-1]):
                break
            cut += len(raw)
        if cut == 0 or (start and cut == size - start):
            return ""
        file.seek(size - cut)
        rest = file.read()
        name = f"audit.cut-{time.strftime('%Y%m%dT%H%M%S')}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(store.log.with_name(name), flags, 0o600)
        with os.fdopen(descriptor, "wb") as kept:
            kept.write(rest)
        file.truncate(size - cut)
    return f"{cut} damaged bytes at the end were moved to {name}"


def _is_line(text: bytes) -> bool:
    try:
        chain.head_of(text)
        chain.before(text)
    except ValueError:
        return False
    return True


def _set_aside(store: Store, by: str, wrong: str) -> str:
    """Move the whole log into a folder of its own, and begin a new one that says so."""
    folder = store.log.with_name(f"audit-aside-{time.strftime('%Y%m%dT%H%M%S')}")
    folder.mkdir(mode=0o700)
    kept = store.audit.kept()
    moved: list[Path] = [*map(store.segments.path, store.segments.closed()), store.log, store.head]
    for path in moved:
        if path.exists():
            path.rename(folder / path.name)
    said = f"the log before this one was set aside in {folder.name}: {wrong}"
    head = kept.as_json() if kept else None
    store.audit.mend(RepairedRecord(by=by, outcome=said, head=head))
    return said
