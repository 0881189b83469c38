# SPDX-License-Identifier: Apache-2.0
"""What one supervisor is made of: built once, in one place, and handed to every step of a call.

What runs and waits is no part of it: see `live`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from policy.autonomy.levels import Levels
from policy.gate1.decide import Policy
from policy.model import ActionPlan, Workspace
from policy.values.strict_yaml import PolicyError
from sandbox.agents.reputation import Reputations
from sandbox.approvals.desk import Desk
from sandbox.approvals.notices import Notices
from sandbox.approvals.objections import Objections
from sandbox.approvals.store.grants import Grants
from sandbox.audit.events.calls import AskedRecord
from sandbox.audit.events.protected import TamperedRecord
from sandbox.calls.flow.learning import Learning
from sandbox.calls.ids import CallNames
from sandbox.calls.recorder import Recorder
from sandbox.calls.recovery import Recovery
from sandbox.cells.outlet import Outlets
from sandbox.cells.turns import Turns
from sandbox.cells.work import WorkList
from sandbox.config.settings import Dirs, Settings, load_settings
from sandbox.gates.gate1 import Gate1
from sandbox.gates.host_made import HostMade
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.login import login
from sandbox.network.login.host_secrets import SecretReader
from sandbox.questions.contexts import Contexts
from sandbox.reporting.delivery import People
from sandbox.reporting.tracing import tracing_of
from sandbox.reporting.yellow_reports import Reports
from sandbox.stopping.stop import Latch
from sandbox.workspaces.cached import KnownWorkspaces
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.replaced_ledger import ReplacedLedger


class Parts:
    """The parts of one supervisor. Starts nothing and reaches for no engine."""

    def __init__(
        self,
        dirs: Dirs | None,
        *,
        policy: Policy | None,
        workspaces: Sequence[Workspace] | None,
        settings: Settings | None,
    ) -> None:
        self.dirs = (dirs or Dirs.default()).create()
        self.settings = settings or load_settings(self.dirs)
        self.policies = Policies(self.dirs, base=policy)
        self.known = KnownWorkspaces(self.dirs, workspaces)
        self.latch = Latch(self.dirs)
        self.objections = Objections(self.latch.check)
        self.tracing = tracing_of(self.settings.telemetry)
        self.record = Recorder(self.dirs, self.tracing.take if self.tracing else None)
        self.off_loop = self.record.off_loop
        self.names = CallNames(self.record.store)
        self.ledger = Ledger.of(self.dirs)
        self.replaced = ReplacedLedger(self.dirs.state / "replaced")
        self.recovery = Recovery(self.record, self.policies.paths)
        self.opinion = SecondOpinion()
        self.files = ProjectFiles(self.record.store.made, self.ledger)
        self.gate = Gate1(self.policies, self.opinion, self.files, off_loop=self.off_loop)
        reputations = Reputations(self.dirs)
        self.contexts = Contexts(
            self.dirs, self.policies, known=self.known, reputations=reputations
        )
        self.learning = Learning(reputations, self.policies, self.record)
        self.notices = Notices(self.dirs, self.settings.notices)
        self.people = People(Reports(self.dirs), self.record, self.settings)
        self.grants = Grants(self.dirs)
        self.desk = Desk(
            self.grants,
            seconds=self.settings.approval_seconds,
            notify=self._notify,
            off_loop=self.off_loop,
        )
        self.turns = Turns()
        self.works = WorkList()
        """Calls that have a cell or wait for one, and what is being done to such as have ended."""
        self.outlets = Outlets(
            self.settings.network,
            self.record.network,
            SecretReader(lambda: [workspace.path for workspace in self.known.all()]),
        )
        self.host_made = HostMade(self.files, self.turns.count)

    def check_workspaces(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the workspaces at these paths, each once. Raises BadInput where one is none."""
        wanted = tuple(dict.fromkeys(paths))
        for path in wanted:
            self.known.check(path)
        return wanted

    def workspaces_of(self, plan: ActionPlan) -> tuple[str, ...]:
        """Return the workspaces of a plan, its own first. Raises BadInput where one is none."""
        return self.check_workspaces((plan.workspace, *plan.also))

    def tell_tampered(self, record: TamperedRecord) -> None:
        """Tell this host's user that a file was changed around Lockgate, be it the policy file
        itself, which nobody can read any more. Raises SandboxError."""
        try:
            levels = self.policies.of((record.workspace,)).policy.autonomy.levels
        except PolicyError:
            levels = Levels.default()
            with suppress(PolicyError):
                levels = self.policies.base().autonomy.levels
        self.people.tell(record, login(), levels)

    async def _notify(self, question: AskedRecord, plan: ActionPlan) -> None:
        """Tell people at once, and over their channels, that a question waits."""
        self.notices.begin(plan.agent, plan.workspace)
        levels = self.policies.of(self.workspaces_of(plan)).policy.autonomy.levels
        await self.people.asked(question, plan.user, levels)
