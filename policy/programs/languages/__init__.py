# SPDX-License-Identifier: Apache-2.0
"""Readers of interpreters, editors, linters, build tools, and of the code that they are handed."""

__all__ = [
    "build_tools",
    "editors",
    "interpreters",
    "javascript",
    "project_scripts",
    "python",
    "sed_awk",
    "shells",
    "sql",
]
