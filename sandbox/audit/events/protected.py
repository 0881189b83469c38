# SPDX-License-Identifier: Apache-2.0
"""What is written of protected files that no call changed, and of what people say of them."""

from __future__ import annotations

from typing import Literal

from sandbox.audit.events.record import AuditRecord, Changes


class VouchRecord(AuditRecord):
    """A person vouched for their own changes of protected paths, or takes that back."""

    event: Literal["vouched", "vouch-withdrawn"]
    workspace: str
    """The repository."""
    changes: Changes
    """Each with `path`; of what is vouched also `kind`, git's `mode` and the content's SHA-256,
    both None where the path is gone."""
    by: str | None = None
    answer_reason: str | None = None


class AcknowledgedRecord(AuditRecord):
    """A person has seen what was changed around Lockgate, up to the line `until`."""

    event: Literal["acknowledged"] = "acknowledged"
    until: int
    by: str | None = None


class TamperedRecord(AuditRecord):
    """A protected path changed, and no landing did it."""

    event: Literal["tampered"] = "tampered"
    workspace: str
    path: str
    kind: str | None = None
    rule: str | None = None
    before: str | None = None
    after: str | None = None
    restored: bool | None = None
    kept: str | None = None
    note: str | None = None
