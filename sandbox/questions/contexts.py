# SPDX-License-Identifier: Apache-2.0
"""Gathers what gate 1 knows of this host beside a plan: no other module below `sandbox` does."""

from __future__ import annotations

from collections.abc import Iterable

from policy.model import ActionPlan, Context, Workspace
from policy.sources.precedence import Effective
from policy.values.strict_yaml import PolicyError
from sandbox.agents.reputation import Earned, Reputations
from sandbox.gates.gate1 import PolicySource
from sandbox.host.dirs import Dirs
from sandbox.workspaces.cached import KnownWorkspaces


class Contexts:
    """Gives the context of each plan, for one state folder."""

    def __init__(
        self,
        dirs: Dirs,
        policies: PolicySource,
        *,
        known: KnownWorkspaces | None = None,
        reputations: Reputations | None = None,
    ) -> None:
        """Performs no I/O."""
        self._own = dirs.folders
        self._policies = policies
        self._known = known or KnownWorkspaces(dirs, None)
        self._reputations = reputations or Reputations(dirs)

    def of(self, plan: ActionPlan, effective: Effective | None = None) -> Context:
        """Return what is known beside a plan; a folder that is no workspace (yet, or any more)
        counts as one for its own call. `effective` is its policy where that was just looked up."""
        known = self._known.all()
        places = tuple(dict.fromkeys((plan.workspace, *plan.also)))
        paths = {workspace.path for workspace in known}
        others = (Workspace(path) for path in places if path not in paths)
        return Context(
            (*known, *others),
            home=self._known.home,
            own=self._own,
            trust=self.earned(plan.agent, places)
            if effective is None
            else self._reputations.earned(plan.agent, effective.policy.autonomy.trust),
        )

    def earned(self, agent: str, workspaces: tuple[str, ...]) -> Earned:
        """Return domain and level where an agent has earned or lost something; nothing while a
        policy file is wrong, which denies every call."""
        try:
            trust = self._policies.of(workspaces).policy.autonomy.trust
        except PolicyError:
            return ()
        return self._reputations.earned(agent, trust)

    def of_agent(self, agent: str, workspaces: tuple[str, ...]) -> Context:
        """Return what is known of an agent alone, whatever it does."""
        return Context((), trust=self.earned(agent, workspaces))


def of_nothing(places: Iterable[str], home: str) -> Context:
    """Return the context on a host of which nothing else is known."""
    return Context(tuple(Workspace(path) for path in places), home=home)
