# SPDX-License-Identifier: Apache-2.0
"""Readers of programs that work on files: archives, deleting, finding, media, patches, text."""

__all__ = [
    "archives",
    "files",
    "finding",
    "media",
    "patches",
    "queries",
    "text",
]
