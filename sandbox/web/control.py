# SPDX-License-Identifier: Apache-2.0
"""Resources about what runs and under which policy: agents, stop and resume, workspaces, events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from policy.autonomy.reputation import Domain
from policy.model import Frozen
from policy.values.strict_yaml import PolicyError
from sandbox.agents.reputation import Reputations
from sandbox.agents.view import Node, tree
from sandbox.client.blocking import running_now
from sandbox.errors import BadInput, SandboxError
from sandbox.gates.policy_files import Policies
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.policy_tools.view import view
from sandbox.results import StopReport
from sandbox.stopping.stop import Stop
from sandbox.web.problems import HttpRefusal
from sandbox.web.resources import Visit
from sandbox.web.taken import EventsQuery, ResumeBody, StopBody
from sandbox.workspaces.registry import Registry


class RunningNow(Frozen):
    """What runs now."""

    agents: tuple[dict[str, Any], ...]
    """A tree: kind, name, pid, state, cpu, memory, age, command, children; of an agent also `path`,
    its `trust` by domain, and what it used of its `budgets`."""
    running: tuple[dict[str, Any], ...]
    """Calls that go on."""
    guard: dict[str, Any] | None = None
    stopped: tuple[str, ...] = ()
    """The stops that are in force, in words."""


class StopView(Frozen):
    """A stop or a pause that is in force."""

    agent: str | None
    """Whom it holds; None: everything."""
    reason: str
    at: str
    until: float | None
    """When a pause ends by itself."""


class WorkspaceView(Frozen):
    """A registered workspace and how it stands."""

    path: str
    state: str
    reason: str = ""


class Resumed(Frozen):
    """Whether a stop was in force that is over now."""

    resumed: bool


async def show_agents(visit: Visit) -> RunningNow:
    """Show the agents, their children, cells and calls that go on, as a tree."""

    def work() -> RunningNow:
        now = running_now(visit.dirs)
        agents = tree(visit.dirs, now["running"], now["cells"], now.get("follow_ups", ()))
        _add_standing(visit.dirs, agents, now.get("budgets") or {})
        return RunningNow(
            agents=tuple(agents),
            running=tuple(now["running"]),
            guard=now.get("guard"),
            stopped=tuple(item.message() for item in Latch(visit.dirs).in_force()),
        )

    return await asyncio.to_thread(work)


def _add_standing(dirs: Dirs, nodes: list[Node], budgets: Mapping[str, Any]) -> None:
    """Add to the agents of a tree how far they are trusted, and what they used of their budgets."""
    try:
        trust = Policies(dirs).of(()).policy.autonomy.trust
    except PolicyError:  # no call is decided by it either, so none of them may anything
        return
    kept = Reputations(dirs.create())
    left = list(nodes)
    while left:
        node = left.pop()
        left += node["children"]
        if node["kind"] != "agent":
            continue
        path = str(node["path"])
        earned = dict(kept.earned(path, trust))
        node["trust"] = {domain.value: trust.level(path, domain, earned).value for domain in Domain}
        node["budgets"] = list(budgets.get(path, ()))


async def list_stops(visit: Visit) -> tuple[StopView, ...]:
    """List the stops and pauses that are in force."""
    found = await asyncio.to_thread(Latch(visit.dirs).in_force)
    return tuple(
        StopView(agent=item.agent, reason=item.reason, at=item.at, until=item.until)
        for item in found
    )


async def stop(visit: Visit) -> StopReport:
    """Stop everything, or one agent and all below it; only a person lets it run again."""
    body: StopBody = visit.body

    def work() -> StopReport:
        if body.agent is None:
            with contextlib.suppress(SandboxError):  # before anything that may take time
                Latch(visit.dirs).set(body.reason)
        return Stop(visit.dirs, body.reason, agent=body.agent, last=True).run()

    return await asyncio.to_thread(work)


async def resume(visit: Visit) -> Resumed:
    """Let calls run again after a stop."""
    body: ResumeBody = visit.body

    def work() -> Resumed:
        latch = Latch(visit.dirs)
        there = latch.read(body.agent) is not None
        if there:
            latch.clear(body.agent)
        return Resumed(resumed=there)

    return await asyncio.to_thread(work)


async def list_workspaces(visit: Visit) -> tuple[WorkspaceView, ...]:
    """List the registered workspaces and how they stand."""
    found = await asyncio.to_thread(Registry(visit.dirs).status)
    return tuple(WorkspaceView(**{**asdict(item), "state": item.state.value}) for item in found)


async def show_policy(visit: Visit) -> dict[str, Any]:
    """Show the policy files that count for a workspace, and each rule with its file and line."""

    def work() -> dict[str, Any]:
        known = Policies(visit.dirs)
        place = Registry(visit.dirs).check(visit.query.workspace).path
        try:
            effective = known.of((place,))
        except PolicyError as error:
            raise BadInput(str(error)) from None
        return view(effective, known.files((place,)), known.parts())

    return await asyncio.to_thread(work)


async def follow_events(visit: Visit) -> AsyncIterator[dict[str, Any]]:
    """Tell what is added to the record, as it is added (server-sent events)."""
    asked: EventsQuery = visit.query
    after = asked.after
    if (said := visit.headers.get("last-event-id")) is not None:
        if not said.isascii() or not said.isdigit() or len(said) > 16:
            raise HttpRefusal(
                400, "BadInput", "`Last-Event-ID` is no number of a record",
                "give the id of the last event, or none",
            )  # fmt: skip
        after = int(said)
    return visit.site.feed.listen(after)
