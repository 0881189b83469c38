# SPDX-License-Identifier: Apache-2.0
"""Tools for authors of policy: check, explain, test, simulate, suggest."""

__all__ = ["ask", "batch", "cases", "explain", "simulate", "suggest", "view"]
