# SPDX-License-Identifier: Apache-2.0
"""Reads the call that `check` and `explain` are asked about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from policy.model import ActionPlan, Params
from policy.tools.dialects import BadCall, normalise
from policy.values import validation_text
from sandbox.agents.peer import Caller
from sandbox.errors import BadInput
from sandbox.questions import plans
from sandbox.questions.plans import Whereabouts
from sandbox.text.terminal import safe_line

_WHO = ("agent", "role", "user", "intent", "derived_from")
_WHERE = ("workspace", "cwd")
_KEYS = {"tool", "params", "command", "id", *_WHERE, *_WHO}


def plan_of(
    asked: Mapping[str, Any],
    caller: Caller,
    whereabouts: Whereabouts,
    *,
    dialect: str | None = None,
) -> ActionPlan:
    """Return the plan of `{command}` or `{tool, params}`, with who asks. Raises BadInput.

    `dialect` is the coding agent whose names of tools and parameters these are.
    """
    unknown = sorted(map(str, set(asked) - _KEYS))
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise BadInput(f"the call has a key `{safe_line(unknown[0])}`; it may have {known}")
    if "command" in asked and ("params" in asked or "tool" in asked):
        raise BadInput("a call has either `command` or `tool` with `params`")
    if "command" not in asked and "tool" not in asked:
        raise BadInput("the call has neither `command` nor `tool`")
    tool = asked.get("tool", "Bash")
    params = asked.get("params") or {}
    if "command" in asked:
        params = {"command": asked["command"]}
    said = {key: asked[key] for key in (*_WHERE, *_WHO) if asked.get(key) is not None}
    try:
        json.dumps([tool, params, said], ensure_ascii=False).encode()
        if dialect is not None and "command" not in asked:
            use = normalise(dialect, tool, params)
            return plans.plan_of(said, caller, whereabouts, use=use)
        Params.model_validate(params)  # so that what is wrong in it is named as it was given
        return plans.plan_of({**said, "tool": tool, "params": params}, caller, whereabouts)
    except UnicodeEncodeError:
        raise BadInput("the command is not UTF-8 text, so it cannot be judged") from None
    except (BadCall, RecursionError) as error:
        raise BadInput(f"the call cannot be read: {error}") from None
    except ValidationError as error:
        wrong = safe_line(validation_text.worded(validation_text.first(error)))
        raise BadInput(f"the call's {wrong}") from None
