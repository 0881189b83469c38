# SPDX-License-Identifier: Apache-2.0
"""Who may undo what: gate 2's judgement of an undo, as of a landing of its own.

Off the event loop: it looks at files.

INVARIANT (P2, undo): an agent takes back what it landed or undid itself, and nothing of what the
host obeys, a rule protects or gate 2 would hold. All else is a person's. And no undo of a move
brings to such a place what came into the moved folder later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policy.gate2.git.folder import Holds, holds_of
from policy.gate2.git.judged import FOLDER
from policy.gate2.git.places import place_of
from policy.model import FileType, Kind
from policy.protected.paths import PathPolicy
from sandbox.audit.call_entry import CallEntry
from sandbox.gates.bound import PERSONS
from sandbox.gates.gate2 import Effects, weigh
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.tracked import tracked

_EVERYDAY = frozenset(Holds) - {Holds.SETTINGS, Holds.TEMPLATE, Holds.COMMON, Holds.BACK}
_INDEX = "/.git/index"
ABOVE = "folder"
"""Says of a folder that protected files may lie in it; what it holds is listed by itself."""


def owner(entry: CallEntry) -> str | None:
    """Return the agent whose a landing or an undo is; None where it is a person's.

    Of a call that is its agent; of an undo, and of what was held, whoever asked for it.
    """
    asked = entry.asked_by
    if asked is None and not entry.undone and not entry.of:
        return str(entry.agent) if entry.agent else None
    agent = (asked or {}).get("agent")
    return str(agent) if agent else None


def why_not(
    raw: Sequence[Sequence[Mapping[str, Any]]],
    workspaces: Sequence[str],
    paths: PathPolicy,
    ledger: Ledger,
    *,
    again: bool,
) -> str:
    """Say why an agent may not make the changes of an undo of its own; empty where it may.

    `again`: it does a call again that was undone, and so deletes what was there before.
    """
    named = () if again else PERSONS.named_deletions
    decision = PERSONS.model_copy(update={"named_deletions": named})
    effects = weigh(decision, raw, workspaces, paths, ledger)
    for reason in effects.judgement.reasons:
        if not _is_everyday(reason.rule, reason.path):
            return f"`{reason.path}`: {reason.reason} ({reason.rule})"
    for view in effects.views:
        rule = view.protected
        if rule and rule != ABOVE and not _is_everyday(rule, view.path):
            return f"`{view.path}`: it counts as `{rule}`"
    for items, root in zip(raw, workspaces, strict=False):
        if lost := tracked(root, _going(items)):
            return f"`{lost[0]}`: a repository tracks it by now (deletion)"
    return ""


def _going(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the files that go away, but for those whose index goes back with them.

    An index that a call changed is as the call left it, or the undo is refused: nobody has added
    anything since.
    """
    ends = [str(end) for item in items for end in (item["path"], item.get("source")) if end]
    back = {one.removesuffix(_INDEX) for one in ("/" + end for end in ends) if one.endswith(_INDEX)}
    gone = [
        str(item["path"] if item["kind"] == Kind.DELETED.value else item["source"])
        for item in items
        if item["kind"] in (Kind.DELETED.value, Kind.RENAMED.value)
        and item["type"] != FileType.DIRECTORY.value
    ]
    return [
        path
        for path in gone
        if ".git" not in path.split("/")
        and not any(f"/{path}".startswith(f"{folder}/") for folder in back)
    ]


def _is_everyday(rule: str, path: str) -> bool:
    """Whether an undo brings back what everyday git had left at a path, and was checked then.

    What of git's own goes by an undo, and is reached still, `cell.gitundo` refuses.
    """
    place = place_of(path) if rule == FOLDER else None
    return place is not None and not place.odd and holds_of(place) in _EVERYDAY


def late(
    raw: Sequence[Sequence[Mapping[str, Any]]],
    workspaces: Sequence[str],
    paths: PathPolicy,
    ledger: Ledger,
) -> list[str]:
    """Return what came into a moved folder later and would come to a place that counts."""
    came = [[item for item in items if item.get("late")] for items in raw]
    if not any(came):
        return []
    return _counting(weigh(PERSONS, came, workspaces, paths, ledger))


def _counting(effects: Effects) -> list[str]:
    return [
        view.path
        for view in effects.views
        if view.protected and view.protected != ABOVE and view.kind != Kind.DELETED.value
    ]
