# SPDX-License-Identifier: Apache-2.0
"""Asks people: questions that wait, grants, rehearsals, objections."""

__all__ = [
    "answers",
    "approver",
    "desk",
    "escalation",
    "host_desk",
    "notices",
    "objections",
    "offers",
    "pregrant",
    "rehearsal",
    "script_capture",
    "seen_content",
    "stdin_capture",
]
