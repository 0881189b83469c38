# SPDX-License-Identifier: Apache-2.0
"""Git's settings as git reads them, for the few that say how a repository is to be read.

Comments, quotes and continued lines are told apart as in git's config.c: words in a comment or in
a value are no setting.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SKIPPED = re.compile(rb"[ \t\r\n]+|[#;][^\n]*")
_HEADER = re.compile(rb'\[([A-Za-z0-9.-]+)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_KEY = re.compile(
    rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*"
    rb'(?:=((?:"(?:[^"\\\n]|\\[tbn\\"\n])*"|\\(?:[tbn\\"\n]|\Z)|[^"\\\n#;])*)(?:[#;][^\n]*)?)?(?:\n|\Z)'
)
_ESCAPED = re.compile(rb"\\(\n|[^\n]|\Z)")
_PIECE = re.compile(rb'\\([^\n]|\Z)|"')
_MEANT = {b"t": b"\t", b"b": b"\b", b"n": b"\n"}


def settings(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give `section.key` in lower case and its value; `section.name.key` with a subsection.

    Raises ValueError where git would refuse to read on.
    """
    text = text.replace(b"\r\n", b"\n")
    at, section = 3 if text.startswith(b"\xef\xbb\xbf") else 0, b""
    while at < len(text):
        found = _SKIPPED.match(text, at)
        if found is None:
            found = _HEADER.match(text, at)
            if found is not None:
                section = found[1].lower()
                if found[2] is not None:
                    section += b"." + _ESCAPED.sub(rb"\1", found[2])
            else:
                found = _KEY.match(text, at)
                if found is None:
                    raise ValueError("its settings cannot be read")
                yield section + b"." + found[1].lower(), _meant(found[2] or b"")
        at = found.end()


def _meant(written: bytes) -> bytes:
    """Return a value without the ends of its lines, the quotes and the escapes it is written in."""
    stripped = written.strip()  # before a line's end is taken out: what stands ahead of it stays
    joined = _ESCAPED.sub(lambda found: found[0] if found[1] != b"\n" else b"", stripped)
    return _PIECE.sub(lambda found: _MEANT.get(found[1], found[1]) if found[1] else b"", joined)
