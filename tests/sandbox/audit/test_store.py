# SPDX-License-Identifier: Apache-2.0
"""The record of calls on disk: durable, ordered among processes, readable from the end."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit import history
from sandbox.audit.events.reading import record_of
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.made_files import MadeFiles
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput, Unavailable
from tests.fakes import lines_of


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders of this test's own."""
    return Dirs.under(tmp_path).create()


def decided(call: str, **fields: Any) -> dict[str, Any]:
    """Return the first record of a call."""
    return {"event": "decided", "call": call, "tool": "Bash", "verdict": "allow", **fields}


def ended(call: str, **fields: Any) -> dict[str, Any]:
    """Return the last record of a call."""
    return {"event": "ended", "call": call, "ending": "ran", "landed": False, **fields}


def write(store: Store, *records: dict[str, Any]) -> None:
    """Append records."""
    for record in records:
        store.append(record_of(record), durable=False)


def test_a_durable_record_is_synced_before_append_returns(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    store = Store(dirs)
    monkeypatch.setattr("sandbox.audit.log.os.fdatasync", synced.append)
    store.append(record_of(ended("c1")), durable=False)
    assert synced == []
    store.append(record_of(decided("c2")), durable=True)
    assert synced == [store.audit._fd]
    assert json.loads(store.log.read_bytes().splitlines()[-1])["call"] == "c2"


def test_files_are_closed_to_others(dirs: Dirs) -> None:
    store = Store(dirs)
    write(store, decided("c1"))
    store.keep_output("c1", "stdout", b"x")
    assert store.log.stat().st_mode & 0o077 == 0
    assert store.head.stat().st_mode & 0o077 == 0
    assert (dirs.state / "calls" / "c1").stat().st_mode & 0o077 == 0


def test_records_come_back_newest_first(dirs: Dirs) -> None:
    store = Store(dirs)
    write(store, *(decided(f"c{n}", text="x" * 5000) for n in range(100)))
    assert [record["call"] for record in lines_of(store)] == [f"c{n}" for n in range(99, -1, -1)]
    assert store.verify() is None


def test_a_call_is_put_together_from_its_records(dirs: Dirs) -> None:
    store = Store(dirs)
    write(
        store,
        decided("c1", workspace="/w", also=["/v"], message="why"),
        {"event": "answered", "call": "c1", "approved": True, "approved_by": "me"},
        decided("c2"),
        ended("c1", landed=True, judgement="land", exit_status=0),
        {"event": "undone", "call": "u1", "undone": "c1", "landed": True},
    )
    one = store.call("c1")
    assert one.model_dump(include={"id", "workspace", "also", "approved_by", "undone_by"}) == {
        "id": "c1",
        "workspace": "/w",
        "also": ["/v"],
        "approved_by": "me",
        "undone_by": "u1",
    }
    assert (one.ending, one.judgement, one.landed) == ("ran", "land", True)
    assert store.call("c2").ending is None
    assert [call.id for call in store.calls()] == ["u1", "c2", "c1"]
    assert store.call("last").id == "c2"


def test_a_call_is_found_by_the_beginning_of_its_id(dirs: Dirs) -> None:
    store = Store(dirs)
    write(store, decided("cabc1"), decided("cabd2"))
    assert store.call("cabc").id == "cabc1"
    with pytest.raises(BadInput, match="`cab` begins 2 call ids; give more of it"):
        store.call("cab")
    with pytest.raises(BadInput, match="no call `x`; `lockgate log` lists them"):
        store.call("x")


def test_an_empty_store_has_no_calls(dirs: Dirs) -> None:
    store = Store(dirs)
    assert store.calls() == []
    assert store.verify() is None
    with pytest.raises(BadInput, match="no call `last`"):
        store.call("last")


def test_a_half_line_of_a_crash_is_taken_back(dirs: Dirs) -> None:
    write(Store(dirs), decided("c1"), ended("c1"))
    with Store(dirs).log.open("ab") as file:
        file.write(b'{"n":3,"event":"dec')
    store = Store(dirs)
    write(store, decided("c2"))
    found = list(lines_of(store))
    assert [record.get("call") for record in found] == ["c2", None, "c1", "c1"]
    assert found[1]["outcome"] == "19 bytes of a line that was never finished were taken back"
    assert store.verify() is None


def test_a_damaged_last_line_lets_nothing_be_appended(dirs: Dirs) -> None:
    write(Store(dirs), decided("c1"))
    with Store(dirs).log.open("ab") as file:
        file.write(b"damaged\n")
    with pytest.raises(Unavailable, match="its last line is damaged; see `lockgate audit verify`"):
        write(Store(dirs), decided("c2"))


def test_what_was_tampered_with_is_noticed(dirs: Dirs) -> None:
    store = Store(dirs)
    write(store, decided("c1"), decided("c2"), decided("c3"))
    whole = store.log.read_bytes()
    store.log.write_bytes(whole.replace(b'"call":"c2"', b'"call":"cX"'))
    assert store.verify() == "line 3 does not follow line 2"
    store.log.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert store.verify() == "the log ends at line 2, but 3 lines were written"
    store.log.unlink()
    assert store.verify() == "the log is gone, but its head was kept"
    store.log.write_bytes(whole)
    store.head.unlink()
    assert store.verify() == "the kept head of the log is gone"


def test_a_full_disk_is_one_clear_line_and_leaves_no_half_record(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(dirs)
    write(store, decided("c1"))
    real = os.write
    monkeypatch.setattr("sandbox.audit.log.os.write", lambda fd, data: real(fd, data[:10]))
    with pytest.raises(Unavailable, match="cannot be written: no space left on device"):
        write(store, decided("c2"))
    monkeypatch.undo()
    assert store.verify() is None
    write(store, decided("c3"))
    assert [record["call"] for record in lines_of(store)] == ["c3", "c1"]


def test_a_log_that_cannot_be_opened_is_one_clear_line(dirs: Dirs) -> None:
    (dirs.state / "audit.jsonl").mkdir()
    with pytest.raises(Unavailable, match=r"audit\.jsonl: cannot be written: Is a directory"):
        write(Store(dirs), decided("c1"))


def _append(state: str, name: str) -> None:
    store = Store(Dirs.under(Path(state)))
    for number in range(50):
        store.append(record_of(decided(f"{name}{number}")), durable=False)


def test_several_processes_append_to_one_chain(dirs: Dirs, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append, args=(str(tmp_path), name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    store = Store(dirs)
    assert store.verify() is None
    found = [str(record["call"]) for record in lines_of(store)]
    assert len(found) == 150
    assert [one for one in reversed(found) if one[0] == "a"] == [f"a{n}" for n in range(50)]


def test_output_and_diff_of_a_call_come_back_whole(dirs: Dirs) -> None:
    store = Store(dirs)
    store.keep_output("c1", "stdout", b"one\xff")
    store.keep_output("c1", "stdout", b"two")
    store.keep_output("c1", "diff.patch", "+é\n".encode())
    assert store.output("c1") == (b"one\xfftwo", b"")
    assert (store.diff("c1"), store.diff("c2")) == ("+é\n", "")


@pytest.mark.parametrize("length", [10, 200_000])
def test_a_line_that_is_being_written_hides_nothing(tmp_path: Path, length: int) -> None:
    store = Store(Dirs.under(tmp_path).create())
    store.append(record_of({"event": "decided", "call": "c1"}), durable=False)
    with store.log.open("ab") as log:
        log.write(b'{"n": 2, "event": "' + b"x" * length)
    assert [one["call"] for one in lines_of(store)] == ["c1"]


def test_a_call_is_dated_by_its_decision() -> None:
    def record(event: str, ts: str) -> AuditRecord:
        return record_of({"event": event, "call": "c1", "ts": ts})

    newest_first = [record("answered", "3"), record("decided", "2"), record("decided", "1")]
    assert [one.ts for one in history.calls(newest_first, limit=5)] == ["2"]
    assert history.call(newest_first, "c1", "c1").ts == "2"


def test_what_agents_made_is_read_once(dirs: Dirs) -> None:
    store = Store(dirs)
    made = MadeFiles(store.segments)

    def note(call: str) -> None:
        write(store, ended(call, made={"agent": "main", "files": {call: [1, 2, 3, 4]}}))

    def names() -> list[str]:
        return [name for one in made.read() for name in one["made"]["files"]]

    assert names() == []
    note("c1")
    note("c2")
    assert names() == ["c2", "c1"]
    assert names() == []
    write(store, decided("c3"))
    note("c4")
    assert names() == ["c4"]
    assert [name for one in store.made() for name in one["made"]["files"]] == ["c4", "c2", "c1"]
