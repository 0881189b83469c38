# SPDX-License-Identifier: Apache-2.0
"""What people are told: approvals, reports, what a cell lacks and the kits that bring it."""

__all__ = [
    "approval",
    "done",
    "due",
    "kits",
    "openers",
    "reports",
    "shortfall",
    "toolchains",
]
