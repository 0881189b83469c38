# SPDX-License-Identifier: Apache-2.0
"""Approvals given before a call is made (orchestration.md, "Approval Workflow").

A grant is bound to a whole request, never to the short id that names it for people: eight digits
can be met by chance, or on purpose.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from policy.model import Verdict
from policy.people.approval import may_open
from sandbox.approvals.script_capture import shown_scripts, wanted_with_scripts
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs

_SECONDS = 60.0


def by_id(dirs: Dirs, name: str) -> Request | None:
    """Return the newest open question with this call id or short action id; None for other text.

    Raises BadInput where it looks like an id and nothing of that id was asked.
    """
    grants = Grants(dirs)
    tool, _, digits = name.rpartition(":")
    if not tool or len(digits) != 8 or not set(digits) <= set("0123456789abcdef"):
        return None
    found = grants.by_action(name, time.time())
    if not found:
        raise BadInput(
            f"nothing with the id `{name}` was asked; `lockgate approvals --json` shows the ids"
        )
    if len({asked.request.wanted.digest for asked in found}) > 1:
        raise BadInput(f"several calls have the id `{name}`; use `lockgate approve CALL`")
    return found[0].request


def of_command(
    dirs: Dirs,
    words: Sequence[str],
    *,
    workspace: str | None,
    agent: str,
    role: str | None,
    cwd: str | None,
    here: str | None,
    task: str | None = None,
    opens: bool = False,
) -> Request:
    """Return the question that `lockgate run --task TASK -- WORDS` would put, and note it as asked.

    Raises BadInput where gate 1 would not ask about it; `opens`: where hosts cannot be opened for
    it, since a person is asked anyway or it only reads.
    """
    from sandbox.agents.peer import Caller
    from sandbox.questions.offline import decide_offline
    from sandbox.questions.plans import Whereabouts, command_of, plan_of
    from sandbox.workspaces.registry import Registry

    said = {
        "tool": "Bash",
        "params": {"command": command_of(words)},
        "agent": agent,
        "role": role,
        "derived_from": task,
        "workspace": workspace,
        "cwd": cwd,
    }
    whereabouts = Whereabouts.registered(Registry(dirs), here)
    plan = plan_of(said, Caller.itself(dirs), whereabouts)
    answer, context = decide_offline(dirs, plan)
    decision = answer.decision
    if decision.verdict is Verdict.DENY or answer.effective is None:
        raise BadInput(f"it cannot be granted: {decision.message}")
    if opens and not may_open(decision):
        why = (
            "a person is asked about it, and their yes opens the hosts that it names"
            if decision.verdict is Verdict.ASK
            else "it only reads or proposes, so it gets no network"
        )
        raise BadInput(f"`--host` opens nothing for it: {why}; `network` in a policy file does")
    if not opens and decision.verdict is not Verdict.ASK:
        raise BadInput(
            f"nobody is asked about it, so there is nothing to grant: {decision.message}"
        )
    now = time.time()
    what, scripts = wanted_with_scripts(plan, decision, context, answer.effective.policy)
    request = Request(
        call="p" + secrets.token_hex(5),
        wanted=what,
        plan=plan,
        decision=decision,
        asked=now,
        until=now + _SECONDS,
        scripts=shown_scripts(scripts),
    )
    Grants(dirs).ask(request)
    return request
