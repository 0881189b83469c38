# SPDX-License-Identifier: Apache-2.0
"""Wait until something can be read: as `select`, but whatever a descriptor's number is."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    waiting = select.poll()
    named = {}
    for source in sources:
        named[source.fileno()] = source
        waiting.register(source.fileno(), select.POLLIN)
    most = None if seconds is None else int(-(-max(seconds, 0.0) * 1000 // 1))  # rounded up
    return [named[fd] for fd, _ in waiting.poll(most)]
