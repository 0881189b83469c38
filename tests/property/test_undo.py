# SPDX-License-Identifier: Apache-2.0
"""No update is lost, whatever several agents and a person do to the same files, in any order.

Calls land over real overlay mounts, each begun at one time and landed at another; a person edits in
between; landings and undos are undone in any order. A model of what each file holds says what must
come of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

FILES = ("a", "b", "d/x", "d/y")
AGENTS = (0, 1, 2)
_FILE = st.sampled_from(FILES)
_AGENT = st.sampled_from(AGENTS)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "delete"]), _AGENT, _FILE),
        st.tuples(st.just("move"), _AGENT, st.tuples(_FILE, _FILE)),
        st.tuples(st.just("land"), _AGENT, st.none()),
        st.tuples(st.just("edit"), st.none(), _FILE),
        st.tuples(st.just("undo"), st.integers(0, 7), st.none()),
    ),
    max_size=24,
)
Files = dict[str, str]
"""Path -> content of each file that is there."""


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


@dataclass
class _Call:
    """A call that goes on: its layer, what it saw when it began, what it changed since."""

    overlay: Overlay
    began: Files
    touched: set[str] = field(default_factory=set)
    """Files that somebody else changed since it began."""


@dataclass
class _Landed:
    """What a landing or an undo did to the files it changed: content before and after."""

    before: dict[str, str | None]
    after: dict[str, str | None]


class Workspace:
    """One workspace, what it must hold, and all that happens to it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        prepare = "mkdir d; " + "; ".join(f"echo {one} >{one}" for one in FILES)
        self._base = stack.enter_context(Overlay(prepare=prepare))
        self._root = str(self._base.lower)
        self._calls: dict[int, _Call] = {}
        self._done: dict[str, _Landed] = {}
        """What can be undone: the last landing or undo of each chain."""
        self._count = 0
        self.outcomes: list[str] = []

    def files(self) -> Files:
        """Return what the real files hold."""
        return _read(self._base.lower)

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._count}"

    def _call(self, agent: int) -> _Call:
        if agent not in self._calls:
            overlay = Overlay()
            overlay.lower = self._base.lower
            self._stack.callback(overlay.close)
            overlay.open()
            self._calls[agent] = _Call(overlay, self.files())
        return self._calls[agent]

    def act(self, agent: int, action: str, what: str | tuple[str, str]) -> None:
        """Have a call do something in its own view."""
        merged = self._call(agent).overlay.merged
        try:
            if isinstance(what, tuple):
                (merged / what[0]).rename(merged / what[1])
            elif action == "write":
                (merged / what).write_text(self._fresh())
            else:
                (merged / what).unlink()
        except FileNotFoundError:
            return

    def edit(self, name: str) -> None:
        """Have a person write a file."""
        (self._base.lower / name).write_text(self._fresh())
        self._note({name})

    def _note(self, names: set[str], by: int | None = None) -> None:
        for agent, call in self._calls.items():
            if agent != by:
                call.touched |= names

    def land(self, agent: int) -> None:
        """End a call and land it: it must land unless it changed what somebody else changed."""
        call = self._calls.pop(agent, None)
        if call is None:
            return
        before, wanted = self.files(), _read(call.overlay.merged)
        walked = call.overlay.walk()
        changed = {one["path"] for one in walked.changes if one["type"] == "file"}
        changed |= {one["source"] for one in walked.changes if "source" in one}
        name = f"c{self._fresh()}"
        result = landing.land(self._root, "", walked, name)
        after = self.files()
        if result.state == "conflict":
            assert after == before
            assert changed & call.touched, "what nobody else had changed must land"
        else:
            assert not changed & call.touched, "an update was lost"
            expected = {**before, **{one: wanted[one] for one in changed if one in wanted}}
            for gone in changed - wanted.keys():
                expected.pop(gone, None)
            assert after == expected
            if result.state == "landed":
                self._remember(name, before, after, changed)
        self.outcomes.append(result.state)

    def _remember(self, name: str, before: Files, after: Files, names: set[str]) -> None:
        differing = {one for one in names if before.get(one) != after.get(one)}
        self._note(differing)
        self._done[name] = _Landed(
            {one: before.get(one) for one in differing}, {one: after.get(one) for one in differing}
        )

    def undo(self, number: int) -> None:
        """Undo something: it must work where its files are as it left them, and nowhere else."""
        if not self._done:
            return
        name = sorted(self._done)[number % len(self._done)]
        landed = self._done[name]
        before = self.files()
        new = f"u{self._fresh()}"
        result = landing.undo(self._root, name, new)
        after = self.files()
        later = {one for one, held in landed.after.items() if before.get(one) != held}
        if result.state == "conflict":
            assert after == before
            assert later, "nothing later would have been lost"
            assert set(result.conflicts) & later
        else:
            assert not later, "a later change was lost"
            assert {one: after.get(one) for one in landed.before} == landed.before
            assert {k: v for k, v in after.items() if k not in landed.before} == {
                k: v for k, v in before.items() if k not in landed.before
            }
            del self._done[name]
            self._remember(new, before, after, set(landed.before))
        self.outcomes.append(result.state)


def _read(root: object) -> Files:
    from pathlib import Path

    top = Path(str(root))
    return {name: (top / name).read_text() for name in FILES if (top / name).is_file()}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(ACTIONS)
def test_no_update_is_lost(actions: list[tuple[str, int, str | tuple[str, str]]]) -> None:
    with ExitStack() as stack:
        workspace = Workspace(stack)
        for action, who, what in actions:
            match action:
                case "land":
                    workspace.land(who)
                case "edit":
                    assert isinstance(what, str)
                    workspace.edit(what)
                case "undo":
                    workspace.undo(who)
                case _:
                    workspace.act(who, action, what)


def test_the_model_meets_every_outcome() -> None:
    """The control: landings, conflicts, undos and refusals are all met."""
    with ExitStack() as stack:
        workspace = Workspace(stack)
        workspace.act(0, "write", "a")
        workspace.act(1, "write", "a")
        workspace.act(1, "write", "b")
        workspace.land(0)
        workspace.land(1)  # somebody else has changed `a`
        workspace.act(1, "write", "b")
        workspace.land(1)
        workspace.edit("a")
        workspace.undo(0)  # a person has changed `a`
        workspace.undo(1)
        assert workspace.outcomes == ["landed", "conflict", "landed", "conflict", "undone"]
