# SPDX-License-Identifier: Apache-2.0
"""The catalog of programs, and the readers of those whose options need code."""

__all__ = [
    "builtin_catalog",
    "carriers",
    "catalog",
    "catalog_schema",
    "entries",
    "installs",
    "output_options",
    "own_programs",
    "tables",
]
