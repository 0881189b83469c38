# SPDX-License-Identifier: Apache-2.0
"""The governance tools of orchestration.md, for every front door: inputs and answers as there.

They tell, and note what an agent says of itself; none of them lets anything run. INVARIANT (P8):
`request_approval` puts a question and grants nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy.autonomy.actions import ActionContext
from policy.autonomy.reputation import Domain, TrustLevel, autonomy_status
from policy.autonomy.trust import TrustFile, can_execute, check_permission, classify_action
from policy.gate1.decide import Policy
from policy.model import ActionPlan, Context, Params, Verdict
from policy.people.approval import wanted
from policy.people.reports import GATES, GateQuery
from policy.tools import described
from policy.tools.dialects import Use
from policy.values.strict_yaml import PolicyError
from sandbox.agents.peer import Caller
from sandbox.agents.reputation import ReputationEvent, Reputations, ReputationSource
from sandbox.approvals.desk import MOST_OPEN, TOO_MANY, said_of
from sandbox.approvals.store import Grants, Request
from sandbox.audit.events.calls import AskedRecord
from sandbox.audit.events.people import UndeliveredRecord, WorkspaceRecord
from sandbox.audit.made_files import MadeFiles
from sandbox.audit.query import Query, instant, verdicts
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.config.channels import Channel
from sandbox.config.settings import Dirs, Settings, load_settings
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1, Gate1Answer, within
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.questions.contexts import Contexts
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.reporting.channels import deliver
from sandbox.reporting.delivery import masked_question
from sandbox.text.redaction import mask
from sandbox.workspaces.cached import KnownWorkspaces
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import NeedsApproval, Registry

_MOST_QUERY = 1000
_MOST_ACTION = 4000
_NO_CONTEXT = ActionContext()
_POLL_SECONDS = 0.3
_PROSE = frozenset(("unknown-program", "opaque"))
"""Rules of what cannot be known in a text: words about an action are asked about by these."""


@dataclass(frozen=True, slots=True)
class Who:
    """The agent that asks, and where it stands."""

    agent: str = "main"
    role: str | None = None
    user: str = "default"
    workspace: str | None = None


class Governance:
    """Answers for the agents of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._dirs = dirs.create()
        self._policies = Policies(dirs)
        self._registry = Registry(dirs)
        self._known = KnownWorkspaces(dirs, None)
        self._standing = Whereabouts.said(Registry(dirs))
        self._kept = Reputations(dirs)
        self._contexts = Contexts(dirs, self._policies, known=self._known, reputations=self._kept)
        self._grants = Grants(dirs)
        self._store = Store(dirs)
        self._files = ProjectFiles(MadeFiles(self._store.segments).read, Ledger.of(dirs))
        self._gate = Gate1(self._policies, SecondOpinion(), self._files)

    # -- permissions

    async def check_permission(
        self, who: Who, action: str, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return whether an action is allowed at the agent's level ("Permission Checking").

        Where the context holds a `command`, or the action itself is one, gate 1 must allow that as
        well. Words about an action may look like programs that nobody knows: that alone is no no.
        """
        trust = self._trust(who)
        domain = classify_action(_short(action), context, trust).domain
        level = self._level(who, domain)
        permission = check_permission(action, context, level, policy=trust)
        if permission.allowed and (red := self._red(who, _short(action))):
            permission = permission.model_copy(update={"allowed": False, "reason": red})
        if permission.allowed:
            verdict, reason, _ = await self._foretold(who, described.said, action, context or {})
            if verdict not in (Verdict.ASK, Verdict.DENY) and len(action.split()) > 1:
                verdict, reason, rules = await self._foretold(who, described.hinted, "Bash", action)
                prose = verdict is Verdict.ASK and _PROSE.issuperset(rules)
                verdict = Verdict.ALLOW if prose else verdict
            if verdict in (Verdict.ASK, Verdict.DENY):
                permission = permission.model_copy(update={"allowed": False, "reason": reason})
        return permission.model_dump(mode="json")

    async def can_execute(self, who: Who, tool_name: str, args_hint: str = "") -> dict[str, Any]:
        """Return what a tool call needs before it may run ("Quick Pre-Check").

        Where the hint is what a tool is called with (a command, a path), gate 1 is asked as well.
        """
        trust = self._trust(who)
        level = self._level(who, trust.classify(tool_name, _NO_CONTEXT, args_hint).domain)
        executable = can_execute(tool_name, args_hint, level, policy=trust)
        verdict, reason, _ = await self._foretold(who, described.hinted, tool_name, args_hint)
        if verdict is None and not self._policy(who).tools.kinds(tool_name):
            verdict, reason = await self._named(who, tool_name)
        if verdict is Verdict.DENY or (verdict is Verdict.ASK and executable.can_execute):
            needed = "none" if verdict is Verdict.DENY else "approve"
            said = {"can_execute": False, "action_needed": needed, "reason": reason}
            executable = executable.model_copy(update=said)
        return executable.model_dump(mode="json")

    async def _named(self, who: Who, tool_name: str) -> tuple[Verdict, str]:
        """Return what gate 1 would say of a tool of which nothing but its name is known."""
        plan = self._plan(who, {"tool": tool_name or "?", "params": {}})
        decision = (await self._decided(plan))[0].decision
        return decision.verdict, decision.message

    def _red(self, who: Who, action: str) -> str:
        """Return why an action's category asks a person (autonomy-levels.md), or nothing."""
        levels = self._policy(who).autonomy.levels
        categories = levels.categories.of_action(action)
        answer = levels.level_of_all(categories, who.user, who.agent) if categories else None
        return answer.why if answer is not None and answer.verdict is Verdict.ASK else ""

    async def _foretold(
        self, who: Who, read: Callable[..., Use | None], *said: object
    ) -> tuple[Verdict | None, str, frozenset[str]]:
        """Return what gate 1 would say of a call, why, and by which of its rules; None: it is no
        call that is known."""
        try:
            use = read(*said)
            if use is None:
                return None, "", frozenset()
            if use.internal:
                return Verdict.ALLOW, "", frozenset()
            plan = self._plan(who, use)
        except ValueError as error:
            return Verdict.DENY, _first(error), frozenset()
        decision = (await self._decided(plan))[0].decision
        strict = [layer for layer in decision.layers if layer.verdict is decision.verdict]
        rules = frozenset(answer.rule for answer in strict if answer.rule)
        return decision.verdict, decision.message, rules

    def classify_action(
        self, who: Who, action: str, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return domain, risk and required level of an action ("Classifying Actions")."""
        return classify_action(_short(action), context, self._trust(who)).model_dump(mode="json")

    # -- reputation

    def get_reputation(self, who: Who, domain: str) -> dict[str, Any]:
        """Return the agent's reputation in a domain ("Check Reputation"). Raises BadInput."""
        wanted_ = _domain(domain)
        state = self._kept.states(who.agent, self._trust(who))[wanted_]
        level = self._level(who, wanted_)
        return {"agent": who.agent, **state.model_dump(mode="json"), "current_level": level.value}

    def record_outcome(
        self, who: Who, action: str, *, success: bool, confidence: float = 1.0
    ) -> dict[str, Any]:
        """Note what an agent says of its own action ("Build Reputation")."""
        trust = self._trust(who)
        event = ReputationEvent(
            trust.domain(_short(action)),
            success=success,
            confidence=confidence,
            source=ReputationSource.AGENT,
            what=f"it says that {action} {'went well' if success else 'failed'}",
        )
        state = self._kept.record(who.agent, event, trust)
        return {
            "agent": who.agent,
            "action": action,
            "recorded": True,
            "domain": state.domain.value,
            "score": state.score,
            "current_level": self._level(who, state.domain).value,
        }

    def autonomy_status(self, who: Who) -> dict[str, Any]:
        """Return overall and per-domain reputation, open approvals, constraints."""
        now = time.time()
        active = [
            {
                "id": grant.id,
                "action_id": grant.wanted.action_id,
                "scope": grant.scope.value,
                "covers": grant.words(),
                "uses_left": grant.uses - grant.used,
                "expires_in_seconds": round(grant.until - now),
            }
            for grant in self._grants.all()
            if grant.open(now) and grant.wanted.agent == who.agent
        ]
        states = self._kept.states(who.agent, self._trust(who)).values()
        levels = {domain: self._level(who, domain) for domain in Domain}
        said = self._constraints(who, levels)
        status = autonomy_status(states, active, said, levels=levels).model_dump(mode="json")
        below = self._kept.violations_below(who.agent)
        return {**status, "violations_below": below} if below else status

    def _constraints(self, who: Who, levels: Mapping[Domain, TrustLevel]) -> list[str]:
        said = [f"{domain.value}: {level.value}" for domain, level in levels.items()]
        if who.role:
            said.append(f"role: {who.role}")
        said.append("network: none, but for what a call is given by name")
        said += [f"workspace: {workspace.path}" for workspace in self._known.all()]
        return said

    # -- the record

    def gate_audit(
        self,
        *,
        decision: str | None = None,
        tool: str | None = None,
        since: str | None = None,
        limit: int = 20,
    ) -> list[dict[str, Any]]:
        """Return decisions, the newest first ("Audit Trail"). Raises BadInput."""
        try:
            query = GateQuery.model_validate(
                {"decision": decision, "tool": tool, "since": since, "limit": limit}
            )
        except ValueError as error:
            raise BadInput(f"the query: {_first(error)}") from None
        asked = Query(
            verdicts(query.decision.value if query.decision else None),
            query.tool,
            since=instant(query.since, time.time()),
            limit=min(query.limit, _MOST_QUERY),
        )
        return [
            {
                "timestamp": record.ts,
                "decision": GATES[Verdict(record.verdict)].value,
                "tool": record.tool,
                "agent": record.agent,
                "action": record.subject,
                "rules": record.rules,
                "reason": record.message,
                "call": record.call,
            }
            for record in Audit(self._dirs).decisions(asked)
        ]

    # -- workspaces

    def workspace_status(self, who: Who) -> dict[str, Any]:
        """Return the registered workspaces and how they stand ("Workspace Constraints")."""
        statuses = self._registry.status()
        return {
            "current": who.workspace,
            "workspaces": [
                {"path": one.path, "state": one.state.value, "reason": one.reason}
                for one in statuses
            ],
        }

    def workspace_validate(self, path: str) -> dict[str, Any]:
        """Return whether a call may use a path, and why."""
        validation = self._registry.validate(path)
        return {
            "path": validation.path,
            "valid": validation.valid,
            "workspace": validation.workspace,
            "reason": validation.reason,
        }

    async def workspace_add(self, who: Who, path: str, *, seconds: float) -> dict[str, Any]:
        """Ask a person to register a folder, and register it once they said yes.

        An agent widens nothing itself, wherever the folder lies; waits at most `seconds`.
        """
        found = self._registry.check(path)
        if any(workspace.path == found.path for workspace in self._known.all()):
            return {"path": found.path, "added": True, "reason": "it is registered already"}
        request = await self._put(who, "workspace_add", {"path": found.path}, "")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            used = await asyncio.to_thread(
                self._grants.use, request.call, request.wanted, time.time()
            )
            if used is not None:
                self._register(found.path, used.by)
                return {"path": found.path, "added": True, "reason": f"approved by {used.by}"}
            state, by, reason = await asyncio.to_thread(self._grants.state, request.call)
            if state not in ("open", "approved"):
                return {"path": found.path, "added": False, "reason": reason or f"{state} {by}"}
            await asyncio.sleep(_POLL_SECONDS)
        return {"path": found.path, "added": False, **_pending(request)}

    def _register(self, path: str, by: str) -> None:
        try:
            self._registry.add(path)
        except NeedsApproval:
            self._registry.add(path, approved=True)
        self._store.append(WorkspaceRecord(path=path, by=by), durable=True)

    # -- approvals

    async def request_approval(
        self,
        who: Who,
        tool: str,
        params: Mapping[str, Any],
        reason: str,
        *,
        cwd: str | None = None,
        intent: str = "",
    ) -> dict[str, Any]:
        """Put the question about a call to people, without making it; never grants anything.

        The call is the one that is made later, to the letter: `reason` is for the person alone.
        """
        request = await self._put(who, tool, params, reason, cwd=cwd, intent=intent)
        if request.decision.verdict is not Verdict.ASK:
            said = "denied" if request.decision.verdict is Verdict.DENY else "not needed"
            return {"status": said, "reason": request.decision.message}
        return _pending(request)

    async def _put(
        self,
        who: Who,
        tool: str,
        params: Mapping[str, Any],
        reason: str,
        *,
        cwd: str | None = None,
        intent: str = "",
    ) -> Request:
        """Decide about a call and, where a person must say, leave the question for them."""
        Params.model_validate(params)  # so that what is wrong in it is named as it was given
        said = {"tool": tool, "params": dict(params)}
        plan = self._plan(who, said, cwd=cwd, intent=intent)
        settings = load_settings(self._dirs)
        answer, context = await self._decided(plan, settings)
        if answer.effective is None:
            raise BadInput(answer.decision.message)
        now = time.time()
        request = Request(
            call="q" + secrets.token_hex(5),
            wanted=wanted(plan, answer.decision, context, answer.effective.policy),
            plan=plan.model_copy(update={"intent": intent or reason}),
            decision=answer.decision,
            asked=now,
            until=now + settings.approval_seconds,
        )
        if answer.decision.verdict is Verdict.ASK:
            if await asyncio.to_thread(self._grants.waiting, who.agent, now) >= MOST_OPEN:
                raise BadInput(TOO_MANY)
            await asyncio.to_thread(self._grants.ask, request)
            levels = answer.effective.policy.autonomy.levels
            await self._told(
                request, settings.channels.get(levels.user(who.user).escalation_channel or "")
            )
        return request

    async def _told(self, request: Request, channel: Channel | None) -> None:
        """Record that a question was put, and say so over its user's channel."""
        record = masked_question(AskedRecord(**said_of(request)))
        await asyncio.to_thread(self._store.append, record, durable=True)
        problem = await deliver(channel, record.as_json()) if channel is not None else None
        if problem is not None:
            missed = UndeliveredRecord(what=record.event, because=mask(problem))
            await asyncio.to_thread(self._store.append, missed, durable=True)

    # -- parts

    def _root(self, who: Who) -> str:
        return who.workspace or next((one.path for one in self._known.all()), "/")

    def _plan(
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
            return plan_of(said, Caller(None), self._standing, use=call)
        return plan_of({**said, **call}, Caller(None), self._standing)

    async def _decided(
        self, plan: ActionPlan, settings: Settings | None = None
    ) -> tuple[Gate1Answer, Context]:
        """Return gate 1's answer, and the context in which it was given."""
        context = self._contexts.of(plan)
        self._files.renew()
        places = tuple(dict.fromkeys((plan.workspace, *plan.also)))
        answer = await self._gate.decide(plan, context, places)
        return within(answer, (settings or load_settings(self._dirs)).limits), context

    def _policy(self, who: Who) -> Policy:
        workspaces = (who.workspace,) if who.workspace else ()
        try:
            return self._policies.of(workspaces).policy
        except PolicyError as error:
            raise BadInput(str(error)) from None

    def _trust(self, who: Who) -> TrustFile:
        return self._policy(who).autonomy.trust

    def _level(self, who: Who, domain: Domain) -> TrustLevel:
        workspaces = (who.workspace,) if who.workspace else ()
        context = self._contexts.of_agent(who.agent, workspaces)
        return self._policy(who).autonomy.trusted(who.agent, domain, context)


def _pending(request: Request) -> dict[str, Any]:
    return {
        "status": "pending",
        "call": request.call,
        "action_id": request.wanted.action_id,
        "reason": f"a person answers with `lockgate approve {request.call}`; then make the call",
    }


def _short(action: str) -> str:
    """Return an action's name. Raises BadInput for one that is no name any more."""
    if len(action) > _MOST_ACTION:
        raise BadInput(f"`action` is {len(action)} characters long; at most {_MOST_ACTION}")
    return action


def _domain(name: str) -> Domain:
    try:
        return Domain(name)
    except ValueError:
        known: Sequence[str] = [domain.value for domain in Domain]
        raise BadInput(f"`{name}` is no domain; use one of {', '.join(known)}") from None


def _first(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if callable(errors):
        first = errors()[0]
        return f"`{'.'.join(str(one) for one in first['loc'])}`: {first['msg'].lower()}"
    return str(error)
