# SPDX-License-Identifier: Apache-2.0
"""The tools that say what an agent may do. None of them lets anything run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from policy.autonomy.actions import ActionContext
from policy.autonomy.trust import can_execute, check_permission, classify_action
from policy.model import Verdict
from policy.tools import described
from policy.tools.dialects import Use
from sandbox.mcp.governance.standpoint import Standpoint, Who, first_error, short_action

_NO_CONTEXT = ActionContext()
_PROSE = frozenset(("unknown-program", "opaque"))
"""Rules of what cannot be known in a text: words about an action are asked about by these."""


class Permissions:
    """Says what the levels and gate 1 say of an action or a call."""

    def __init__(self, at: Standpoint) -> None:
        self._at = at

    async def check_permission(
        self, who: Who, action: str, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return whether an action is allowed at the agent's level ("Permission Checking").

        Where the context holds a `command`, or the action itself is one, gate 1 must allow that as
        well. Words about an action may look like programs that nobody knows: that alone is no no.
        """
        trust = self._at.trust_of(who)
        domain = classify_action(short_action(action), context, trust).domain
        level = self._at.level_of(who, domain)
        permission = check_permission(action, context, level, policy=trust)
        if permission.allowed and (red := self._red(who, short_action(action))):
            permission = permission.model_copy(update={"allowed": False, "reason": red})
        if permission.allowed:
            verdict, reason, _ = await self._foretell(who, described.said, action, context or {})
            if verdict not in (Verdict.ASK, Verdict.DENY) and len(action.split()) > 1:
                verdict, reason, rules = await self._foretell(who, described.hinted, "Bash", action)
                prose = verdict is Verdict.ASK and _PROSE.issuperset(rules)
                verdict = Verdict.ALLOW if prose else verdict
            if verdict in (Verdict.ASK, Verdict.DENY):
                permission = permission.model_copy(update={"allowed": False, "reason": reason})
        return permission.model_dump(mode="json")

    async def can_execute(self, who: Who, tool_name: str, args_hint: str = "") -> dict[str, Any]:
        """Return what a tool call needs before it may run ("Quick Pre-Check").

        Where the hint is what a tool is called with (a command, a path), gate 1 is asked as well.
        """
        trust = self._at.trust_of(who)
        level = self._at.level_of(who, trust.classify(tool_name, _NO_CONTEXT, args_hint).domain)
        executable = can_execute(tool_name, args_hint, level, policy=trust)
        verdict, reason, _ = await self._foretell(who, described.hinted, tool_name, args_hint)
        if verdict is None and not self._at.policy_of(who).tools.kinds(tool_name):
            verdict, reason = await self._foretell_named(who, tool_name)
        if verdict is Verdict.DENY or (verdict is Verdict.ASK and executable.can_execute):
            needed = "none" if verdict is Verdict.DENY else "approve"
            said = {"can_execute": False, "action_needed": needed, "reason": reason}
            executable = executable.model_copy(update=said)
        return executable.model_dump(mode="json")

    async def _foretell_named(self, who: Who, tool_name: str) -> tuple[Verdict, str]:
        """Return what gate 1 would say of a tool of which nothing but its name is known."""
        plan = self._at.plan_call(who, {"tool": tool_name or "?", "params": {}})
        decision = (await self._at.decide(plan))[0].decision
        return decision.verdict, decision.message

    def _red(self, who: Who, action: str) -> str:
        """Return why an action's category asks a person (autonomy-levels.md), or nothing."""
        levels = self._at.policy_of(who).autonomy.levels
        categories = levels.categories.of_action(action)
        answer = levels.level_of_all(categories, who.user, who.agent) if categories else None
        return answer.why if answer is not None and answer.verdict is Verdict.ASK else ""

    async def _foretell(
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
            plan = self._at.plan_call(who, use)
        except ValueError as error:
            return Verdict.DENY, first_error(error), frozenset()
        decision = (await self._at.decide(plan))[0].decision
        strict = [layer for layer in decision.layers if layer.verdict is decision.verdict]
        rules = frozenset(answer.rule for answer in strict if answer.rule)
        return decision.verdict, decision.message, rules

    def classify_action(
        self, who: Who, action: str, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return domain, risk and required level of an action ("Classifying Actions")."""
        return classify_action(short_action(action), context, self._at.trust_of(who)).model_dump(
            mode="json"
        )
