# SPDX-License-Identifier: Apache-2.0
"""What lands after an approval is what was shown, whatever two agents and a person do meanwhile.

Calls over real overlay mounts are held, their changes listed and their contents digested, as a
person is shown them. In any order others land, and a person edits and moves folders, also in the
instant between the last comparison and the landing. Then the held call lands exactly what was
shown, and nothing else changes, or nothing lands.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.cell import fs
from sandbox.cell.landing import land as landing
from sandbox.cell.overlay import sides as pieces
from sandbox.cell.overlay.steps import Walk
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

FOLDERS = ("x", "y", "x/d", "y/d", "hooks", "z")
FILES = (*(f"{folder}/f" for folder in FOLDERS), "x/g", "y/d/g")
_ACT = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(FOLDERS), st.sampled_from(FOLDERS)),
    st.tuples(st.just("write"), st.sampled_from(FILES), st.none()),
    st.tuples(st.just("delete"), st.sampled_from(FILES), st.none()),
)
_ACTS = st.lists(_ACT, min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from([0, 1]), _ACTS),
        st.tuples(st.just("hold"), st.sampled_from([0, 1]), st.none()),
        st.tuples(st.just("person"), st.none(), _ACTS),
        st.tuples(st.sampled_from(["approve", "force"]), st.integers(0, 3), _ACTS | st.none()),
    ),
    min_size=3,
    max_size=12,
)
Act = tuple[str, str, str | None]
Facts = dict[tuple[object, ...], str | None]


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


@dataclass
class _HeldLayer:
    overlay: Overlay
    shown: Facts


class World:
    """One workspace, calls over it, and what is held."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        prepare = "mkdir -p x/d y/d; " + "; ".join(f"echo {one} > {one}" for one in FILES[:4])
        self._base = stack.enter_context(Overlay(prepare=prepare + "; echo g > y/d/g"))
        self._root = str(self._base.lower)
        self._calls: dict[int, Overlay] = {}
        self._held: list[_HeldLayer] = []
        self._count = 0
        self.outcomes: list[str] = []

    def act(self, top: Path, acts: list[Act]) -> None:
        """Do something in a view, or in the real workspace."""
        for what, path, target in acts:
            self._count += 1
            with contextlib.suppress(OSError):
                if what == "move":
                    (top / path).rename(top / str(target))
                elif what == "write":
                    (top / path).parent.mkdir(exist_ok=True)
                    (top / path).write_text("n" * self._count)
                else:
                    (top / path).unlink()

    def call(self, agent: int, acts: list[Act]) -> None:
        """Have an agent's call do something."""
        if agent not in self._calls:
            overlay = Overlay()
            overlay.lower = self._base.lower
            self._stack.callback(overlay.close)
            overlay.open()
            self._calls[agent] = overlay
        self.act(self._calls[agent].merged, acts)

    def person(self, acts: list[Act]) -> None:
        """Have a person do something."""
        self.act(self._base.lower, acts)

    def hold(self, agent: int) -> None:
        """End a call, and show what it changes."""
        overlay = self._calls.pop(agent, None)
        if overlay is not None:
            walked = overlay.walk()
            self._held.append(_HeldLayer(overlay, self._facts(walked)))

    def land(self, number: int, meanwhile: list[Act] | None, *, force: bool) -> None:
        """Land what is held, as a person said; `meanwhile` comes after the last comparison."""
        if not self._held:
            return
        held = self._held[number % len(self._held)]
        turn = landing.turn(self._root)
        walked = held.overlay.walk()
        if self._facts(walked) != held.shown:
            self.outcomes.append("refused")
            return
        if meanwhile:
            self.person(meanwhile)
        before = self._files()
        self._count += 1
        name = f"c{self._count}"
        result = landing.land(self._root, "", walked, name, force=force, at=turn)
        after = self._files()
        self.outcomes.append(result.state)
        if result.state != "landed":
            assert after == before
            return
        self._held.remove(held)
        gone = {key[4] for key in held.shown if key[1] == "renamed"}
        gone |= {key[0] for key in held.shown if key[1] == "deleted"}
        put = {key[0]: digest for key, digest in held.shown.items() if digest is not None}
        assert {path: after.get(str(path)) for path in put} == put
        rest = before.keys() - gone - put.keys()
        assert {path: after.get(path) for path in rest} == {path: before[path] for path in rest}
        assert after.keys() <= rest | put.keys()

    def _facts(self, walked: Walk) -> Facts:
        top = fs.open_directory(self._root)
        try:
            named = [one["path"] for one in walked.changes]
            digests = pieces.digests(pieces.of_walk(walked, top), named)
        finally:
            os.close(top)
        return {
            (one["path"], one["kind"], one["type"], one["mode"], one.get("source")): (
                None if one["kind"] == "deleted" else digests.get(one["path"])
            )
            for one in walked.changes
            if "mode" in one
        }

    def _files(self) -> dict[str, str | None]:
        found = {}
        for path in self._base.lower.rglob("*"):
            name = str(path.relative_to(self._base.lower))
            if path.is_file() and not name.startswith(".lockgate"):
                side = pieces.Side(path.lstat(), None, str(path))
                found[name] = pieces.sha256(side)
        return found


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_what_lands_is_what_was_shown(steps: list[tuple[str, int, list[Act]]]) -> None:
    with ExitStack() as stack:
        world = World(stack)
        for step, who, acts in steps:
            match step:
                case "call":
                    world.call(who, acts)
                case "hold":
                    world.hold(who)
                case "person":
                    world.person(acts)
                case _:
                    world.land(who, acts, force=step == "force")


MOVE: Act = ("move", "x/d", "hooks")
CASES: dict[str, tuple[list[Act], list[Act], bool, str]] = {
    "nothing came in between": ([], [], False, "landed"),
    "another folder in its place": (
        [("move", "x/d", "z"), ("move", "y/d", "x/d")], [], True, "refused"
    ),
    "a folder above it": ([("move", "x", "z"), ("move", "y", "x")], [], True, "refused"),
    "a file in it": ([("write", "x/d/f", None)], [], True, "refused"),
    "another folder in the last instant": (
        [], [("move", "x/d", "z"), ("move", "y/d", "x/d")], True, "conflict"
    ),
    "a file in the last instant": ([], [("write", "x/d/f", None)], True, "conflict"),
    "a file that goes in the last instant": ([], [("delete", "x/d/f", None)], True, "conflict"),
    "something elsewhere": ([("write", "y/f", None)], [("write", "y/f", None)], False, "landed"),
}  # fmt: skip


@pytest.mark.parametrize("before, between, force, outcome", CASES.values(), ids=CASES)
def test_a_folder_that_moves(
    before: list[Act], between: list[Act], force: bool, outcome: str
) -> None:
    with ExitStack() as stack:
        world = World(stack)
        world.call(0, [MOVE])
        world.hold(0)
        world.person(before)
        world.land(0, between, force=force)
        assert world.outcomes == [outcome]


def test_the_world_meets_every_outcome() -> None:
    """The control: landings, refusals, and what others' landings make of a judgement."""
    with ExitStack() as stack:
        world = World(stack)
        world.call(0, [MOVE])
        world.call(1, [("write", "x/d/f", None)])
        world.hold(1)
        world.hold(0)
        world.land(0, None, force=False)
        world.land(0, None, force=True)
        assert world.outcomes == ["landed", "refused"]
