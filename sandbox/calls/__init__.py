# SPDX-License-Identifier: Apache-2.0
"""The supervisor: the flow of one call in `flow`; held calls, undo, recovery, what is recorded."""

__all__ = [
    "blocking",
    "ids",
    "ignore_noting",
    "keepers",
    "record_fields",
    "recorder",
    "recovery",
    "supervisor",
    "tickets",
    "undo",
]
