# SPDX-License-Identifier: Apache-2.0
"""Connects agents: edits of their configuration, and the records of these."""

__all__ = ["agents", "changes", "edits", "excluded", "health", "records", "versions"]
