# SPDX-License-Identifier: Apache-2.0
"""Turns a tool call of any agent into what it reads, writes, runs and talks to."""

__all__ = ["described", "dialects", "reading", "sent"]
