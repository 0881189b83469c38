# SPDX-License-Identifier: Apache-2.0
"""Replay the decisions of the audit log under another policy, and say what would differ.

Nothing runs. A decision is made anew from what the log holds of its call, with the workspaces and
the trust of today. What already differs under today's policy is told apart from what the other
policy changes. A command whose secrets were masked is read as it stands in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from policy.model import ActionPlan, Decision, Verdict
from policy.sources.precedence import Layer
from policy.values.strict_yaml import PolicyError
from sandbox.audit.events.calls import DecidedRecord
from sandbox.config.settings import load_settings
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1, within
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.dirs import Dirs
from sandbox.questions.contexts import Contexts
from sandbox.questions.plans import read_plan
from sandbox.text.redaction import MASK

_CUT = "[cut, "
_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Differs:
    """A call that the other policy answers differently, with all calls that are the same."""

    call: str
    """The id of the newest of them."""
    times: int
    agent: str
    tool: str
    action: str
    before: str
    """The verdict that the log holds."""
    today: str
    """The verdict that today's policy gives."""
    after: str
    rule: str
    """The rule that decides afterwards; before, where nothing decides any more."""
    masked: bool
    """Whether the log holds less than the call had: a secret was masked, or a text cut."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What another policy would have said."""

    decisions: int
    """How many decisions were replayed."""
    unreadable: int
    """How many could not be."""
    changes: dict[str, int]
    """`ask -> allow`: how many calls."""
    stricter: int
    milder: int
    differs: tuple[Differs, ...]
    drifted: int
    """Calls on which the policy makes no difference, but which get another verdict today than the
    one in the log: by the files, the trust or the workspaces of today."""

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {**asdict(self), "differs": [asdict(difference) for difference in self.differs]}


class Instead(Policies):
    """The policy files of a user with another file in the place of one of them."""

    def __init__(self, dirs: Dirs, layer: Layer, file: Path) -> None:
        """Read nothing yet. A workspace's file counts as trusted only where it is."""
        super().__init__(dirs)
        self._layer = layer
        self._file = file

    def files(self, workspaces: tuple[str, ...]) -> tuple[tuple[Layer, Path], ...]:
        """Return the policy files that count where they exist."""
        others = [file for file in super().files(workspaces) if file[0] is not self._layer]
        order = list(Layer)
        found = [*others, (self._layer, self._file)]
        return tuple(sorted(found, key=lambda one: order.index(one[0])))


class Judge:
    """Decides about calls of the log as a supervisor would today."""

    def __init__(self, dirs: Dirs, policies: Policies, opinion: SecondOpinion) -> None:
        """Reach for nothing yet."""
        self._gate = Gate1(policies, opinion)
        self._policies = policies
        self._contexts = Contexts(dirs, policies)
        self._limits = load_settings(dirs).limits

    def decide(self, plan: ActionPlan) -> Decision:
        """Return gate 1's answer. Raises BadInput for a policy file that is wrong."""
        places = (plan.workspace, *plan.also)
        try:
            self._policies.of(places)
        except PolicyError as error:
            raise BadInput(str(error)) from None
        answer = self._gate.decide_now(plan, self._contexts.of(plan), places)
        return within(answer, self._limits).decision


def plan_of(record: DecidedRecord) -> ActionPlan:
    """Return the plan that a decision was about. Raises ValueError where the record holds none."""
    fields = ("tool", "agent", "role", "user", "intent", "workspace", "also", "cwd")
    try:
        said = {name: one for name in fields if (one := getattr(record, name)) is not None}
        return read_plan({**said, "params": record.params or {}})
    except (ValidationError, TypeError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0]) from None


def is_masked(plan: ActionPlan) -> bool:
    """Whether the log holds less of a call than there was."""
    text = plan.params.model_dump_json(by_alias=True, exclude_defaults=True)
    return MASK in text or _CUT in text


def simulate(records: Iterable[DecidedRecord], today: Judge, other: Judge) -> Simulation:
    """Return what another policy would have said of decisions, given the newest first."""
    decisions = unreadable = 0
    drifted = 0
    changes: Counter[str] = Counter()
    ways: Counter[bool] = Counter()
    said: dict[str, tuple[Decision, Decision]] = {}
    found: dict[tuple[str, str], Differs] = {}
    for record in records:
        decisions += 1
        try:
            plan, before = plan_of(record), Verdict(record.verdict)
        except ValueError:
            unreadable += 1
            continue
        digest = plan.digest()
        if digest not in said:
            said[digest] = today.decide(plan), other.decide(plan)
        now, after = said[digest]
        if now.verdict is after.verdict:
            drifted += before is not now.verdict
            continue
        if before is after.verdict:  # the policy of then said what this one says
            continue
        changes[f"{before.value} -> {after.verdict.value}"] += 1
        ways[_ORDER.index(after.verdict) > _ORDER.index(before)] += 1
        key = digest, before.value
        if key in found:
            found[key] = replace(found[key], times=found[key].times + 1)
        else:
            found[key] = _differs(record, plan, before, now, after)
    return Simulation(
        decisions=decisions,
        unreadable=unreadable,
        changes=dict(sorted(changes.items())),
        stricter=ways[True],
        milder=ways[False],
        differs=tuple(found.values()),
        drifted=drifted,
    )


def _differs(
    record: DecidedRecord, plan: ActionPlan, before: Verdict, now: Decision, after: Decision
) -> Differs:
    rules = [rule for rule in after.rules if rule not in now.rules]
    gone = [rule for rule in now.rules if rule not in after.rules]
    params = plan.params
    return Differs(
        call=record.call,
        times=1,
        agent=plan.agent,
        tool=plan.tool,
        action=params.command or params.file_path or params.path or "",
        before=before.value,
        today=now.verdict.value,
        after=after.verdict.value,
        rule=next(iter([*rules, *gone, *after.rules]), ""),
        masked=is_masked(plan),
    )
