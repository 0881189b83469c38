# SPDX-License-Identifier: Apache-2.0
"""Standard error of the supervisor, which is its log: where the disk is full, lines are lost.

Whoever says something there goes on with its work, whatever becomes of the words.
"""

from __future__ import annotations

import contextlib
import io
import os


class LogStream(io.TextIOBase):
    """Writes what it is given to a descriptor at once, as far as that takes it."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor, for what writes without Python's help."""
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Write a text; one that finds no room is lost."""
        with contextlib.suppress(OSError):
            os.write(self._descriptor, text.encode(self.encoding, self.errors))
        return len(text)
