# SPDX-License-Identifier: Apache-2.0
"""Both gates as a call meets them: policy files, second opinion, effects."""

__all__ = [
    "bound",
    "cleaning",
    "gate1",
    "gate2",
    "host_calls",
    "host_edits",
    "host_made",
    "masked_diff",
    "policy_files",
    "second_opinion",
    "shown_changes",
    "undo_judgement",
]
