# SPDX-License-Identifier: Apache-2.0
"""Make text that an agent wrote safe for a terminal.

Lines, tabs and colours stay; whatever could move the cursor, retitle the window, hide text, or
reorder it is shown as an escape such as `\\x1b`. Nothing is dropped.
"""

from __future__ import annotations

import codecs
import json
import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_BREAKS = "\u2028\u2029"
_TAGS = "\U000e0000-\U000e007f"
_UNSEEN = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0080-\U000e0fff"
)
"""Characters that show as nothing, or only change the one before them."""
_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,32})m")
_UNSAFE = re.compile(
    rf"{_COLOUR.pattern}|\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}{_BREAKS}{_TAGS}\ud800-\udfff]"
)
_UNSAFE_IN_LINE = re.compile(
    rf"[\x00-\x1f\x7f-\x9f{_UNSEEN}{_BIDI}{_BREAKS}{_TAGS}"
    r"\ud800-\udfff]"
)
_PARTIAL = re.compile(r"(?:\r|\x1b(?:\[[0-9;:]{0,32})?)\Z")
_RESET = "\x1b[0m"
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_CONCEAL = 8


def safe(data: bytes) -> str:
    """Return output as text that a terminal can be trusted with."""
    stream = SafeStream()
    return stream.feed(data) + stream.close()


def safe_line(text: str | bytes) -> str:
    """Return text as one line without colours, for the field of a card or a table."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return _UNSAFE_IN_LINE.sub(lambda m: _NAMED.get(m[0]) or _shown(m[0]), text)


def cut(text: str, most: int) -> str:
    """Return a line of at most `most` characters; `…` says that there was more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def safe_block(text: str) -> str:
    """Return text of several lines without colours, for what a person is asked about."""
    return "\n".join(safe_line(line) for line in text.split("\n"))


def is_unicode(value: object) -> bool:
    """Whether all text in a JSON value can be encoded; JSON can name halves of characters."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class SafeStream:
    """Makes a stream safe piece by piece; holds back a sequence that is not complete yet."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._coloured = False

    def feed(self, data: bytes) -> str:
        """Return what can be shown now."""
        text = self._held + self._decoder.decode(data)
        partial = _PARTIAL.search(text)
        self._held = partial[0] if partial else ""
        return self._clean(text[: len(text) - len(self._held)])

    def close(self) -> str:
        """Return the rest, and end a colour that was left on."""
        rest = self._clean(self._held + self._decoder.decode(b"", True))
        self._held = ""
        return rest + (_RESET if self._coloured else "")

    def _clean(self, text: str) -> str:
        return _UNSAFE.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        if match[0] == "\r\n":
            return "\r\n"
        if match[1] is None:
            return _shown(match[0])
        if _conceals(match[1]):
            return "\\x1b" + match[0][1:]
        self._coloured = match[1].strip("0;:") != ""
        return match[0]


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as os.fsdecode gives it
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _conceals(parameters: str) -> bool:
    """Whether a colour sequence hides the text after it (8, but not the 8 of `38;5;8`)."""
    codes = [int(code) if code else 0 for code in re.split("[;:]", parameters)]
    at = 0
    while at < len(codes):
        if codes[at] in (38, 48, 58):
            at += {5: 3, 2: 5}.get(codes[at + 1] if at + 1 < len(codes) else 0, 1)
            continue
        if codes[at] == _CONCEAL:
            return True
        at += 1
    return False
