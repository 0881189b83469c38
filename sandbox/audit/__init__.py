# SPDX-License-Identifier: Apache-2.0
"""The record: a hash-chained log, its index, what is read from it."""

__all__ = [
    "call_entry",
    "chain",
    "history",
    "made_files",
    "open_changes",
    "query",
    "reader",
    "repair",
    "retention",
    "segments",
    "store",
    "writer",
]
