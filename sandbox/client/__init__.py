# SPDX-License-Identifier: Apache-2.0
"""Thin clients of the supervisor, and the wire between them."""

__all__ = [
    "async_client",
    "blocking",
    "connect",
    "exchange",
    "hook_program",
    "line",
    "wire",
]
