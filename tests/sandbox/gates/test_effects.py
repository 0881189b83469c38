# SPDX-License-Identifier: Apache-2.0
"""What a call changed, as people are shown it."""

from __future__ import annotations

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from sandbox.gates.shown_changes import show


def test_the_strictest_reason_of_a_path_is_shown() -> None:
    """Reasons come strictest first, as `policy.gate2.judge` gives them."""
    change = Change("devkit.config.json", Kind.DELETED, FileType.FILE)
    reasons = [
        PathReason(change.path, Outcome.DISCARD, "rule_006", "it is protected"),
        PathReason(change.path, Outcome.HOLD, "deletion", "it is deleted without being named"),
    ]
    (view,) = show([[change]], ["/w"], PathPolicy.default(), [reasons]).views
    assert (view.outcome, view.reason) == ("discard", "it is protected")
