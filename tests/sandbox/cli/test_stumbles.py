# SPDX-License-Identifier: Apache-2.0
"""What somebody who is new to the command line types, and the one line that helps them on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from policy.agent_names import RULE
from sandbox.agents.allowed import check_path
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.errors import BadInput
from sandbox.present.render import changes
from tests.fakes import Served
from tests.sandbox.shells import Shell

LINES = {
    "a time that is none": (
        ["run", "--timeout", "abc", "--", "ls"],
        "invalid value for '--timeout': `abc` is not a time such as 90s, 10m or 2h; "
        "see `lockgate run --help`",
    ),
    "a number that is none": (
        ["log", "-n", "few"],
        "invalid value for '-n' / '--limit': 'few' is not a valid number; "
        "see `lockgate log --help`",
    ),
    "an option without its value": (
        ["stop", "--agent"],
        "option '--agent' requires an argument; see `lockgate stop --help`",
    ),
    "an option of a command in a group": (
        ["agent", "list", "--frob"],
        "no such option '--frob'; see `lockgate agent list --help`",
    ),
    "an agent that nobody knows": (
        ["resume", "--agent", "coder"],
        "there is no agent `coder`; `lockgate ps` shows what is stopped, and `lockgate agent list` "
        "those under watch",
    ),
    "an instant that is none": (
        ["log", "--since", "yesterday"],
        "`yesterday` is no instant; write 2h or 3d (so long ago), or ISO 8601 as in "
        "2026-02-11T09:50:00Z",
    ),
}


@pytest.mark.parametrize("words, line", LINES.values(), ids=LINES)
def test_a_stumble_gets_the_line_that_helps(shell: Shell, words: list[str], line: str) -> None:
    assert shell(*words) == (2, "", f"lockgate: {line}\n")


def test_a_time_with_a_unit_is_taken(shell: Shell, running: Served) -> None:
    assert shell("run", "--timeout", "2m", "exit 0")[0] == 0
    assert running.fake.plans[-1].params.timeout == 120_000


AGENTS = {
    "main": True,
    "main:sub:7": True,
    "claude-code.1": True,
    "a" * 64: True,
    "a b": False,
    "a:": False,
    ":a": False,
    "a::b": False,
    "-a": False,
    "a/b": False,
    "a\n": False,
    "é": False,
    "a" * 65: False,
    ":".join(["a" * 60] * 4): False,
}


@pytest.mark.parametrize("name, may", AGENTS.items())
def test_one_rule_says_what_may_name_an_agent(name: str, may: bool) -> None:
    if may:
        assert check_path(name) == name
        return
    with pytest.raises(BadInput, match="cannot name an agent"):
        check_path(name)


DOORS = (
    ["run", "--agent", "a b", "--", "exit 0"],
    ["check", "--agent", "a b", "ls"],
    ["mcp", "--agent", "a b"],
    ["agent", "add", "a b"],
)


@pytest.mark.parametrize("words", DOORS, ids=[words[0] for words in DOORS])
def test_every_door_refuses_another_name_in_one_line(
    shell: Shell, running: Served, words: list[str]
) -> None:
    status, out, err = shell(*words)
    assert (status != 0, out) == (True, "")
    assert err.startswith(f"lockgate: `a b` cannot name an agent: {RULE}")
    assert err.count("\n") == 1
    assert running.fake.plans == []


def test_an_agent_that_is_known_is_said_not_to_be_stopped(shell: Shell) -> None:
    _decide(shell, "c1", agent="main:coder")
    for name in "main", "main:coder":
        assert shell("resume", "--agent", name) == (0, f"agent {name} is not stopped\n", "")
    assert shell("resume") == (0, "not stopped\n", "")


def test_the_log_is_listed_from_a_time_on(shell: Shell) -> None:
    now = datetime.now(UTC)
    for call, ago in ("old", timedelta(hours=3)), ("new", timedelta(minutes=5)):
        _decide(shell, call, ts=(now - ago).isoformat())
    everything, some, none = (
        shell("log", *words)[1] for words in ((), ("--since", "1h"), ("--since", "1m"))
    )
    assert "old" in everything
    assert ("old" in some, "new" in some) == (False, True)
    assert none == "no call is recorded that matches\n"


def test_a_list_that_is_cut_says_how_many_there_are() -> None:
    items = [{"kind": "created", "path": f"f{number}"} for number in range(25)]
    assert changes(items).endswith("  ... and 5 more, 25 in all")
    assert changes(items, total=5000).endswith("  ... and 4980 more, 5000 in all")
    assert "more" not in changes(items[:20])


def test_a_second_undo_of_the_last_call_names_the_one_before(shell: Shell, running: Served) -> None:
    for call, command in ("c1", "echo 1 > a"), ("c2", "echo 2 > a"):
        _decide(shell, call, command=command, workspace=str(shell.workspace))
        _note(shell, event="ended", call=call, ending="ran", landed=True, judgement="land")
    assert shell("undo", "last")[0] == 0
    _undo(shell, "u1", of="c2", undone="c2")
    assert shell("undo", "last") == (
        2,
        "",
        "lockgate: the last, `c2` (echo 2 > a), is undone already; `lockgate undo c1` also takes "
        "back the one before it (echo 1 > a); `lockgate undo u1` does it again\n",
    )
    assert running.fake.done == ["undo c2", "undone c2"]
    assert shell("undo", "c1")[0] == 0
    _undo(shell, "u2", of="u1", undone="u1")  # the call is done again, and is the last that stands
    assert shell("undo", "last")[0] == 0
    assert running.fake.done[4:] == ["undo c2", "undone c2"]


def test_after_another_call_the_last_is_that_one(shell: Shell, running: Served) -> None:
    for call in "c1", "c2":
        _decide(shell, call, workspace=str(shell.workspace))
        _note(shell, event="ended", call=call, ending="ran", landed=True, judgement="land")
        if call == "c1":
            _undo(shell, "u1", of="c1", undone="c1")
    assert shell("undo", "last")[0] == 0
    assert running.fake.done == ["undo c2", "undone c2"]


def _note(shell: Shell, **fields: object) -> None:
    Store(shell.dirs).append(record_of(fields), durable=True)


def _decide(shell: Shell, call: str, *, command: str = "true", **more: object) -> None:
    said = {"agent": "main", "workspace": "/w", "verdict": "allow", "tool": "Bash", **more}
    _note(shell, event="decided", call=call, params={"command": command}, **said)


def _undo(shell: Shell, call: str, *, of: str, undone: str) -> None:
    where = {"workspace": str(shell.workspace), "tool": "undo", "landed": True, "changes": []}
    _note(shell, event="undone", call=call, of=of, undone=undone, **where)
