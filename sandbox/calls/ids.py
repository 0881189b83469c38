# SPDX-License-Identifier: Apache-2.0
"""The ids of calls: new ones, and those that a client chooses.

INVARIANT (P9, Names): an id names one call for ever. What the record says of a call is all that was
written under its id, the newest first: a second call of the same id would write over the first.
"""

from __future__ import annotations

import asyncio
import re
import secrets

from sandbox.audit.store import Store
from sandbox.errors import BadInput

_FORM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_LAST = "last"
"""What people type for the newest call."""


def new_id() -> str:
    """Return a new call id: short enough to type."""
    return "c" + secrets.token_hex(5)


class CallNames:
    """The ids of one supervisor's calls that were chosen by clients."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._given: set[str] = set()

    async def claim(self, name: str) -> None:
        """Take an id for a call. Raises BadInput for one of another form, or one that was used.

        An id such as `c1-2` belongs to the second part that landed of `c1`.
        """
        if not _FORM.fullmatch(name) or name == _LAST:
            raise BadInput(
                f"a call's id is 1 to 64 letters, digits, `-` and `_`, and not `{_LAST}`"
            )
        whole, _, part = name.rpartition("-")
        names = (name, whole) if whole and part.isdigit() else (name,)
        for one in names:
            if one in self._given or await asyncio.to_thread(self._known, one):
                raise BadInput(f"a call `{one}` was made already; choose another id")
        self._given.add(name)

    def _known(self, name: str) -> bool:
        try:
            return self._store.call(name).id == name
        except BadInput:
            return False
