# SPDX-License-Identifier: Apache-2.0
"""Registered workspaces, and what is protected and ignored there."""

__all__ = [
    "cached",
    "forbidden",
    "git_obeyed",
    "git_places",
    "gitignore",
    "ignore_ledger",
    "ignore_sources",
    "led_to",
    "obeyed_links",
    "project_files",
    "protected_paths",
    "registry",
    "replaced_ledger",
    "searched",
    "tracked",
]
