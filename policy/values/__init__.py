# SPDX-License-Identifier: Apache-2.0
"""Values that all readings share: partly known text, names and globs of paths, words."""

__all__ = [
    "argv",
    "comparison",
    "filenames",
    "linear_glob",
    "numbers",
    "odd_names",
    "partial",
    "patches",
    "path_index",
    "paths",
    "strict_yaml",
    "urls",
    "validation_text",
]
