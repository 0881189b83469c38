# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on git: what of a git folder, of git's settings and of history may land."""

__all__ = [
    "changed_settings",
    "changes",
    "config",
    "folder",
    "judged",
    "losses",
    "named_by_git",
    "places",
    "signing",
]
