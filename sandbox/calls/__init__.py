# SPDX-License-Identifier: Apache-2.0
"""The flow of one call; held calls, undo, recovery, what is recorded."""

__all__ = ["blocking", "supervisor", "tickets"]
