# SPDX-License-Identifier: Apache-2.0
"""What a repository would lose: references, reflogs, objects, staged content, stashes."""

__all__ = ["index_entries", "lost", "signed", "undo"]
