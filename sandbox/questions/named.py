# SPDX-License-Identifier: Apache-2.0
"""Which registered workspaces, beside its own, a call names, so that its cell shows them. Pure.

Goes by the text alone: a workspace's path as it stands there, whole or from the folder that the
call starts in; `~` is another home in a cell. A name too much shows a workspace in which the agent
may work anyway, with its own policy on top; one that is missed is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from policy.model import ActionPlan

MOST_TEXT = 100_000
"""Characters of a command that are looked through."""
MOST_NAMED = 8
"""Further workspaces that one call gets."""
_BEFORE = frozenset(" \t\n'\"=:(<>|&;`,")
_AFTER = frozenset(" \t\n'\"/:)<>|&;`,*?[{")


def named_workspaces(plan: ActionPlan, registered: Iterable[str]) -> tuple[str, ...]:
    """Return those of the registered workspaces that a plan names, without those that it has."""
    own = (plan.workspace, *plan.also)
    others = [one for one in registered if one not in own]
    if not others:
        return ()
    here = plan.cwd or plan.workspace
    command = (plan.params.command or "")[:MOST_TEXT]
    paths = [
        os.path.normpath(os.path.join(here, one))  # noqa: PTH118
        for one in (plan.params.file_path, plan.params.path)
        if one and "\0" not in one
    ]
    found = (
        one
        for one in others
        if any(path == one or path.startswith(one + "/") for path in paths)
        or any(_stands(form, command) for form in (one, os.path.relpath(one, here)))
    )
    return tuple(one for one, _ in zip(found, range(MOST_NAMED), strict=False))


def _stands(form: str, text: str) -> bool:
    """Whether a path stands in a text as a word, or as the beginning of one."""
    at = text.find(form)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(form) : at + len(form) + 1]
        if (at == 0 or before in _BEFORE) and (not after or after in _AFTER):
            return True
        at = text.find(form, at + 1)
    return False
