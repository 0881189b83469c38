# SPDX-License-Identifier: Apache-2.0
"""Wait until something can be read: as `select`, but whatever a descriptor's number is."""

from __future__ import annotations

import selectors
from collections.abc import Iterable
from typing import Protocol


class Readable(Protocol):
    """Something with a descriptor that can be waited for: a pipe, a terminal, a socket."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


def readable(sources: Iterable[Readable], seconds: float | None = None) -> list[Readable]:
    """Return those that can be read or have ended, at the latest after `seconds` (None: none).

    A plain file can always be read.
    """
    with selectors.PollSelector() as waiting:
        for source in sources:
            waiting.register(source, selectors.EVENT_READ, source)
        return [key.data for key, _ in waiting.select(seconds)]
