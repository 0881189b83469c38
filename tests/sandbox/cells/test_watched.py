# SPDX-License-Identifier: Apache-2.0
"""What follows for a call's effects from what the observer saw: it only ever tightens."""

from __future__ import annotations

from typing import Any

import pytest

from policy.model import Judgement, Outcome, PathReason
from policy.protected.paths import PathPolicy
from sandbox.cells.observation import Watched, lines
from sandbox.gates.gate2 import Effects
from sandbox.gates.shown_changes import Shown
from sandbox.results import ChangeView

PATHS = PathPolicy.default()
VIEW = ChangeView(path="a", kind="created", type="file")
ALARM = {
    "alarm": {
        "path": ".devkit-waiver.yml",
        "events": [
            {"kind": "created", "path": "tmp1"},
            {"kind": "moved", "path": ".devkit-waiver.yml", "source": "tmp1"},
        ],
    }
}
LOST = {"lost": "its process ended"}


def effects(outcome: Outcome, *, total: int = 1) -> Effects:
    """Return effects that gate 2 judged so."""
    reasons = () if outcome is Outcome.LAND else (PathReason("a", outcome, "r", "why"),)
    text = "" if outcome is Outcome.LAND else "gate 2's own words"
    places = ((0, "a"),) * total
    return Effects(Judgement(outcome, reasons, text), Shown((VIEW,) * total, places, total))


CASES: dict[str, tuple[dict[str, Any], Outcome, Outcome]] = {
    "nothing seen, land": ({}, Outcome.LAND, Outcome.LAND),
    "nothing seen, hold": ({}, Outcome.HOLD, Outcome.HOLD),
    "a flood, land": ({"behind": True, "lossy": True}, Outcome.LAND, Outcome.LAND),
    "an alarm, land": (ALARM, Outcome.LAND, Outcome.DISCARD),
    "an alarm, hold": (ALARM, Outcome.HOLD, Outcome.DISCARD),
    "an alarm, discard": (ALARM, Outcome.DISCARD, Outcome.DISCARD),
    "lost, land": (LOST, Outcome.LAND, Outcome.HOLD),
    "lost, hold": (LOST, Outcome.HOLD, Outcome.HOLD),
    "lost, discard": (LOST, Outcome.DISCARD, Outcome.DISCARD),
    "lost with an alarm, land": ({**LOST, **ALARM}, Outcome.LAND, Outcome.DISCARD),
}


@pytest.mark.parametrize(("watch", "before", "after"), CASES.values(), ids=CASES)
def test_the_watching_only_tightens(watch: dict[str, Any], before: Outcome, after: Outcome) -> None:
    judged = effects(before)
    found = Watched.of({"watch": watch}).over(judged, PATHS)
    assert found.judgement.outcome is after
    if before is after:
        assert found is judged  # gate 2's own reasons stay


def test_a_call_that_changed_nothing_is_not_held_for_want_of_watching() -> None:
    judged = effects(Outcome.LAND, total=0)
    assert Watched.of({"watch": LOST}).over(judged, PATHS) is judged


def test_a_discarded_call_says_what_appeared_and_what_to_do_instead() -> None:
    watched = Watched.of({"watch": ALARM})
    assert watched.over(effects(Outcome.LAND), PATHS).judgement.message == (
        "discarded, nothing landed: `.devkit-waiver.yml` appeared: it is protected by Layered "
        "Governance Constitution (rule_006); instead, open a PR with the waiver entry via gh pr "
        "create"
    )
    assert watched.sentence() == "`tmp1` created, `tmp1` moved onto `.devkit-waiver.yml`"


def test_events_are_said_in_words_and_names_need_not_be_utf8() -> None:
    assert lines(
        [
            {"kind": "copied", "path": "a\udcff"},
            {"kind": "linked", "path": "l", "source": "/etc"},
            {"kind": "linked", "path": "h"},
            {"kind": "deleted", "path": "d"},
        ]
    ) == ["`a\\xff` opened for writing", "`l` linked to `/etc`", "`h` linked", "`d` deleted"]


def test_an_answer_without_a_word_on_watching_is_no_news() -> None:
    assert Watched.of({}) == Watched()
