# SPDX-License-Identifier: Apache-2.0
"""Notices changes to protected files that no landing made; verify before a merge."""

__all__ = ["child", "guard", "landings", "untrusted_repository", "verify", "vouch"]
