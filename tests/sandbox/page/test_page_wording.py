# SPDX-License-Identifier: Apache-2.0
"""How the page says what became of calls, and shows texts that name commands."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.audit.call_entry import CallEntry
from sandbox.page.showing import environment
from sandbox.page.wording import about_call, state_of
from sandbox.results import Ending

STATES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing is known of its end": ({}, "no end yet"),
    "it went well": ({"ending": "ran"}, "done"),
    "it failed": ({"ending": "ran", "exit_status": 2}, "failed with status 2"),
    "it changed something": ({"ending": "ran", "landed": True}, "changes landed"),
    "it failed and changed something": (
        {"ending": "ran", "exit_status": 1, "landed": True},
        "failed with status 1, changes landed",
    ),
    "it is held": ({"ending": "ran", "judgement": "hold"}, "changes wait for you"),
    "it was discarded": ({"ending": "ran", "judgement": "discard"}, "changes thrown away"),
    "it was undone": ({"ending": "ran", "landed": True, "undone_by": "u1"}, "undone"),
    "it is an undo": ({"ending": "ran", "landed": True, "undone": "c0"}, "an undo"),
    "an agent's own edit": ({"ending": "outside", "landed": True}, "edited by the agent itself"),
    "nobody said yes": ({"ending": "not-approved"}, "not approved, did not run"),
}


@pytest.mark.parametrize("fields, words", STATES.values(), ids=STATES)
def test_states_have_words_that_people_use(fields: dict[str, Any], words: str) -> None:
    assert state_of(CallEntry(id="c1", last="c1", **fields)) == words


def test_every_ending_has_words_of_its_own() -> None:
    for ending in Ending:
        said = state_of(CallEntry(id="c1", last="c1", ending=ending.value))
        assert " " in said or said in ("done", "runs"), ending


TEXTS = {
    "a command": ("type `lockgate ui` now", "type <code>lockgate ui</code> now"),
    "a hint for a terminal": ("held: why; see `lockgate show c1`", "held: why"),
    "markup": ("`<b>` & <i>", "<code>&lt;b&gt;</code> &amp; &lt;i&gt;"),
    "half of a pair": ("a ` b", "a ` b"),
    "what reorders": ("`\u202ea`", "<code>\\u202ea</code>"),
    "nothing": (None, ""),
}


@pytest.mark.parametrize("text, shown", TEXTS.values(), ids=TEXTS)
def test_commands_in_texts_are_code_and_all_else_is_text(text: str | None, shown: str) -> None:
    assert environment().from_string("{{ a|prose }}").render(a=text) == shown


def test_a_line_that_is_a_command_about_a_call_leads_there() -> None:
    assert about_call("lockgate undo c1") == ("undo", "c1")
    assert about_call("lockgate show c1") == ("show", "c1")
    assert about_call("lockgate undo c1; rm x") is None
    assert about_call("ended process 1") is None
