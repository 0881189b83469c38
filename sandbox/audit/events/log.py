# SPDX-License-Identifier: Apache-2.0
"""What the log writes of itself."""

from __future__ import annotations

from typing import Literal

from sandbox.audit.events.record import AuditRecord, Fields


class LogRecord(AuditRecord):
    """What the log writes of itself; nobody else's record may be one."""


class SegmentRecord(LogRecord):
    """A file of the log begins."""

    event: Literal["segment"] = "segment"
    segment: int | None = None


class RotatedRecord(LogRecord):
    """A file of the log ends, and which one follows."""

    event: Literal["rotated"] = "rotated"
    segment: int | None = None
    next: str | None = None


class RemovedRecord(LogRecord):
    """Old files of the log are removed, and where it begins from then on."""

    event: Literal["removed"] = "removed"
    segments: list[str] | None = None
    until: Fields | None = None


class LostRecord(LogRecord):
    """Lines that were there are not."""

    event: Literal["lost"] = "lost"
    found: Fields | None = None
    kept: Fields | None = None
    outcome: str | None = None


class RepairedRecord(LogRecord):
    """The log was mended, or a person accepted what it lost."""

    event: Literal["repaired"] = "repaired"
    by: str | None = None
    accepts: list[int] | None = None
    outcome: str | None = None
    head: Fields | None = None
