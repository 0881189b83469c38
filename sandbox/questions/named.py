# SPDX-License-Identifier: Apache-2.0
"""Which registered workspaces, beside its own, a call names, so that its cell shows them. Pure.

Goes by the text alone: a workspace's path as it stands there, whole or from the folder that the
call starts in; `~` is another home in a cell. A name too much shows a workspace in which the agent
may work anyway, with its own policy on top; one that is missed is not there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from policy.model import ActionPlan

MOST_TEXT = 100_000
"""Characters of a command that are looked through."""
MOST_NAMED = 8
"""Further workspaces that one call gets."""
_BEFORE = frozenset(" \t\n'\"=:(<>|&;`,")
_AFTER = frozenset(" \t\n'\"/:)<>|&;`,*?[{")
_BETWEEN = re.escape("".join(sorted((_BEFORE | _AFTER) - {"/"})))
_ENDS, _WORD = re.compile(f"[{_BETWEEN}]"), re.compile(f"[^{_BETWEEN}]+")


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
    forms = {other: (other, os.path.relpath(other, here)) for other in others}
    standing = _standing({form for both in forms.values() for form in both}, command)
    found = (
        other
        for other in others
        if any(path == other or path.startswith(other + "/") for path in paths)
        or not standing.isdisjoint(forms[other])
    )
    return tuple(one for one, _ in zip(found, range(MOST_NAMED), strict=False))


def _standing(forms: set[str], text: str) -> set[str]:
    """Return those of some paths that stand in a text as words, or as beginnings of some.

    The text is gone through once, however many paths there are, but for those with odd characters.
    """
    odd = {form for form in forms if _ENDS.search(form)}
    lengths = sorted({len(form) for form in forms - odd})
    found = {form for form in odd if _stands(form, text)}
    for word in _WORD.finditer(text):
        start, end = word.span()
        if start and text[start - 1] not in _BEFORE:
            continue
        for length in lengths:
            stop = start + length
            if stop > end:
                break
            if (stop == len(text) or text[stop] in _AFTER) and text[start:stop] in forms:
                found.add(text[start:stop])
    return found


def _stands(form: str, text: str) -> bool:
    """Whether a path stands in a text as a word, or as the beginning of one."""
    at = text.find(form)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(form) : at + len(form) + 1]
        if (at == 0 or before in _BEFORE) and (not after or after in _AFTER):
            return True
        at = text.find(form, at + 1)
    return False
