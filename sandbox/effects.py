# SPDX-License-Identifier: Apache-2.0
"""From a transaction's raw change lists to gate 2's judgement, and to what people are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from policy.judge import judge
from policy.model import Change, Decision, FileType, Judgement, Kind, Outcome, PathReason
from policy.protected import PathPolicy
from sandbox.ignored import Ignored
from sandbox.results import ChangeView

SHOWN = 1000
"""Changes that come back in an answer; the record keeps how many there were."""
_ORDER = (Outcome.LAND, Outcome.HOLD, Outcome.DISCARD)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call changed and what gate 2 says of it."""

    judgement: Judgement
    views: tuple[ChangeView, ...]
    total: int

    def kept(self, problem: str) -> Effects:
        """Return the same effects, held because they could not be landed now."""
        message = f"held: {problem}; a person can land it when that is mended"
        return replace(self, judgement=Judgement(Outcome.HOLD, self.judgement.reasons, message))

    def conflicted(self, paths: Sequence[str]) -> Effects:
        """Return the same effects, held because the real files changed during the landing."""
        reasons = tuple(
            PathReason(path, Outcome.HOLD, "conflict", "the real file changed meanwhile")
            for path in paths
        )
        names = ", ".join(f"`{path}`" for path in paths[:5])
        message = f"held: {names} changed while the call ran; read it again and redo the change"
        return replace(self, judgement=Judgement(Outcome.HOLD, reasons, message))


def weigh(
    decision: Decision,
    raw: Sequence[Sequence[Mapping[str, Any]]],
    workspaces: Sequence[str],
    paths: PathPolicy,
) -> Effects:
    """Judge the changes of each workspace; the strictest outcome counts for all of them."""
    judgements: list[Judgement] = []
    views: list[ChangeView] = []
    total = 0
    for index, (items, root) in enumerate(zip(raw, workspaces, strict=False)):
        changes = changes_of(items, root)
        total += len(changes)
        judgement = judge(decision, changes, paths, workspace=root)
        judgements.append(judgement)
        prefix = "" if index == 0 else root + "/"
        views += show(changes[: SHOWN - len(views)], judgement.reasons, prefix)
    strictest = max(
        judgements, key=lambda one: _ORDER.index(one.outcome), default=Judgement(Outcome.LAND)
    )
    reasons = tuple(reason for one in judgements for reason in one.reasons)
    return Effects(Judgement(strictest.outcome, reasons, strictest.message), tuple(views), total)


def changes_of(items: Sequence[Mapping[str, Any]], root: str) -> list[Change]:
    """Return typed changes; deletions are looked up in git's ignore rules."""
    ignored = Ignored(Path(root))
    out = []
    for item in items:
        fields = {k: v for k, v in item.items() if k in Change.__dataclass_fields__}
        change = Change(**{**fields, "kind": Kind(item["kind"]), "type": FileType(item["type"])})
        gone = change.source if change.kind is Kind.RENAMED else change.path
        if change.kind in (Kind.DELETED, Kind.RENAMED) and gone is not None:
            change = replace(change, ignored=gone in ignored)
        out.append(change)
    return out


def show(
    changes: Sequence[Change], reasons: Sequence[PathReason], prefix: str = ""
) -> list[ChangeView]:
    """Return changes for people; names that are not UTF-8 are escaped."""
    said = {reason.path: reason for reason in reasons}
    return [
        ChangeView(
            path=prefix + _printable(change.path),
            kind=change.kind.value,
            type=change.type.value,
            source=None if change.source is None else prefix + _printable(change.source),
            outcome=said[change.path].outcome.value if change.path in said else None,
            reason=said[change.path].reason if change.path in said else None,
        )
        for change in changes
    ]


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
