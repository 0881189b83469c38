# SPDX-License-Identifier: Apache-2.0
"""The door for agents' hooks: their dialects and sessions."""

__all__ = ["events", "service", "sessions"]
