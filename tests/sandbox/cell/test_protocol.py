# SPDX-License-Identifier: Apache-2.0
"""Frames: whatever is sent comes out the same, however it was cut on the way."""

from __future__ import annotations

import os
import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cell import protocol
from sandbox.cell.protocol import DATA, JSON, Decoder, ProtocolError, pack, pack_data

MESSAGES = st.dictionaries(
    st.text(max_size=5),
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.lists(st.text(), max_size=3),
    max_size=4,
)
FRAMES = st.one_of(
    MESSAGES.map(lambda message: (JSON, message)),
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=50)).map(
        lambda data: (DATA, data)
    ),
)


def packed(frame: tuple[int, Any]) -> bytes:
    """Return a frame's bytes."""
    kind, content = frame
    return pack(content) if kind == JSON else pack_data(*content)


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 20), min_size=1, max_size=10))
def test_frames_survive_any_cutting(frames: list[tuple[int, Any]], cuts: list[int]) -> None:
    stream = b"".join(packed(frame) for frame in frames)
    decoder, found, at, turn = Decoder(), [], 0, 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        found += list(decoder.feed(stream[at : at + step]))
        at, turn = at + step, turn + 1
    assert found == frames


def test_a_frame_is_a_length_a_kind_and_a_body() -> None:
    assert pack({"op": "x"}) == b'\0\0\0\x0a\0{"op":"x"}'
    assert pack_data(7, 2, b"ab") == b"\0\0\0\x07\x01\0\0\0\x07\x02ab"


def test_names_that_are_no_utf8_survive() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert list(Decoder().feed(pack({"path": name}))) == [(JSON, {"path": name})]


def test_output_that_looks_like_a_frame_stays_output() -> None:
    forged = pack({"op": "exit", "call": 1, "status": 0})
    assert list(Decoder().feed(pack_data(1, 1, forged))) == [(DATA, (1, 1, forged))]


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_are_frames_or_an_error_and_nothing_else(data: bytes) -> None:
    try:
        for kind, _ in Decoder().feed(data):
            assert kind in (JSON, DATA)
    except (ProtocolError, ValueError, struct.error):
        pass


@pytest.mark.parametrize("header", [(protocol.MAX_BODY + 1, JSON), (3, 2), (0, 255)])
def test_a_frame_that_is_none_is_an_error(header: tuple[int, int]) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(struct.pack(">IB", *header)))


def test_a_frame_that_is_not_whole_is_waited_for() -> None:
    decoder = Decoder()
    assert list(decoder.feed(struct.pack(">IB", protocol.MAX_BODY, DATA))) == []


def test_all_bytes_are_written_to_a_slow_reader() -> None:
    read, write = os.pipe()
    heard = bytearray()

    def reader() -> None:
        while data := os.read(read, 1000):
            heard.extend(data)

    thread = threading.Thread(target=reader)
    thread.start()
    protocol.write_all(write, b"x" * 300_000)
    os.close(write)
    thread.join(20)
    os.close(read)
    assert len(heard) == 300_000
