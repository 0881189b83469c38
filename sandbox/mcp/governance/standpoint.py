# SPDX-License-Identifier: Apache-2.0
"""Where an agent stands: its policy, its trust, and what gate 1 would say of a call of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy.autonomy.reputation import Domain, TrustLevel
from policy.autonomy.trust import TrustFile
from policy.gate1.decide import Policy
from policy.model import ActionPlan, Context
from policy.tools.dialects import Use
from policy.values.strict_yaml import PolicyError
from sandbox.agents.peer import Caller
from sandbox.agents.reputation import Reputations
from sandbox.approvals.store.grants import Grants
from sandbox.audit.made_files import MadeFiles
from sandbox.audit.store import Store
from sandbox.config.settings import Dirs, Settings, load_settings
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1, Gate1Answer, within
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.questions.contexts import Contexts
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.workspaces.cached import KnownWorkspaces
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import Registry

_MOST_ACTION = 4000


@dataclass(frozen=True, slots=True)
class Who:
    """The agent that asks, and where it stands."""

    agent: str = "main"
    role: str | None = None
    user: str = "default"
    workspace: str | None = None


class Standpoint:
    """What the tools of one state folder look things up in."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self.dirs = dirs.create()
        self.policies = Policies(dirs)
        self.registry = Registry(dirs)
        self.known = KnownWorkspaces(dirs, None)
        self.standing = Whereabouts.said(Registry(dirs))
        self.kept = Reputations(dirs)
        self.contexts = Contexts(dirs, self.policies, known=self.known, reputations=self.kept)
        self.grants = Grants(dirs)
        self.store = Store(dirs)
        self.files = ProjectFiles(MadeFiles(self.store.segments).read, Ledger.of(dirs))
        self.gate = Gate1(self.policies, SecondOpinion(), self.files)

    def _root(self, who: Who) -> str:
        return who.workspace or next((workspace.path for workspace in self.known.all()), "/")

    def plan_call(
        self, who: Who, call: Use | Mapping[str, Any], *, cwd: str | None = None, intent: str = ""
    ) -> ActionPlan:
        """Return the plan of a call as it would be made; `who` is the agent that it counts as."""
        root = self._root(who)
        said = {
            "intent": intent,
            "agent": who.agent,
            "role": who.role,
            "user": who.user,
            "workspace": root,
            "cwd": cwd or root,
        }
        if isinstance(call, Use):
            return plan_of(said, Caller(None), self.standing, use=call)
        return plan_of({**said, **call}, Caller(None), self.standing)

    async def decide(
        self, plan: ActionPlan, settings: Settings | None = None
    ) -> tuple[Gate1Answer, Context]:
        """Return gate 1's answer, and the context in which it was given."""
        context = self.contexts.of(plan)
        self.files.renew()
        places = tuple(dict.fromkeys((plan.workspace, *plan.also)))
        answer = await self.gate.decide(plan, context, places)
        return within(answer, (settings or load_settings(self.dirs)).limits), context

    def policy_of(self, who: Who) -> Policy:
        """Return the policy that counts for an agent. Raises BadInput where there is none."""
        workspaces = (who.workspace,) if who.workspace else ()
        try:
            return self.policies.of(workspaces).policy
        except PolicyError as error:
            raise BadInput(str(error)) from None

    def trust_of(self, who: Who) -> TrustFile:
        """Return what its policy says of trust."""
        return self.policy_of(who).autonomy.trust

    def level_of(self, who: Who, domain: Domain) -> TrustLevel:
        """Return how far an agent is trusted in a domain."""
        workspaces = (who.workspace,) if who.workspace else ()
        context = self.contexts.of_agent(who.agent, workspaces)
        return self.policy_of(who).autonomy.trusted(who.agent, domain, context)


def first_error(error: Exception) -> str:
    """Return what is wrong, the first of it."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        first = errors()[0]
        return f"`{'.'.join(str(part) for part in first['loc'])}`: {first['msg'].lower()}"
    return str(error)


def short_action(action: str) -> str:
    """Return an action's name. Raises BadInput for one that is no name any more."""
    if len(action) > _MOST_ACTION:
        raise BadInput(f"`action` is {len(action)} characters long; at most {_MOST_ACTION}")
    return action
