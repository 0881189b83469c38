# SPDX-License-Identifier: Apache-2.0
"""Text that is safe as it stands, told without regular expressions, which the rest is left to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandbox.text.terminal import SafeStream

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"


def plain_line(text: str) -> str:
    """Return text as `safe_line` does."""
    if text.isascii() and text.isprintable():
        return text
    from sandbox.text.terminal import safe_line

    return safe_line(text)


class PlainStream:
    """Makes a stream safe as `SafeStream` does, which takes over where the first byte wants it."""

    def __init__(self) -> None:
        self._safe: SafeStream | None = None

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown now."""
        if self._safe is None:
            if not data.translate(None, _PLAIN):
                return data
            from sandbox.text.terminal import SafeStream

            self._safe = SafeStream()
        return self._safe.feed(data).encode()

    def close(self) -> bytes:
        """Return the rest, and end a colour that was left on."""
        return b"" if self._safe is None else self._safe.close().encode()
