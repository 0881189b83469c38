# SPDX-License-Identifier: Apache-2.0
"""What each agent's configuration must say: files, keys, units of time. Pure."""

__all__ = ["claude", "codex", "cursor", "gemini", "vscode"]
