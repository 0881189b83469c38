# SPDX-License-Identifier: Apache-2.0
"""How each agent talks to its hooks: what its events hold, what its answers look like. Pure."""

__all__ = ["claude", "codex", "cursor", "fields", "gemini", "generic"]
