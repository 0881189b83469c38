# SPDX-License-Identifier: Apache-2.0
"""P9 on files: rotation keeps the chain, and whatever is changed, cut or removed is noticed."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.log import AuditLog, LogBounds
from sandbox.audit.segments import BEGIN, LogPlace, Segments
from sandbox.errors import Unavailable


class Lab:
    """A log in a folder of the test's own, with files of two or three lines."""

    def __init__(self, root: Path, *, file_bytes: int = 300, keep: int = 0) -> None:
        self.root = root
        self.bounds = LogBounds(file_bytes, keep)
        self.segments = Segments(root / "audit.jsonl")

    def open(self) -> AuditLog:
        """Return the log as a new process sees it."""
        return AuditLog(self.root / "audit.jsonl", self.root / "audit.head", self.bounds)

    def write(self, *names: str) -> None:
        """Append records as a new process."""
        log = self.open()
        for name in names:
            log.append(record_of({"event": "e", "name": name}), durable=False)

    def verify(self) -> str | None:
        """Return what is wrong."""
        return self.segments.verify(self.open().kept())

    def names(self) -> list[str]:
        """Return what was appended, the newest first."""
        records = map(json.loads, self.segments.backwards())
        return [one["name"] for one in records if one["event"] == "e"]

    def events(self) -> list[str]:
        """Return the log's own records, the oldest first."""
        found = [json.loads(raw)["event"] for _, raw in self.segments.from_place(BEGIN)]
        return [one for one in found if one != "e"]

    def files(self) -> dict[Path, bytes]:
        """Return the log's files with their content."""
        return {path: path.read_bytes() for path in sorted(self.root.glob("audit*.jsonl"))}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a log in small files."""
    return Lab(tmp_path)


NAMES = [f"n{number}" for number in range(12)]


def test_a_log_goes_on_in_further_files_and_the_chain_with_it(lab: Lab) -> None:
    lab.write(*NAMES)
    assert [path.name for path in lab.files()] == [
        *(f"audit-{number:06d}.jsonl" for number in lab.segments.closed()),
        "audit.jsonl",
    ]
    assert len(lab.segments.closed()) >= 3
    assert lab.names() == NAMES[::-1]
    assert lab.verify() is None
    first = [json.loads(line) for line in lab.segments.path(1).read_bytes().splitlines()]
    second = [json.loads(line) for line in lab.segments.path(2).read_bytes().splitlines()]
    assert (first[-1]["event"], first[-1]["next"]) == ("rotated", "audit-000002.jsonl")
    assert (second[0]["event"], second[0]["segment"]) == ("segment", 2)
    assert second[0]["n"] == first[-1]["n"] + 1


def test_a_log_of_one_file_has_no_lines_of_its_own(tmp_path: Path) -> None:
    lab = Lab(tmp_path, file_bytes=1 << 20)
    lab.write(*NAMES)
    assert (lab.events(), lab.segments.closed()) == ([], [])


def test_reading_goes_on_across_files_where_it_ended(lab: Lab) -> None:
    seen, place = [], BEGIN
    for name in NAMES:
        lab.write(name)
        for at, raw in lab.segments.from_place(place):
            place = LogPlace(at.segment, at.offset + len(raw))
            seen.append(json.loads(raw)["n"])
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > len(NAMES)


def test_every_changed_byte_of_a_log_in_several_files_is_noticed(lab: Lab) -> None:
    lab.write(*NAMES[:5])
    files = lab.files()
    assert len(files) >= 2
    assert lab.verify() is None
    for path, whole in files.items():
        for at in range(len(whole)):
            for value in (whole[at] ^ 0x01, whole[at] ^ 0x80):
                path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
                assert lab.verify() is not None, (path.name, at)
        path.write_bytes(whole)
    assert lab.verify() is None


def test_every_removed_line_and_every_two_that_are_exchanged_are_noticed(lab: Lab) -> None:
    lab.write(*NAMES[:5])
    lines = [(path, number) for path, whole in lab.files().items()
             for number in range(whole.count(b"\n"))]  # fmt: skip
    files = {path: whole.splitlines(keepends=True) for path, whole in lab.files().items()}

    def put(changed: dict[Path, list[bytes]]) -> None:
        for path, texts in changed.items():
            path.write_bytes(b"".join(texts))

    for path, number in lines:
        put({path: files[path][:number] + files[path][number + 1 :]})
        assert lab.verify() is not None, (path.name, number)
        put(files)
    for one in range(len(lines)):
        for other in range(one):
            (path_a, a), (path_b, b) = lines[one], lines[other]
            swapped = {path: list(texts) for path, texts in files.items()}
            swapped[path_a][a], swapped[path_b][b] = files[path_b][b], files[path_a][a]
            put(swapped)
            assert lab.verify() is not None, (one, other)
    put(files)
    assert lab.verify() is None


def test_a_tail_that_is_cut_anywhere_is_noticed_before_and_after_the_next_record(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path, file_bytes=1 << 20)
    lab.write(*NAMES[:5])
    whole, head = lab.segments.live.read_bytes(), lab.open().head.read_bytes()
    for cut in range(len(whole)):
        lab.segments.live.write_bytes(whole[:cut])
        assert lab.verify() is not None, cut
        lab.write("next")
        said = lab.verify()
        assert said is not None, cut
        assert "says: the log ended at line" in said
        lab.open().head.write_bytes(head)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_file_that_is_removed_is_noticed(lab: Lab, which: str) -> None:
    lab.write(*NAMES)
    closed = lab.segments.closed()
    number = {"first": closed[0], "middle": closed[1], "last": closed[-1]}[which]
    lab.segments.path(number).unlink()
    said = lab.verify()
    assert said is not None
    assert ("are gone" in said) == (which == "first")
    assert "does not follow" in said or which == "first"


def test_old_files_are_removed_with_a_record_that_is_accepted_exactly(tmp_path: Path) -> None:
    lab = Lab(tmp_path, keep=2)
    lab.write(*NAMES)
    closed = lab.segments.closed()
    assert len(closed) == 2
    assert closed[0] > 1
    assert lab.verify() is None
    assert "removed" in lab.events()
    lab.segments.path(closed[0]).unlink()  # one more than the record says
    assert "no line says that they were removed" in (lab.verify() or "")


def test_a_last_line_that_was_rewritten_is_noticed_after_the_next_record(tmp_path: Path) -> None:
    lab = Lab(tmp_path, file_bytes=1 << 20)
    lab.write("a", "b", "c")
    lab.segments.live.write_bytes(lab.segments.live.read_bytes().replace(b'"c"', b'"x"'))
    assert lab.verify() == "line 3 was rewritten"
    lab.write("d")
    assert lab.verify() == "line 4 says: line 3 was rewritten"


def test_a_log_that_is_gone_is_noticed_after_the_next_record(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("a", "b")
    lab.segments.live.unlink()
    lab.write("c")
    assert lab.verify() == "line 1 says: the log ended at line 0, but 2 lines were written"


def test_a_head_that_is_gone_is_noticed_after_the_next_record(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("a", "b")
    lab.open().head.unlink()
    lab.write("c")
    assert lab.verify() == "line 3 says: the kept head of the log is gone"


def test_a_head_that_a_crash_left_behind_is_no_loss(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("a")
    behind = lab.open().head.read_bytes()
    lab.write("b")
    lab.open().head.write_bytes(behind)
    lab.write("c")
    assert (lab.verify(), lab.events()) == (None, [])


CRASHES = ("after the last line of a file", "after its renaming")


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_while_a_file_is_closed_breaks_nothing(
    lab: Lab, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    lab.write("a", "b", "c")
    if crash == CRASHES[0]:
        monkeypatch.setattr(AuditLog, "_move", dies)
    else:
        monkeypatch.setattr("sandbox.audit.log.os.fsync", dies)
    with pytest.raises(KeyboardInterrupt):
        lab.write("d", "e", "f")
    monkeypatch.undo()
    assert lab.verify() is None
    before = lab.names()[::-1]
    lab.write("g", "h")
    assert (lab.names()[::-1], lab.verify()) == ([*before, "g", "h"], None)
    assert "lost" not in lab.events()


def test_nobody_elses_record_may_pass_for_one_of_the_logs_own(lab: Lab) -> None:
    for name in ("repaired", "removed", "lost", "segment", "rotated"):
        with pytest.raises(Unavailable, match="is a record of the log's own"):
            lab.open().append(record_of({"event": name}), durable=False)
    lab.write("a")
    assert lab.names() == ["a"]


def _append(root: str, name: str) -> None:
    Lab(Path(root)).write(*(f"{name}{number}" for number in range(40)))


def test_several_processes_rotate_one_chain(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append, args=(str(tmp_path), name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    lab = Lab(tmp_path)
    found = lab.names()[::-1]
    assert sorted(found) == sorted(f"{name}{number}" for name in "abc" for number in range(40))
    assert [one for one in found if one[0] == "a"] == [f"a{number}" for number in range(40)]
    assert len(lab.segments.closed()) > 10
    assert lab.verify() is None
