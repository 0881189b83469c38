# SPDX-License-Identifier: Apache-2.0
"""Which processes a stop takes for an agent's, and above all which it does not: pure tables."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.processes.table import Known, Proc
from sandbox.processes.targets import Tree, members, targets

SHELL, AGENT, START = 100, 200, 1000
MARK = "a:token"


def proc(
    pid: int, ppid: int, session: int, created: int, state: str = "S", threads: int = 1
) -> Proc:
    """Return a process."""
    return Proc(pid, ppid, session, created, state, threads, f"p{pid}")


def table(*some: Proc) -> dict[int, Proc]:
    """Return a table of the usual processes and some more."""
    usual = (
        proc(1, 0, 1, 1),
        proc(2, 0, 0, 1),
        proc(50, 2, 0, 2000),  # the kernel's
        proc(SHELL, 1, SHELL, 500),
        proc(150, SHELL, SHELL, 900),  # the command that waits for the agent
        proc(AGENT, 150, SHELL, START),
        proc(300, SHELL, SHELL, 3000),  # another program of the same shell
    )
    return {one.pid: one for one in (*usual, *some)}


TREE = Tree("a", MARK, Known(AGENT, START), starter=Known(150, 900), foreign=SHELL)


def found(
    some: Mapping[int, Proc],
    tree: Tree = TREE,
    markers: Mapping[int, str] | None = None,
    grouped: tuple[int, ...] = (),
) -> dict[int, str]:
    """Return the members beside the agent itself: number -> proof."""
    own = members(some, tree, markers=markers or {}, grouped=grouped)
    return {pid: one.why for pid, one in own.items() if pid != AGENT}


def test_an_agent_alone_is_itself_and_nothing_of_its_shell() -> None:
    assert members(table(), TREE, markers={}).keys() == {AGENT}


OURS = {
    "a child": ((proc(400, AGENT, SHELL, 1100),), {}, (), {400: "a descendant"}),
    "a grandchild whose parent is in the table later": (
        (proc(390, 400, SHELL, 1200), proc(400, AGENT, SHELL, 1100)),
        {},
        (),
        {390: "a descendant", 400: "a descendant"},
    ),
    "an orphan that the waiting command adopted": (
        (proc(400, 150, SHELL, 1100),),
        {},
        (),
        {400: "adopted"},
    ),
    "an orphan of process 1 with the mark": (
        (proc(400, 1, 400, 1100),),
        {400: MARK},
        (),
        {400: "marked"},
    ),
    "a child of a marked orphan, without the mark": (
        (proc(400, 1, 400, 1100), proc(401, 400, 401, 1100)),
        {400: MARK},
        (),
        {400: "marked", 401: "a descendant"},
    ),
    "an orphan in a session that a member made": (
        (proc(400, AGENT, 400, 1100), proc(401, 1, 400, 1200)),
        {},
        (),
        {400: "a descendant", 401: "in its session"},
    ),
    "an orphan in a session whose leader has ended, beside a marked one": (
        (proc(401, 1, 400, 1200), proc(402, 1, 400, 1200)),
        {401: MARK},
        (),
        {401: "marked", 402: "in its session"},
    ),
    "an orphan in the control group": (
        (proc(400, 1, 400, 1100),),
        {},
        (400,),
        {400: "in its control group"},
    ),
    "one whose first thread has exited": (
        (proc(400, AGENT, SHELL, 1100, "Z", threads=2),),
        {},
        (),
        {400: "a descendant"},
    ),
}


@pytest.mark.parametrize("some, markers, grouped, wanted", OURS.values(), ids=OURS)
def test_what_is_the_agents(
    some: tuple[Proc, ...],
    markers: dict[int, str],
    grouped: tuple[int, ...],
    wanted: dict[int, str],
) -> None:
    assert found(table(*some), markers=markers, grouped=grouped) == wanted


NOT_OURS = {
    "another program of the shell": ((), {}, ()),
    "the mark of another agent": ((proc(400, 1, 400, 1100),), {400: "b:token"}, ()),
    "a mark with another token": ((proc(400, 1, 400, 1100),), {400: "a:other"}, ()),
    "a mark on what is older than the agent": ((proc(400, 1, 400, 900),), {400: MARK}, ()),
    "a group that lists what is older": ((proc(400, 1, 400, 900),), {}, (400,)),
    "a group that lists processes 1 and 2": ((), {}, (1, 2)),
    "a child that is older than its parent: a number taken anew": (
        (proc(400, AGENT, SHELL, 999),),
        {},
        (),
    ),
    "a marked process's session that somebody else leads": (
        (proc(500, 1, 500, 600), proc(502, 500, 500, 1300)),
        {},
        (),
    ),
    "a thread of the kernel that claims the mark": ((proc(400, 2, 0, 1100),), {400: MARK}, ()),
}


@pytest.mark.parametrize("some, markers, grouped", NOT_OURS.values(), ids=NOT_OURS)
def test_what_is_not_the_agents(
    some: tuple[Proc, ...], markers: dict[int, str], grouped: tuple[int, ...]
) -> None:
    assert found(table(*some), markers=markers, grouped=grouped) == {}


def test_a_marked_process_in_somebody_elses_session_does_not_make_that_session_ours() -> None:
    some = table(proc(500, 1, 500, 600), proc(501, 500, 500, 1200), proc(502, 500, 500, 1300))
    assert found(some, markers={501: MARK}) == {501: "marked"}


def test_a_number_that_was_taken_anew_is_not_the_agent() -> None:
    other = {**table(), AGENT: proc(AGENT, SHELL, SHELL, START + 5)}
    assert members(other, TREE, markers={}) == {}


def test_what_was_seen_is_known_by_number_and_start() -> None:
    tree = Tree("a", MARK, TREE.root, frozenset({Known(400, 1100), Known(401, 1100)}))
    some = table(proc(400, 1, 400, 1100), proc(401, 1, 401, 1101))
    own = members(some, tree, markers={})
    assert {pid: one.why for pid, one in own.items() if pid != AGENT} == {
        400: "seen as a descendant"
    }


def test_children_of_a_waiting_command_whose_number_was_taken_anew_are_not_adopted() -> None:
    some = {**table(proc(400, 150, SHELL, 1300)), 150: proc(150, SHELL, SHELL, 1200)}
    assert 400 not in members(some, TREE, markers={})


def test_only_the_agent_that_was_asked_for() -> None:
    other = Tree("b", "b:token", Known(300, 3000))
    some = table(proc(301, 300, SHELL, 3100), proc(400, AGENT, SHELL, 1100))
    assert targets(some, [other], markers={}, grouped={}).keys() == {300, 301}


PIDS = st.integers(1, 40)
ROWS = st.lists(
    st.builds(
        proc,
        PIDS,
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(1, 60),
        st.sampled_from("SRZTD"),
        st.integers(1, 2),
    ),
    max_size=40,
    unique_by=lambda one: one.pid,
)


@given(
    ROWS,
    st.dictionaries(PIDS, st.sampled_from((MARK, "b:x", "a:")), max_size=5),
    st.sets(PIDS, max_size=3),
    st.builds(Known, PIDS, st.integers(1, 60)),
    st.integers(0, 40),
)
def test_every_member_has_a_proof(
    rows: list[Proc], markers: dict[int, str], grouped: set[int], root: Known, foreign: int
) -> None:
    some = {one.pid: one for one in rows}
    tree = Tree("a", MARK, root, foreign=foreign)
    own = members(some, tree, markers=markers, grouped=grouped)
    for pid, one in own.items():
        assert pid > 2
        assert one.process.ppid != 2
        assert one.process.created >= root.created
        match one.why:
            case "registered":
                assert one.process.known == root
            case "marked":
                assert markers[pid] == MARK
            case "in its control group":
                assert pid in grouped
            case "a descendant":
                assert one.process.ppid in own
                assert own[one.process.ppid].process.created <= one.process.created
            case "in its session":
                session = one.process.session
                assert session not in (0, foreign)
                assert session in own or session not in some
                assert any(
                    other.process.session == session for other in own.values() if other is not one
                )
            case _:
                raise AssertionError(one.why)
