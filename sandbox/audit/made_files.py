# SPDX-License-Identifier: Apache-2.0
"""What calls noted in the audit log of the files that their agents made, each time what is new."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sandbox.audit.events.calls import EndedRecord, OutcomeRecord
from sandbox.audit.events.reading import read
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.segments import Segments

_NAME = b'"made"'
MOST_LOOKED_AT = 20_000
"""Records that are looked through at a time."""


class MadeFiles:
    """The notes of one log, for a reader that asks again."""

    def __init__(self, segments: Segments) -> None:
        """Read nothing yet."""
        self._segments = segments
        self._newest = b""

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Yield what was noted since the reading before, or among the newest records of all, the
        newest first. A line that is damaged ends the reading."""
        known, self._newest = self._newest, b""
        for raw in islice(self._segments.backwards(), MOST_LOOKED_AT):
            self._newest = self._newest or raw  # a line holds the hash of the one before
            if raw == known:
                return
            try:
                record = _read_note(raw)
            except ValueError:
                return
            if isinstance(record, EndedRecord | OutcomeRecord) and record.made:
                yield {"made": record.made}


def _read_note(raw: bytes) -> AuditRecord | None:
    """Return the record of a line that may hold a note; None for another line, which need not be
    understood. Raises ValueError for a damaged one."""
    if _NAME in raw:
        return read(raw)
    if not isinstance(json.loads(raw), dict):
        raise ValueError("not a record")
    return None
