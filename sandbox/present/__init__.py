# SPDX-License-Identifier: Apache-2.0
"""What people are shown: cards and tables."""

__all__ = ["card", "guard_line", "render", "tables"]
