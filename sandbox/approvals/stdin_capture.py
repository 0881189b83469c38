# SPDX-License-Identifier: Apache-2.0
"""What a call that a person is asked about is given on standard input: taken whole beforehand.

INVARIANT (P8, input): a person's word covers the input as it was when they were asked. A shell's
input is a program, so an approval of `sh` alone would be one of anything.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sandbox.errors import SandboxError

MOST_BYTES = 4 << 20
"""A longer input is not taken: nobody could read it."""
BEGIN_SECONDS = 3.0
"""How long its first byte is waited for: many a pipe is open and never used."""
WHOLE_SECONDS = 20.0
"""How long its end is waited for, once it has begun."""
MOST_SHOWN = 100_000
_WAY = "put it into a file of the workspace, or give it whole"


class NotWhole(SandboxError):
    """An input has no end in sight, so nobody can be asked about it."""


@dataclass(frozen=True, slots=True)
class Given:
    """An input, whole. Nothing at all on it is none."""

    data: bytes
    silent: bool = False
    """Nothing came on it in time, though it did not end."""

    @property
    def digest(self) -> str:
        """What an approval is bound to; empty where there is no input."""
        return hashlib.sha256(self.data).hexdigest() if self.data else ""

    def shown(self) -> str:
        """Return what a person is shown of it; empty where there is none."""
        if not self.data:
            return ""
        size = f"{len(self.data)} bytes, SHA-256 {self.digest}"
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            return f"{size}, which are no text"
        more = len(text) - MOST_SHOWN
        rest = f"\n... and {more} more characters" if more > 0 else ""
        return f"{size}:\n{text[:MOST_SHOWN]}{rest}"


async def taken(stdin: AsyncIterator[bytes] | None) -> Given:
    """Return an input once it has ended. Raises NotWhole for one that is too long or too slow."""
    data = bytearray()
    if stdin is None:
        return Given(b"")
    deadline = BEGIN_SECONDS
    end = asyncio.get_running_loop().time() + WHOLE_SECONDS
    while True:
        try:
            data += await asyncio.wait_for(anext(stdin), deadline)
        except StopAsyncIteration:
            return Given(bytes(data))
        except TimeoutError:
            if not data:
                return Given(b"", silent=True)
            raise NotWhole(
                f"its standard input did not end within {WHOLE_SECONDS:.0f} s, and a person can "
                f"only be asked about all of it; {_WAY}"
            ) from None
        if len(data) > MOST_BYTES:
            raise NotWhole(
                f"its standard input is longer than {MOST_BYTES >> 20} MiB, and a person is asked "
                f"about all of it; {_WAY}"
            )
        deadline = max(end - asyncio.get_running_loop().time(), 0.01)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """Yield an input that is there already."""
    yield data
