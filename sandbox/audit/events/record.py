# SPDX-License-Identifier: Apache-2.0
"""What every line of the record has."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Fields = dict[str, Any]
"""What has a shape of its own, as it stands in the line."""


Changes = list[Fields]
"""Changed paths, each as `ChangeView` writes it."""


class AuditRecord(BaseModel):
    """One line of the record."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    n: int | None = None
    """Its number; the chain sets it, as it does `prev`."""
    ts: str | None = None
    """When it was written; the log sets it."""
    prev: str | None = None
    event: str
    """The kind."""
    call: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in the log, without what the chain adds."""
        given = {*self.model_fields_set, "event"} - _CHAIN
        fields = {name: getattr(self, name) for name in type(self).model_fields if name in given}
        return {**fields, **(self.model_extra or {})}


_CHAIN = {"n", "prev"}


class UnknownRecord(AuditRecord):
    """A line of a kind that this version does not know, or that is not as its kind should be."""
