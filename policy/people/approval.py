# SPDX-License-Identifier: Apache-2.0
"""A person's approvals: what a call asks for, and whether a grant covers it. Pure.

INVARIANT (P8): a grant of scope `exact` is bound to the digest of one plan, its rights and the
policy; anything else that is different asks again. The wider scopes are chosen by a person, are
bound to the same agent, place, rights, policy, input, scripts and variables, to the commands that
were shown (`people.covered`), and never cover a question that was not shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Self

from pydantic import Field

from policy.autonomy.categories import LEVELS
from policy.autonomy.reputation import Domain
from policy.facts import Facts
from policy.gate1.decide import Policy
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    Frozen,
    Host,
    Landing,
    Rights,
    Verdict,
)
from policy.people import covered
from policy.people.reports import action_id
from policy.rules import tiers
from policy.tools import reading as tools
from policy.values.partial import shown, unknown

GRANT_SECONDS = 300.0
"""How long a grant can be used, if nobody says otherwise (orchestration.md)."""


class Scope(str, Enum):
    """How much a grant covers."""

    EXACT = "exact"
    """Exactly the plan that was shown."""
    PROGRAM = "program"
    """The same commands on the same paths: verb, targets and options, but for what only tells."""
    CATEGORY = "category"
    """The same kind of question: no rule asks that did not ask before, no category, no program, no
    option and no place elsewhere is new."""


class Wanted(Frozen):
    """What a call that is asked about wants; everything that a grant is compared with."""

    digest: str
    """SHA-256 over plan, rights, policy, variables, input and scripts, in hex."""
    action_id: str
    """The seed's short name of the action: `Bash:1a2b3c4d`. Names it for people, binds nothing."""
    agent: str
    user: str
    role: str | None
    tool: str
    workspace: str
    also: tuple[str, ...] = ()
    task: str | None = None
    """What the plan says it is derived from."""
    rights: Rights
    policy: str
    programs: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None
    """What it touches: `reads /w/a`, `writes /w/b`; None where some of it cannot be known."""
    rules: tuple[str, ...] = ()
    """The layers and rules that ask: `tier/delete`."""
    categories: tuple[str, ...] = ()
    stdin: str = ""
    """SHA-256 of what it is given on standard input, in hex; empty: nothing."""
    scripts: tuple[str, ...] = ()
    """Files that it runs: path and SHA-256 of what each holds, or `nothing`."""
    unbound: tuple[str, ...] = ()
    """What else it runs, whose text nobody can tell beforehand, in words: a yes is for once."""
    cwd: str = ""
    acts: tuple[covered.Act, ...] | None = None
    """Its commands; None where a part of one cannot be known."""
    settings: tuple[str, ...] = ()
    """Variables and texts that decide what they do."""
    said: tuple[str, ...] = ()
    """Its commands with all their words, for people; binds nothing."""
    session: str = ""
    """The session of its agent; empty where there is none."""

    @classmethod
    def of_plan(cls, plan: ActionPlan, decision: Decision, **fields: Any) -> Self:
        """Return what a plan wants: who makes it, where and under which policy, and `fields`."""
        return cls(
            agent=plan.agent,
            user=plan.user,
            role=plan.role,
            tool=plan.tool,
            workspace=plan.workspace,
            also=plan.also,
            task=plan.derived_from,
            policy=decision.policy,
            cwd=plan.cwd or plan.workspace,
            **fields,
        )


class Opening(Frozen):
    """Hosts that a person opens for one command about which nobody is asked."""

    command: str
    """SHA-256 of its text, in hex."""
    hosts: Annotated[tuple[Host, ...], Field(min_length=1)]
    call: str = ""
    """For this running call alone; empty: for every call of the command that the grant covers."""


class Grant(Frozen):
    """An approval that a person gave."""

    id: str
    scope: Scope = Scope.EXACT
    wanted: Wanted
    """What the person was shown."""
    task: str | None = None
    """Only calls that are derived from this task."""
    session: str | None = None
    """Only calls of this session of the agent."""
    watched: bool = False
    """Whether the session was that of an agent under watch, so that its end is known."""
    uses: Annotated[int, Field(ge=1, le=10_000)] = 1
    issued: float
    """Seconds since 1970, like all times here."""
    until: float
    """From this very instant on it covers nothing."""
    by: str
    reason: str = ""
    used: int = 0
    revoked: float | None = None
    opens: Opening | None = None
    """What it opens; then it answers no question."""

    def words(self) -> str:
        """Say what it covers, for people."""
        return self._what() + (f" (in session {self.session[:8]})" if self.session else "")

    def _what(self) -> str:
        bound = covered.words(self.wanted.acts)
        whole = "; ".join(self.wanted.said)
        exact = self.scope is Scope.EXACT
        what = whole if exact and whole else bound
        paths = "; ".join(self.wanted.paths or ())
        what = what or paths or f"a call of {self.wanted.tool}"
        if self.wanted.settings:
            what += f" (with {', '.join(self.wanted.settings)})"
        if self.opens is not None:
            hosts = ", ".join(host.words() for host in self.opens.hosts)
            where = f" in call {self.opens.call} alone" if self.opens.call else ""
            return f"to reach {hosts}{where}: {what}"
        if not exact and bound and whole not in ("", bound):
            what += f" (shown: {whole}; words of a message, and what only tells, may differ)"
        match self.scope:
            case Scope.EXACT:
                return f"exactly: {what}" + (f" [{paths}]" if paths and paths != what else "")
            case Scope.PROGRAM:
                return f"only: {what}" + (f" [{paths}]" if paths and paths != what else "")
            case Scope.CATEGORY:
                kinds = ", ".join(rule for rule in self.wanted.rules if not rule.endswith("/"))
                return f"questions of {kinds} as with: {what}"

    def open(self, now: float) -> bool:
        """Whether it can still be used at all."""
        return self.revoked is None and self.used < self.uses and self.issued <= now < self.until


def wanted(
    plan: ActionPlan,
    decision: Decision,
    context: Context,
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    scripts: tuple[str, ...] = (),
) -> Wanted:
    """Return what a call wants, once gate 1 has decided about it.

    `env` are the variables that are set for it beside the usual ones, `stdin` the SHA-256 of what
    it is given on standard input, if it is given anything, `scripts` the files that it runs, each
    with the SHA-256 of what it holds.
    """
    facts = tools.facts(plan, context, policy.catalog, policy.tools)
    known = not any(unknown(touch.path) for touch in facts.touches)
    params = plan.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return Wanted.of_plan(
        plan,
        decision,
        digest=digest(plan, decision, env, stdin, scripts),
        action_id=action_id(plan.tool, params),
        rights=decision.rights,
        programs=tuple(sorted(facts.programs)),
        paths=tuple(sorted({f"{touch.how.value} {shown(touch.path)}" for touch in facts.touches}))
        if known
        else None,
        rules=asking(decision),
        categories=_categories(plan, facts, policy),
        stdin=stdin,
        scripts=scripts,
        acts=covered.acts(facts, policy.catalog),
        settings=covered.settings(facts, plan.params.command, env or {}),
        said=covered.said(facts),
    )


def domain(
    plan: ActionPlan, context: Context, policy: Policy, facts: Facts | None = None
) -> Domain:
    """Return the domain of reputation that a plan belongs to: deployments, or changes of code;
    `facts` is what it was read into, where it was."""
    facts = facts or tools.facts(plan, context, policy.catalog, policy.tools)
    deploys = "infra" in _categories(plan, facts, policy)
    return Domain.DEPLOYMENTS if deploys else Domain.CODE_CHANGES


def category(plan: ActionPlan, context: Context, policy: Policy, facts: Facts | None = None) -> str:
    """Return the title of a plan's category for a report (`Git Operations`); the strictest level's
    where there are several. `facts` is what it was read into, where it was."""
    facts = facts or tools.facts(plan, context, policy.catalog, policy.tools)
    known = policy.autonomy.levels.categories
    names = _categories(plan, facts, policy)
    worst = max(names, key=lambda name: LEVELS.index(known.level(name)), default=None)
    return known.title(worst) if worst is not None else "Other"


def _categories(plan: ActionPlan, facts: Facts, policy: Policy) -> tuple[str, ...]:
    found = policy.autonomy.levels.categories.of_call(plan.tool, facts, tiers.answers(facts))
    return tuple(sorted({name for match in found for name in match.categories}))


def digest(
    plan: ActionPlan,
    decision: Decision,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    scripts: tuple[str, ...] = (),
) -> str:
    """Return what an exact approval is bound to: plan, rights, policy, variables, input, scripts,
    asks."""
    parts = {
        "plan": plan.digest(),
        "rights": decision.rights.model_dump(mode="json"),
        "policy": decision.policy,
        "asks": asking(decision),
        **({"env": dict(env)} if env else {}),
        **({"stdin": stdin} if stdin else {}),
        **({"scripts": scripts} if scripts else {}),
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def asking(decision: Decision) -> tuple[str, ...]:
    """Return the layers and rules that ask."""
    asks = {
        f"{answer.layer}/{answer.rule}"
        for answer in decision.layers
        if answer.verdict is Verdict.ASK
    }
    return tuple(sorted(asks))


def covers(grant: Grant, call: Wanted, now: float) -> bool:
    """Whether a grant covers a call at an instant."""
    if (
        not grant.open(now)
        or grant.opens is not None
        or (grant.task is not None and grant.task != call.task)
    ):
        return False
    if grant.session is not None and grant.session != call.session:
        return False
    if grant.scope is Scope.EXACT:
        return grant.wanted.digest == call.digest
    if call.unbound:
        return False
    shown_then = grant.wanted
    same = all(
        getattr(shown_then, name) == getattr(call, name)
        for name in (
            "agent", "user", "role", "tool", "workspace", "also", "policy", "stdin", "scripts",
            "cwd", "settings",
        )
    )  # fmt: skip
    if not same or call.rights.meet(shown_then.rights) != call.rights:
        return False
    if not call.rules or not set(call.rules) <= set(shown_then.rules):
        return False
    if grant.scope is Scope.PROGRAM:
        return _same_programs(shown_then, call)
    if not covered.alike(shown_then.acts, call.acts):
        return False
    return bool(call.categories) and set(call.categories) <= set(shown_then.categories)


def opening(plan: ActionPlan, hosts: tuple[Host, ...]) -> Opening:
    """Return what opens hosts for a plan's command."""
    return Opening(command=_of_command(plan), hosts=hosts)


def opening_now(plan: ActionPlan, host: Host, call: str) -> Opening:
    """Return what opens a host for a call that runs; without `call`: for calls of its command."""
    return Opening(command=_of_command(plan), hosts=(host,), call=call)


def host_digest(plan: ActionPlan, host: Host, call: str) -> str:
    """Return what an answer about a host is bound to: host, port, call, agent, place, command."""
    parts = {
        "host": host.model_dump(mode="json"),
        "call": call,
        "agent": plan.agent,
        "workspace": plan.workspace,
        "plan": plan.digest(),
    }
    text = json.dumps({"reach": parts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def hosts_for(grant: Grant, plan: ActionPlan, now: float, *, session: str = "") -> tuple[Host, ...]:
    """Return the hosts that a grant opens for a plan at an instant, before it runs: exactly this
    command of this agent, in this place; of a grant for a session, in that one."""
    if grant.opens is None or not grant.open(now) or grant.opens.command != _of_command(plan):
        return ()
    if grant.opens.call or grant.session not in (None, session):
        return ()
    then = grant.wanted
    if grant.task is not None and grant.task != plan.derived_from:
        return ()
    same = (then.agent, then.user, then.role, then.tool, then.workspace, then.also, then.cwd) == (
        plan.agent, plan.user, plan.role, plan.tool, plan.workspace, plan.also,
        plan.cwd or plan.workspace,
    )  # fmt: skip
    return grant.opens.hosts if same else ()


def with_hosts(decision: Decision, hosts: tuple[Host, ...]) -> Decision:
    """Return a decision with further hosts that its call may reach, where it can reach any; they
    get no credential."""
    if not hosts or not may_open(decision):
        return decision
    network = decision.rights.network
    more = tuple(dict.fromkeys((*network.hosts, *hosts)))
    before = [(host.name, host.port) for host in network.hosts]
    opened = [(host.name, host.port) for host in hosts]
    credentials = []
    for credential in network.credentials:
        known, new = credential.within(before), credential.within(opened)
        left = tuple(one for one in credential.hosts if one in known or one not in new)
        if left:
            credentials.append(credential.model_copy(update={"hosts": left}))
    network = network.model_copy(update={"hosts": more, "credentials": tuple(credentials)})
    rights = decision.rights.model_copy(update={"network": network})
    return decision.model_copy(update={"rights": rights})


def may_open(decision: Decision) -> bool:
    """Whether hosts can be opened for a call about which this was decided: it runs unasked, and in
    a layer of its own."""
    rights = decision.rights
    return (
        decision.allowed
        and rights.workspace is Access.WRITE
        and decision.landing is not Landing.PROPOSAL
    )


def _of_command(plan: ActionPlan) -> str:
    return hashlib.sha256((plan.params.command or "").encode()).hexdigest()


def _same_programs(then: Wanted, call: Wanted) -> bool:
    if then.paths is None or call.paths is None or then.programs != call.programs:
        return False
    return set(call.paths) <= set(then.paths) and covered.same(then.acts, call.acts)
