# SPDX-License-Identifier: Apache-2.0
"""The door for the Model Context Protocol."""

__all__ = [
    "http",
    "server",
    "session",
]
