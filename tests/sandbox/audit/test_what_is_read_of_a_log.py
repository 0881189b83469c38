# SPDX-License-Identifier: Apache-2.0
"""What has landed last is found by reading what belongs to it, however long the log is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.audit import history
from sandbox.audit import store as stores
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.reading import record_of
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.query import ALL, Query
from sandbox.audit.record_reader import Reader
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs

LONG = 400


@pytest.fixture
def dirs(tmp_path: Any) -> Dirs:
    """Return folders of this test's own."""
    return Dirs.under(tmp_path).create()


def write(call: str, *, landed: bool = True, workspace: str = "/w") -> list[dict[str, Any]]:
    """Return the records of a call, the oldest first."""
    who = {"agent": "main", "tool": "Bash", "workspace": workspace}
    decided = {"event": "decided", "call": call, **who}
    return [decided, {"event": "ended", "call": call, "judgement": "land", "landed": landed}]


def undo(name: str, of: str) -> dict[str, Any]:
    """Return the record of an undo."""
    return {"event": "undone", "call": name, "undone": of, "landed": True}


def names(entries: list[CallEntry]) -> list[str]:
    """Return the ids of calls."""
    return [one.id for one in entries]


class Counted:
    """Records, newest first, and how many of them were read."""

    def __init__(self, log: list[dict[str, Any]]) -> None:
        self._log = log
        self.read = 0

    def __iter__(self) -> Iterator[AuditRecord]:
        for one in reversed(self._log):
            self.read += 1
            yield record_of(one)


HELD_LONG = [
    *write("old"),
    write("held")[0],
    *(one for n in range(LONG) for one in write(f"r{n}", landed=False)),
    write("held")[1],
    *write("new"),
]
TWICE = [*write("a"), *write("b"), undo("u", "b"), *write("c"), undo("v", "u")]
LOGS: dict[str, tuple[list[dict[str, Any]], int, list[str], int]] = {
    "the last of many": ([x for n in range(LONG) for x in write(f"c{n}")], 1, [f"c{LONG - 1}"], 2),
    "some of many": (
        [x for n in range(LONG) for x in write(f"c{n}")],
        3,
        [f"c{LONG - n}" for n in (1, 2, 3)],
        6,
    ),
    "one that was decided long before it landed": (HELD_LONG, 2, ["new", "held"], 2 * LONG + 4),
    "what an undone undo gave back": (TWICE, 2, ["c", "b"], 6),
    "what was undone": ([*TWICE, undo("w", "v")], 2, ["c", "a"], 9),
}


@pytest.mark.parametrize("log, count, expected, read", LOGS.values(), ids=LOGS)
def test_reading_ends_when_all_is_found(
    log: list[dict[str, Any]], count: int, expected: list[str], read: int
) -> None:
    records = Counted(log)
    entries = history.landed(records, count)
    assert names(entries) == expected
    assert all(one.agent == "main" for one in entries)
    assert records.read == read


def test_of_a_workspace_only_its_own_count() -> None:
    log = [x for n in range(9) for x in write(f"c{n}", workspace="/w" if n % 3 else "/other")]
    records = Counted(log)
    assert names(history.landed(records, 2, "/other")) == ["c6", "c3"]
    assert records.read == 12  # from c8 to c3
    assert names(history.landed(Counted(log), 9, "/nowhere")) == []


def test_a_long_log_is_asked_by_its_index(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(dirs)
    log = [*write("mine", workspace="/other"), *write("also")]
    log += [x for n in range(LONG) for x in write(f"r{n}", landed=False)]
    log += [x for n in range(LONG) for x in (*write(f"u{n}"), undo(f"v{n}", f"u{n}"))]
    for one in log:
        store.append(record_of(one), durable=False)
    short = store.landed(1), store.landed(1, "/other"), store.landed(9), store.landed(9, "/no")
    assert [names(one) for one in short] == [["also"], ["mine"], ["also", "mine"], []]
    monkeypatch.setattr(stores, "INDEXED", 0)
    read: list[int] = []
    really = Reader.record

    def counted(self: Reader, place: Any, length: int) -> AuditRecord | None:
        read.append(length)
        return really(self, place, length)

    monkeypatch.setattr(Reader, "record", counted)
    monkeypatch.setattr(Store, "records", lambda _: pytest.fail("the whole log was read"))
    assert store.last_landed() == short[0][0]
    assert len(read) == 2
    assert (store.landed(1, "/other"), store.landed(9), store.landed(9, "/no")) == short[1:]
    assert len(read) == 2 + 2 + 4


def test_of_a_session_no_other_calls_are_read(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(dirs)
    for n in range(LONG):
        decided, ended = write(f"c{n:03}")
        for one in ({**decided, "session": f"s{n // 4}"}, ended, undo(f"u{n:03}", f"c{n:03}")):
            store.append(record_of(one), durable=False)
    asked = [Query(session="s1", limit=3), Query(session="s2"), Query(session="none", limit=3)]
    short = [store.search(one) for one in asked]
    assert list(map(names, short)) == [
        ["c007", "c006", "c005"], ["c011", "c010", "c009", "c008"], []
    ]  # fmt: skip
    monkeypatch.setattr(stores, "INDEXED", 0)
    read: list[str] = []
    really = Reader.record

    def counted(self: Reader, place: Any, length: int) -> AuditRecord | None:
        record = really(self, place, length)
        read.append(record.call or "" if record else "")
        return record

    monkeypatch.setattr(Reader, "record", counted)
    assert [store.search(one) for one in asked] == short
    assert {one[1:] for one in read} == {f"{n:03}" for n in range(5, 12)}


def test_of_calls_that_were_held_only_those_that_wait_are_read(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(dirs)
    over: list[dict[str, Any]] = [
        {"event": "discarded", "judgement": "discard"},
        {"event": "landed", "judgement": "land", "landed": True},
    ]
    odd: dict[str, Any] = {"event": "landed", "judgement": "hold", "landed": True}
    for n in range(LONG):
        decided, ended = write(f"h{n:03}", landed=False)
        settled = {**(odd if n == 8 else over[n % 2]), "call": f"h{n:03}"}
        wanted = [] if n in (7, 9) else [settled]
        for one in (decided, {**ended, "judgement": "hold"}, *wanted):
            store.append(record_of(one), durable=False)
    short = store.held()
    assert names(short) == ["h009", "h007"]
    monkeypatch.setattr(stores, "INDEXED", 0)
    read: list[str] = []
    really = Reader.record

    def counted(self: Reader, place: Any, length: int) -> AuditRecord | None:
        record = really(self, place, length)
        read.append(record.call or "" if record else "")
        return record

    monkeypatch.setattr(Reader, "record", counted)
    assert store.held() == short
    assert sorted(set(read)) == ["h007", "h008", "h009"]


def test_what_the_index_says_is_read_in_the_log(dirs: Dirs) -> None:
    store = Store(dirs)
    for one in (*write("a"), *write("b", landed=False)):
        store.append(record_of(one), durable=False)
    from sandbox.audit.reader import Audit

    audit = Audit(dirs)
    audit.refresh()
    with audit._index._db.writing() as db:
        db.execute("UPDATE records SET landed = 1")
    assert names(audit.landed(9)) == names(store.landed(ALL)) == ["a"]
