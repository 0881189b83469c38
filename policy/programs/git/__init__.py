# SPDX-License-Identifier: Apache-2.0
"""Readers of git: its verbs and its settings."""

__all__ = ["command", "remotes"]
