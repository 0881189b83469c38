# SPDX-License-Identifier: Apache-2.0
"""Read records of the log at their places."""

from __future__ import annotations

import os
from typing import BinaryIO

from sandbox.audit.events.reading import read
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.segments import LogPlace, Segments


class Reader:
    """Reads records at their places; keeps the files open."""

    def __init__(self, segments: Segments) -> None:
        """Reach for nothing yet."""
        self._segments = segments
        self._files: dict[int, BinaryIO] = {}

    def record(self, place: LogPlace, length: int) -> AuditRecord | None:
        """Return the record at a place; None where it cannot be read."""
        file = self._files.get(place.segment) or self._segments.open(place.segment)
        if file is None:
            return None
        self._files[place.segment] = file
        try:
            return read(os.pread(file.fileno(), length, place.offset))
        except ValueError:
            return None

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
