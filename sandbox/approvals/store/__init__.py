# SPDX-License-Identifier: Apache-2.0
"""Questions that wait for a person, and the grants that answers become: one SQLite file."""

__all__ = [
    "database",
    "grants",
    "request",
]
