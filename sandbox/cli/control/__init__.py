# SPDX-License-Identifier: Apache-2.0
"""Commands that control agents: start, list, stop."""

__all__ = ["interrupts", "stop"]
