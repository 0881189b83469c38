# SPDX-License-Identifier: Apache-2.0
"""Puts a question to gate 1 as a supervisor would, without one. Runs nothing."""

from __future__ import annotations

from types import TracebackType

from policy.model import ActionPlan, Context
from sandbox.audit.store import Store
from sandbox.config.settings import load_settings
from sandbox.gates.gate1 import Gate1, Gate1Answer, within
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.dirs import Dirs
from sandbox.questions.contexts import Contexts
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.project_files import ProjectFiles


class OfflineGate:
    """Gate 1 of this process, for one state folder; use as `with`."""

    def __init__(self, dirs: Dirs, *, files: bool = True) -> None:
        """Without `files` no script that a call runs is looked at, and nobody's files are known."""
        self._policies = Policies(dirs)
        self._contexts = Contexts(dirs, self._policies)
        self._opinion = SecondOpinion()
        seen = ProjectFiles(Store(dirs).made, Ledger.of(dirs)) if files else None
        self._gate = Gate1(self._policies, self._opinion, seen)
        self._limits = load_settings(dirs).limits

    def __enter__(self) -> OfflineGate:
        self._opinion.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opinion.__exit__(kind, error, trace)

    def answer(self, plan: ActionPlan) -> tuple[Gate1Answer, Context]:
        """Return the answer to a plan as it would be for a call now, and its context."""
        context = self._contexts.of(plan)
        places = tuple(dict.fromkeys((plan.workspace, *plan.also)))
        return within(self._gate.decide_now(plan, context, places), self._limits), context


def decide_offline(dirs: Dirs, plan: ActionPlan) -> tuple[Gate1Answer, Context]:
    """Return gate 1's answer to one plan, and its context."""
    with OfflineGate(dirs) as gate:
        return gate.answer(plan)
