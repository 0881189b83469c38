# SPDX-License-Identifier: Apache-2.0
"""One thing that was looked at, and how it came out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckStatus(str, Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One thing that was looked at."""

    name: str
    status: CheckStatus
    detail: str
    fix: str = ""
    """One line that says what to do; empty when there is nothing to do."""

    def as_dict(self) -> dict[str, str]:
        """Return the check for JSON output."""
        return {
            "name": self.name,
            "status": self.status.value,
            "detail": self.detail,
            "fix": self.fix,
        }
