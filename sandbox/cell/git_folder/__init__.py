# SPDX-License-Identifier: Apache-2.0
"""Which changes lie in a git folder, and what of each its path does not say."""

__all__ = ["changes", "copies"]
