# SPDX-License-Identifier: Apache-2.0
"""The index of the log: how it is made from the log, and what it is asked."""

__all__ = ["conditions", "sessions", "taking"]
