# SPDX-License-Identifier: Apache-2.0
"""P9: a log that was changed, reordered or cut is noticed, and the first broken line is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.audit import chain


def log(count: int) -> tuple[list[bytes], chain.Head]:
    """Return a log of so many lines, and its head."""
    head, lines = chain.EMPTY, []
    for number in range(count):
        text, head = chain.line({"event": "e", "value": number}, head)
        lines.append(text)
    return lines, head


def test_a_line_is_one_json_object_that_ends_with_the_hash_of_the_one_before() -> None:
    lines, head = log(2)
    assert lines[0] == b'{"n":1,"event":"e","value":0,"prev":"%s"}\n' % (b"0" * 64)
    assert head.count == 2
    assert lines[1].startswith(b'{"n":2,"event":"e","value":1,"prev":"')
    assert len(lines[1]) == len(lines[0])


def test_a_whole_log_is_right() -> None:
    for count in (0, 1, 5):
        lines, head = log(count)
        assert chain.verify(lines, head) is None
        assert chain.verify(lines, None) is None


def test_a_log_may_have_grown_beyond_the_kept_head() -> None:
    lines, _ = log(5)
    assert chain.verify(lines, log(3)[1]) is None


def changed(lines: list[bytes], what: str) -> list[bytes]:
    """Return the log with something wrong in it."""
    match what:
        case "a value is changed":
            lines[2] = lines[2].replace(b'"value":2', b'"value":7')
        case "a line is taken out":
            del lines[2]
        case "two lines are exchanged":
            lines[2], lines[3] = lines[3], lines[2]
        case "a line stands there twice":
            lines.insert(2, lines[1])
        case "a line is no record":
            lines[2] = b"[]\n"
        case "a line is no text":
            lines[2] = b"\xff\n"
        case "the last line is half":
            lines[-1] = lines[-1][:-5]
        case "the tail is cut":
            del lines[3:]
        case "all is gone":
            lines.clear()
        case "it is written anew":
            lines[:] = [one.replace(b"value", b"other") for one in lines]
    return lines


WRONG = {
    "a value is changed": "line 4 does not follow line 3",
    "a line is taken out": "line 3 does not follow line 2",
    "two lines are exchanged": "line 3 does not follow line 2",
    "a line stands there twice": "line 3 does not follow line 2",
    "a line is no record": "line 3 is not a record",
    "a line is no text": "line 3 is not a record",
    "the last line is half": "line 5 is not complete",
    "the tail is cut": "the log ends at line 3, but 5 lines were written",
    "all is gone": "the log ends at line 0, but 5 lines were written",
    "it is written anew": "line 2 does not follow line 1",
}


@pytest.mark.parametrize(("what", "message"), WRONG.items(), ids=WRONG)
def test_a_tampered_log_is_noticed(what: str, message: str) -> None:
    lines, head = log(5)
    assert chain.verify(changed(lines, what), head) == message


def test_a_last_line_that_was_rewritten_is_noticed_by_the_kept_head() -> None:
    lines, head = log(5)
    lines[-1] = chain.line({"event": "forged"}, log(4)[1])[0]
    assert chain.verify(lines, None) is None
    assert chain.verify(lines, head) == "line 5 was rewritten"


VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8)
RECORDS = st.dictionaries(st.sampled_from(["a", "b", "call"]), VALUES, max_size=3)


@settings(suppress_health_check=[HealthCheck.too_slow])  # where all processors are busy
@given(st.lists(RECORDS, max_size=5), st.data())
def test_any_records_chain_and_any_changed_byte_is_noticed(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    head, lines = chain.EMPTY, []
    for record in records:
        text, head = chain.line(record, head)
        assert text.count(b"\n") == 1
        lines.append(text)
    assert chain.verify(lines, head) is None
    if lines:
        number = data.draw(st.integers(0, len(lines) - 1))
        at = data.draw(st.integers(0, len(lines[number]) - 2))
        byte = data.draw(st.integers(0, 255).filter(lambda b: b != lines[number][at]))
        lines[number] = lines[number][:at] + bytes([byte]) + lines[number][at + 1 :]
        assert chain.verify(lines, head) is not None
