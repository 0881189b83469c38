# SPDX-License-Identifier: Apache-2.0
"""Readers of programs that work on files: archives, editors, finding, text."""

__all__ = [
    "archives",
    "files",
    "finding",
    "media",
    "patches",
    "queries",
    "text",
]
