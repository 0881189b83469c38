# SPDX-License-Identifier: Apache-2.0
"""Guards around the grammar of shell text: what it may have overlooked makes a text opaque."""

__all__ = [
    "guards",
    "normalize",
    "quoting",
]
