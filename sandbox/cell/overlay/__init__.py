# SPDX-License-Identifier: Apache-2.0
"""Reads overlay layers: lower, upper, redirects, masks, what changed."""

__all__ = [
    "addresses",
    "comparison",
    "diffs",
    "layer",
    "lower",
    "marks",
    "masks",
    "newcomers",
    "onward",
    "replaced",
    "selection",
    "shadows",
    "sides",
    "steps",
    "walk",
]
