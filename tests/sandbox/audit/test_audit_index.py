# SPDX-License-Identifier: Apache-2.0
"""The index answers as reading the whole log does, and fits the log whatever happens to either."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from policy.people.reports import AuditLine
from sandbox.audit import store as stores
from sandbox.audit.call_entry import entry_of
from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.reading import record_of
from sandbox.audit.log import LogBounds
from sandbox.audit.query import MOST_SEARCHED, Query, instant, stamp_of, verdicts
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput
from sandbox.mcp.governance.tools import Governance
from sandbox.reporting.audit_export import COLUMNS, autonomy_line, csv_row

BEGAN = datetime(2026, 2, 10, 22, 0, tzinfo=UTC)
VERDICTS = ("allow", "report", "ask", "deny")


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders of this test's own."""
    return Dirs.under(tmp_path).create()


def fill(dirs: Dirs, count: int, *, seed: int = 1, file_bytes: int = 4000) -> Store:
    """Write so many calls of all kinds, in several files."""
    store = Store(dirs, bounds=LogBounds(file_bytes))
    chance = random.Random(seed)
    for number in range(count):
        name = f"c{seed}{number:04d}"
        at = (BEGAN + timedelta(minutes=number)).isoformat()
        verdict = chance.choice(VERDICTS)
        store.append(
            record_of(
                {
                    "event": "decided",
                    "ts": at,
                    "call": name,
                    "agent": chance.choice(["main", "coder"]),
                    "tool": chance.choice(["Bash", "Read"]),
                    "params": {"command": f"echo {number}"},
                    "verdict": verdict,
                    "rules": chance.sample(["safe", "git-push", "delete"], chance.randint(0, 2)),
                    "message": "why",
                    "workspace": chance.choice(["/w", "/w2"]),
                    "session": chance.choice([None, "s1", "s2", "t1"]),
                    "intent": chance.choice([None, "Übung"]),
                }
            ),
            durable=False,
        )
        landed, held = chance.random() < 0.4, chance.random() < 0.2
        judgement = "hold" if held else "land"
        end = {"event": "ended", "call": name, "ending": "ran", "exit_status": 0}
        store.append(record_of({**end, "judgement": judgement, "landed": landed}), durable=False)
        if landed and chance.random() < 0.5:
            undo = {"event": "undone", "call": f"u{seed}{number:04d}", "undone": name}
            store.append(
                record_of({**undo, "tool": "undo", "agent": "main", "landed": True}), durable=False
            )
        if held and chance.random() < 0.5:
            part = {"event": "landed", "call": f"{name}-1", "of": name, "landed": True}
            store.append(record_of({**part, "agent": "main", "tool": "land"}), durable=False)
    return store


QUERIES = {
    "everything": Query(),
    "one verdict": Query(verdicts=frozenset(("deny",))),
    "a gate of two verdicts": Query(verdicts=verdicts("ALLOW")),
    "a tool and an agent": Query(tool="Bash", agent="coder"),
    "a rule": Query(rule="git-push"),
    "a rule and a time": Query(rule="delete", since=(BEGAN + timedelta(minutes=30)).timestamp()),
    "until": Query(until=(BEGAN + timedelta(minutes=50)).timestamp()),
    "within an hour": Query(
        since=(BEGAN + timedelta(minutes=10)).timestamp(),
        until=(BEGAN + timedelta(minutes=60)).timestamp(),
    ),
    "whole days": Query(
        since=(BEGAN + timedelta(hours=2)).timestamp(),
        until=(BEGAN + timedelta(hours=26)).timestamp(),
    ),
    "across midnight": Query(
        since=(BEGAN + timedelta(minutes=100)).timestamp(),
        until=(BEGAN + timedelta(minutes=130)).timestamp(),
    ),
    "a session": Query(session="s2"),
    "a text in a command": Query(text="ECHO 1"),
    "a text in an intent, of an agent": Query(text="übUNG", agent="coder"),
    "a text in an id, of one day": Query(
        text="c10", since=(BEGAN + timedelta(hours=2)).timestamp()
    ),
    "the page after a record": Query(before=100),
    "what nobody did": Query(agent="nobody"),
}


def scanned(store: Store, query: Query) -> list[DecidedRecord]:
    """Return the decisions that match, read from the whole log, the newest first."""
    records = (one for one in store.records() if query.matches(one))
    return [one for one in records if isinstance(one, DecidedRecord)]


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_finds_what_reading_everything_finds(dirs: Dirs, query: Query) -> None:
    store = fill(dirs, 150)
    audit = Audit(dirs)
    expected = scanned(store, query)
    assert bool(expected) == (query.agent != "nobody")
    assert list(audit.decisions(query)) == expected
    calls = audit.calls(query)
    assert calls == [store.call(record.call) for record in expected]
    assert audit.calls(Query(**{**_fields(query), "limit": 3})) == calls[:3]
    assert list(audit.each(query, oldest_first=True)) == calls[::-1]


def _fields(query: Query) -> dict[str, Any]:
    return {name: getattr(query, name) for name in Query.__slots__}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_counts_are_those_of_the_decisions(dirs: Dirs, query: Query) -> None:
    expected = scanned(fill(dirs, 150), query)
    stats = Audit(dirs).stats(query)
    assert stats.decisions == len(expected)
    assert stats.verdicts == Counter(one.verdict for one in expected)
    assert stats.days == _grouped((str(one.ts)[:10], one.verdict) for one in expected)
    assert stats.tools == _grouped((one.tool, one.verdict) for one in expected)
    assert stats.agents == _grouped((one.agent, one.verdict) for one in expected)
    ruled = ((rule, one.verdict) for one in expected for rule in one.rules or ())
    assert stats.rules == _grouped(ruled)
    if expected:
        assert stats.denial_rate == stats.verdicts.get("deny", 0) / len(expected)


def _grouped(pairs: Any) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, verdict in pairs:
        group = found.setdefault(name, {})
        group[verdict] = group.get(verdict, 0) + 1
    return found


def test_a_long_log_is_shown_as_a_short_one(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(dirs, 80)
    names = [one.id for one in store.calls(limit=1000)]
    short = [store.call(name) for name in names], store.held(), store.search(Query(agent="main"))
    landed = [store.landed(count) for count in (1, 3, 1000)]
    places = {where: list(store.newest(where)) for where in (None, "/w", "/w2", "/nowhere")}
    sessions = {asked: store.session(asked) for asked in ("last", "s1", "t")}
    newest = {where: store.session("last", where) for where in ("/w", "/w2")}
    own = [one for one in store.landed_of("s1") if one.session == "s1"]
    monkeypatch.setattr(stores, "INDEXED", 0)
    assert store._index() is not None
    assert {where: list(store.newest(where)) for where in places} == places
    assert places[None]
    assert {asked: store.session(asked) for asked in sessions} == sessions
    assert {where: store.session("last", where) for where in newest} == newest
    assert [one for one in store.landed_of("s1") if one.session == "s1"] == own
    assert len(own) > 3
    for asked in ("s", "x", ""):
        with pytest.raises(BadInput, match="session"):
            store.session(asked)
    assert [store.call(name) for name in names] == short[0]
    assert store.held() == short[1]
    assert store.search(Query(agent="main")) == short[2]
    assert [store.landed(count) for count in (1, 3, 1000)] == landed
    assert len(landed[2]) > 20
    assert store.search(Query(tool="Read"), held=True) == [
        one for one in short[1] if one.tool == "Read"
    ]
    with pytest.raises(BadInput, match="`c1` begins 80 call ids"):
        store.call("c1")
    with pytest.raises(BadInput, match="no call `nope`"):
        store.call("nope")


def test_what_is_new_is_taken_and_nothing_twice(dirs: Dirs) -> None:
    audit = Audit(dirs)
    for part in range(4):
        fill(dirs, 15, seed=part)
        assert audit.stats(Query()).decisions == 15 * (part + 1)
        assert len(audit.calls(Query())) == 15 * (part + 1)


def _replaced(dirs: Dirs) -> None:
    for path in dirs.state.glob("audit*.jsonl"):
        path.unlink()
    (dirs.state / "audit.head").unlink()
    fill(dirs, 7, seed=9)


def _shortened(dirs: Dirs) -> None:
    log = dirs.state / "audit.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))


SPOILED = {
    "the index is gone": lambda dirs: (dirs.state / "audit-index.sqlite").unlink(),
    "the index is damaged": lambda dirs: (dirs.state / "audit-index.sqlite").write_bytes(
        b"x" * 9000
    ),
    "the index is half": lambda dirs: (dirs.state / "audit-index.sqlite").write_bytes(
        (dirs.state / "audit-index.sqlite").read_bytes()[:8192]
    ),
    "another log stands there": _replaced,
    "the log is shorter": _shortened,
    "the first file is gone": lambda dirs: (dirs.state / "audit-000001.jsonl").unlink(),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_an_index_that_does_not_fit_is_made_anew(dirs: Dirs, spoil: Any) -> None:
    store = fill(dirs, 40)
    audit = Audit(dirs)
    assert audit.stats(Query()).decisions == 40
    spoil(dirs)
    expected = scanned(store, Query())
    assert list(audit.decisions(Query())) == expected
    assert audit.calls(Query())[0].id == expected[0].call


def test_sessions_are_summed_up_as_decisions_say(dirs: Dirs) -> None:
    store = fill(dirs, 60)
    by_name: dict[str, list[DecidedRecord]] = {}
    for one in scanned(store, Query()):
        if one.session:
            by_name.setdefault(one.session, []).append(one)
    audit = Audit(dirs)
    again = {"event": "decided", "call": by_name["s1"][0].call, "session": "s1", "verdict": "deny"}
    store.append(record_of({**again, "agent": "main"}), durable=False)  # one call, decided twice
    found = audit.sessions(None, 10)
    assert found[0].session == "s1"
    assert {one.session for one in found} == set(by_name)
    for summary in found:
        own = by_name[summary.session]
        denied = sum(each.verdict == "deny" for each in own) + (summary.session == "s1")
        assert (summary.calls, summary.refused) == (len(own), denied)
        assert summary.agents == tuple(sorted({str(each.agent) for each in own}))
        assert summary.workspaces == tuple(sorted({str(each.workspace) for each in own}))
        assert stamp_of(summary.began)[:19] == str(own[-1].ts)[:19]
    assert audit.sessions(found[0].last, 1) == found[1:2]


def test_pages_go_on_where_the_one_before_ended(dirs: Dirs) -> None:
    store = fill(dirs, 50)
    audit = Audit(dirs)
    for query in (Query(), Query(session="s1"), Query(text="echo 4"), Query(held=True)):
        wanted = [one.id for one in audit.page(query)[0]]
        paged: list[str] = []
        before: int | None = None
        while True:
            entries, before = audit.page(Query(**{**_fields(query), "before": before, "limit": 4}))
            assert len(entries) == 4 or before is None
            paged += [one.id for one in entries]
            if before is None:
                break
        assert paged == wanted
        assert wanted, query
    assert sorted(wanted) == sorted(one.id for one in store.held())
    records, following = audit.record_page("ended", None, None, 7)
    assert [one.event for one in records] == ["ended"] * 7
    rest, _ = audit.record_page("ended", None, following, 1000)
    assert len(records) + len(rest) == 50


def test_the_index_holds_of_texts_what_searches_look_in(dirs: Dirs) -> None:
    store = Store(dirs)
    marker, far = "a-command-that-stands-in-the-log", "x" * MOST_SEARCHED + "far-away"
    record = {"event": "decided", "call": "c1", "agent": "main", "tool": "Bash", "verdict": "allow"}
    params = {"command": marker, "content": far}
    store.append(record_of({**record, "params": params, "message": "why-so"}), durable=False)
    assert Audit(dirs).calls(Query(text=marker))[0].params == params
    data = (dirs.state / "audit-index.sqlite").read_bytes()
    assert marker.encode() in data
    assert b"far-away" not in data
    assert b"why-so" not in data
    assert (dirs.state / "audit-index.sqlite").stat().st_mode & 0o077 == 0


def test_texts_of_files_that_are_gone_are_forgotten(dirs: Dirs) -> None:
    fill(dirs, 60)
    audit, index = Audit(dirs), dirs.state / "audit-index.sqlite"
    assert len(audit.calls(Query(text="echo 3"))) == 11
    assert b"c10003\necho 3" in index.read_bytes()
    (dirs.state / "audit-000001.jsonl").unlink()
    assert 0 < len(audit.calls(Query(text="echo 3"))) < 11
    assert b"c10003\necho 3" not in index.read_bytes()


INSTANTS = {
    "2h": 1_000_000 - 7200,
    "3d": 1_000_000 - 3 * 86_400,
    "1w": 1_000_000 - 604_800,
    "1970-01-02T00:00:00Z": 86_400,
    "1970-01-02T01:00:00+01:00": 86_400,
}


@pytest.mark.parametrize(("text", "seconds"), INSTANTS.items(), ids=INSTANTS)
def test_an_instant_is_so_long_ago_or_iso_8601(text: str, seconds: int) -> None:
    assert instant(text, 1_000_000.0) == seconds


@pytest.mark.parametrize("text", ["yesterday", "2y", "", "2026-13-01T00:00:00Z", "-3d"])
def test_what_is_no_instant_is_one_clear_line(text: str) -> None:
    with pytest.raises(BadInput, match=f"^`{text}` is no instant; write 2h or 3d"):
        instant(text, 0.0)


def test_words_for_decisions() -> None:
    assert verdicts("ALLOW") == frozenset(("allow", "report"))
    assert verdicts("NEED_APPROVAL") == frozenset(("ask",))
    assert verdicts("deny") == frozenset(("deny",))
    with pytest.raises(BadInput, match="`MAYBE` is no decision; use one of ALLOW, DENY, NEED_"):
        verdicts("MAYBE")


def test_gate_audit_answers_from_the_index(dirs: Dirs) -> None:
    store = fill(dirs, 60)
    expected = scanned(store, Query(verdicts=frozenset(("deny",)), tool="Bash"))[:5]
    found = Governance(dirs).decisions.gate_audit(decision="DENY", tool="Bash", limit=5)
    assert [one["call"] for one in found] == [one.call for one in expected]
    assert {one["decision"] for one in found} == {"DENY"}


# -- other shapes

DECIDED = {"event": "decided", "ts": "2026-02-11T10:00:00Z", "call": "c1", "agent": "main",
           "tool": "Bash", "params": {"command": "git push origin main"},
           "intent": "Pushed design docs", "message": "it leaves the machine"}  # fmt: skip
ANSWERED = {"event": "answered", "ts": "2026-02-11T10:01:00Z", "call": "c1"}
LINES: dict[str, tuple[list[dict[str, Any]], dict[str, Any] | None]] = {
    "GREEN is not logged": ([{**DECIDED, "verdict": "allow"}], None),
    "YELLOW": (
        [{**DECIDED, "verdict": "report"}],
        {"level": "yellow", "approved": True},
    ),
    "RED, approved": (
        [{**DECIDED, "verdict": "ask"}, {**ANSWERED, "approved": True, "approved_by": "me"}],
        {
            "level": "red",
            "approved": True,
            "approved_by": "me",
            "approved_at": "2026-02-11T10:01:00Z",
        },
    ),
    "RED, declined": (
        [{**DECIDED, "verdict": "ask"}, {**ANSWERED, "approved": False}],
        {"level": "red", "approved": False, "reason": "user_declined"},
    ),
    "RED, declined with a reason": (
        [{**DECIDED, "verdict": "ask"}, {**ANSWERED, "approved": False, "answer_reason": "later"}],
        {"level": "red", "approved": False, "reason": "later"},
    ),
    "denied": (
        [{**DECIDED, "verdict": "deny"}],
        {"level": "red", "approved": False, "reason": "it leaves the machine"},
    ),
    "decided anew after a yes": (
        [
            {**DECIDED, "verdict": "ask"},
            {**ANSWERED, "approved": True, "approved_by": "me"},
            {**DECIDED, "ts": "2026-02-11T10:02:00Z", "verdict": "allow"},
        ],
        {
            "level": "red",
            "approved": True,
            "approved_by": "me",
            "approved_at": "2026-02-11T10:01:00Z",
        },
    ),
}


@pytest.mark.parametrize(("records", "expected"), LINES.values(), ids=LINES)
def test_lines_of_the_log_of_autonomy_levels(
    records: list[dict[str, Any]], expected: dict[str, Any] | None
) -> None:
    line = autonomy_line([record_of(one) for one in records[::-1]])
    if expected is None:
        assert line is None
        return
    common = {
        "ts": "2026-02-11T10:00:00Z",
        "agent": "main",
        "action": "git_push",
        "details": "Pushed design docs",
    }
    assert line == AuditLine.model_validate({**common, **expected})


def test_a_row_of_csv_has_no_formula() -> None:
    fields = {"agent": "=cmd()", "params": {"command": "-x"}, "rules": ["a", "b"]}
    row = csv_row(entry_of({"id": "c1", "last": "c1", **fields}))
    found = dict(zip(COLUMNS, row, strict=True))
    assert (found["agent"], found["action"], found["rules"]) == ("'=cmd()", "'-x", "a b")
    assert found["exit_status"] == ""
