# SPDX-License-Identifier: Apache-2.0
"""The emergency stop."""

__all__ = ["latch_watch", "self_stop", "stop"]
