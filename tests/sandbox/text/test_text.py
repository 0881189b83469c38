# SPDX-License-Identifier: Apache-2.0
"""Agent output on a terminal: what stays, what is shown as an escape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.text.terminal import SafeStream, safe, safe_block, safe_line

SHOWN = {
    "plain text stays": (b"hello\tworld\n", "hello\tworld\n"),
    "text beyond ASCII stays": ("é 漢 🎉".encode(), "é 漢 🎉"),
    "colours stay": (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    "256 colours stay": (b"\x1b[38;5;8mgrey\x1b[m", "\x1b[38;5;8mgrey\x1b[m"),
    "a colour left on is ended": (b"\x1b[31mred", "\x1b[31mred\x1b[0m"),
    "hidden text is not hidden": (b"\x1b[8msecret", "\\x1b[8msecret"),
    "hidden among others is not": (b"\x1b[1;8;31mx", "\\x1b[1;8;31mx"),
    "a window title is shown": (b"\x1b]0;pwned\x07", "\\x1b]0;pwned\\x07"),
    "a hyperlink is shown": (b"\x1b]8;;http://x\x1b\\", "\\x1b]8;;http://x\\x1b\\"),
    "a cursor movement is shown": (b"\x1b[2A\x1b[K", "\\x1b[2A\\x1b[K"),
    "a lone return is shown": (b"safe\revil", "safe\\x0devil"),
    "a line's return stays": (b"a\r\nb", "a\r\nb"),
    "a backspace is shown": (b"ab\x08c", "ab\\x08c"),
    "a NUL is shown": (b"a\x00b", "a\\x00b"),
    "C1 controls are shown": (b"\xc2\x9b31m", "\\x9b31m"),
    "a bidi override is shown": ("a\u202eb".encode(), "a\\u202eb"),
    "a tag character is shown": ("a\U000e0041".encode(), "a\\U000e0041"),
    "a line separator is shown": ("a\u2028b".encode(), "a\\u2028b"),
    "what is not UTF-8 is replaced": (b"a\xffb", "a\ufffdb"),
    "an escape at the end is shown": (b"a\x1b", "a\\x1b"),
    "a return at the end is shown": (b"a\r", "a\\x0d"),
}


@pytest.mark.parametrize("data, text", SHOWN.values(), ids=SHOWN)
def test_output(data: bytes, text: str) -> None:
    assert safe(data) == text


@pytest.mark.parametrize("data, text", SHOWN.values(), ids=SHOWN)
def test_output_byte_by_byte(data: bytes, text: str) -> None:
    stream = SafeStream()
    pieces = [stream.feed(data[at : at + 1]) for at in range(len(data))]
    assert "".join([*pieces, stream.close()]) == text


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_where_a_stream_is_cut_does_not_matter(pieces: list[bytes]) -> None:
    stream = SafeStream()
    shown = "".join([stream.feed(piece) for piece in pieces] + [stream.close()])
    assert shown == safe(b"".join(pieces))


@given(st.binary(max_size=200))
def test_no_control_character_but_colour_comes_through(data: bytes) -> None:
    left = safe(data).replace("\r\n", "\n")
    for piece in left.split("\x1b")[1:]:
        assert piece[0] == "["
        assert piece.lstrip("[0123456789;:")[0] == "m"
    assert not {c for c in left if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0} - set("\n\t\x1b")


LINES = {
    "a newline is visible": ("a\nb", "a\\nb"),
    "a colour is visible": ("\x1b[31mred", "\\x1b[31mred"),
    "a zero width space is visible": ("a\u200bb", "a\\u200bb"),
    "a name that is not UTF-8 is visible": ("a\udcffb", "a\\xffb"),
    "plain text stays": ("rm -f 'a b.txt'", "rm -f 'a b.txt'"),
}


@pytest.mark.parametrize("text, line", LINES.values(), ids=LINES)
def test_line(text: str, line: str) -> None:
    assert safe_line(text) == line


def test_block_keeps_lines_and_nothing_else() -> None:
    assert safe_block("a\n\x1b[2Jb\r") == "a\n\\x1b[2Jb\\r"
