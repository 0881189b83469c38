# SPDX-License-Identifier: Apache-2.0
"""Reads git's objects, packs and index as files: running git would obey the repository."""

__all__ = [
    "commits",
    "config",
    "entries",
    "files",
    "index",
    "index_format",
    "objects",
    "packs",
    "places",
    "work_trees",
]
