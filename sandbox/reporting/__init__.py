# SPDX-License-Identifier: Apache-2.0
"""Tells people: channels, reports, exports of the record."""

__all__ = [
    "audit_export",
    "bursts",
    "channels",
    "delivery",
    "tracing",
    "waiting",
    "yellow_reports",
]
