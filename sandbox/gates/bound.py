# SPDX-License-Identifier: Apache-2.0
"""Bind a person's word to what was shown of the paths that count. Pure but for `weigh`'s look.

A path counts where the host obeys it or a rule protects it, and wherever gate 2 has something to
say of its content. INVARIANT (P8, bound): of such a path a held call lands exactly what the record
says was shown: its kind, type, source, mode, the SHA-256 of its content or link target, and the
state of what it leads to: a link's end, and what git's settings name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.model import Access, Decision, Limits, Outcome, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.gates.gate2 import Effects, weigh
from sandbox.gates.shown_changes import Shown
from sandbox.workspaces.ignore_ledger import Ledger

MOST = 10**18
PERSONS = Decision(
    verdict=Verdict.ALLOW,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE, limits=Limits(changed_files=MOST, changed_bytes=MOST)),
    layers=(),
    message="",
    named_deletions=("**",),
)
"""What a person may land: anything, as far as no content is concerned."""
_FACTS = ("kind", "type", "source", "mode", "sha256", "leads_state")


def weigh_for_person(
    raw: Sequence[Sequence[Mapping[str, Any]]],
    workspaces: Sequence[str],
    paths: PathPolicy,
    ledger: Ledger,
) -> Effects:
    """Judge changes that a person is about to land. Off the event loop, as `weigh`."""
    return weigh(PERSONS, raw, workspaces, paths, ledger)


def refusals(effects: Effects) -> list[str]:
    """Return the paths that no call, and so no landing of one, may change."""
    path_reasons = effects.judgement.reasons
    return list(
        dict.fromkeys(reason.path for reason in path_reasons if reason.outcome is Outcome.DISCARD)
    )


def unlike(now: Shown, before: Sequence[Mapping[str, Any]], *, whole: bool) -> list[str]:
    """Return the paths that count and are not what the record (`before`) says was shown.

    `whole`: all of a call is to land, so that what was shown and is not there any more counts too.
    """
    known = {_key(one): _facts(one) for one in before if one.get("protected")}
    found = {_key(view): _facts(view) for view in _views(now)}
    differing = [key for key, facts in found.items() if known.get(key) != facts]
    if whole:
        differing += [key for key in known if key not in found]
    return list(dict.fromkeys(path for path, _ in differing))


def _views(shown: Shown) -> Iterator[dict[str, Any]]:
    for view in shown.views:
        if view.protected:
            yield view.model_dump(mode="json", exclude_none=True)


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return str(one["path"]), "deleted" if one["kind"] == "deleted" else "there"


def _facts(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(one.get(name) for name in _FACTS)
