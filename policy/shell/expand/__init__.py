# SPDX-License-Identifier: Apache-2.0
"""Expands words of shell text: parameters, arithmetic, printf, here-documents."""

__all__ = [
    "printf",
    "words",
]
