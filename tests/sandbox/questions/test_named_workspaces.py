# SPDX-License-Identifier: Apache-2.0
"""Which further registered workspaces a call names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.model import ActionPlan, Params
from sandbox.questions.named import (
    MOST_NAMED,
    MOST_TEXT,
    _standing,
    _stands,
    named_workspaces,
)

KNOWN = ("/home/me/w", "/home/me/other", "/home/me/other-one", "/srv/a b")
TEXTS = {
    "whole": ("cat /home/me/other/x", ["/home/me/other"]),
    "from the home, which is another in a cell": ("cat ~/other/x", []),
    "two, in quotes": ('cat "/home/me/other" /home/me/other-one', KNOWN[1:3]),
    "from here": ("diff ../../other/a a", ["/home/me/other"]),
    "a name with a blank": ("ls '/srv/a b'", ["/srv/a b"]),
    "a longer name": ("cat ~/other-thing/x ~/otherx", []),
    "in a longer path": ("cat /x/home/me/other/y ../../../other", []),
    "its own": ("cat /home/me/w/x", []),
    "as an option's value": ("make --dir=/home/me/other", ["/home/me/other"]),
    "after what only ends a word": ("echo )/home/me/other; cat /home/me/other=x", []),
    "between signs": ("cat </home/me/other>x:/home/me/other-one", KNOWN[1:3]),
    "nothing": ("ls", []),
}


@pytest.mark.parametrize("text, named", TEXTS.values(), ids=TEXTS)
def test_a_command_names_workspaces(text: str, named: list[str]) -> None:
    plan = ActionPlan(
        tool="Bash", params=Params(command=text), workspace="/home/me/w", cwd="/home/me/w/sub"
    )
    assert named_workspaces(plan, KNOWN) == tuple(named)
    assert named_workspaces(plan.model_copy(update={"also": KNOWN}), KNOWN) == ()


def test_a_file_tool_names_the_workspace_of_its_file() -> None:
    for path, named in (("../other/x", ("/home/me/other",)), ("x/../../w/y", ()), ("/etc/x", ())):
        plan = ActionPlan(tool="Read", params=Params(file_path=path), workspace="/home/me/w")
        assert named_workspaces(plan, KNOWN) == named


def test_what_is_looked_at_is_bounded() -> None:
    many = [f"/w{number}" for number in range(100)]
    plan = ActionPlan(tool="Bash", params=Params(command=" ".join(many)), workspace="/home/me/w")
    assert len(named_workspaces(plan, many)) == MOST_NAMED
    far = plan.model_copy(update={"params": Params(command=" " * MOST_TEXT + "/w1")})
    assert named_workspaces(far, many) == ()


def test_a_text_is_gone_through_once_for_all_workspaces() -> None:
    many = [f"/home/me/{number}" for number in range(5000)]
    text = "/" * (MOST_TEXT // 2) + " a/" * 10_000 + " /home/me/4321"
    plan = ActionPlan(tool="Bash", params=Params(command=text), workspace="/home/me/w")
    assert named_workspaces(plan, many) == ("/home/me/4321",)


@given(st.text("/ab.= ):*", max_size=30))
def test_going_through_once_finds_what_looking_for_each_finds(text: str) -> None:
    forms = {"/a", "/a/b", "a", "..", "../a", "a b", "/a=b"}
    assert _standing(forms, text) == {form for form in forms if _stands(form, text)}
