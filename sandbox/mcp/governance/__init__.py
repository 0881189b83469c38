# SPDX-License-Identifier: Apache-2.0
"""The governance tools of orchestration.md, for every front door: inputs and answers as there."""

__all__ = [
    "standpoint",
    "tools",
]
