# SPDX-License-Identifier: Apache-2.0
"""Gate 2: judge(decision, changes, paths) -> Judgement; what is protected and obeyed."""

__all__ = ["deletions", "ignore_rules", "judge", "links", "settings_files", "wildmatch"]
