# SPDX-License-Identifier: Apache-2.0
"""Cells as the supervisor sees them: how they are made, pooled, talked to, take turns."""

__all__ = [
    "cell",
    "observation",
    "outlet",
    "pool",
    "request",
    "specs",
    "transaction",
    "turns",
    "work",
]
