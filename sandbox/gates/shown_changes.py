# SPDX-License-Identifier: Apache-2.0
"""Changes as people are shown them, and what of them counts as shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from policy.model import Change, FileType, Kind, PathReason
from policy.protected.paths import PathPolicy
from sandbox.results import ChangeView
from sandbox.workspaces.ignore_sources import is_rules
from sandbox.workspaces.led_to import UNBOUND, find_leads, read_state
from sandbox.workspaces.protected_paths import Protected

_NO_CONTENT = frozenset(
    ("before-images", "conflict", "deletion", "limit", "no-right-to-write", "not-as-rehearsed")
) | frozenset(("not-as-approved", "not-as-shown", "replacement", "repository"))
"""Rules by which something else is in the way than what a path will hold."""

Place = tuple[int, str]
"""Which workspace of a call, and a path in it as the keeper names it."""


_WITH_CONTENT = (FileType.FILE.value, FileType.SYMLINK.value)

SHOWN = 1000
"""Changes that come back in an answer, protected ones first; of these none is left out."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Changes as people are shown them: all protected ones, then others up to `SHOWN`."""

    views: tuple[ChangeView, ...]
    places: tuple[Place, ...]
    """Where each of them is, in the same order."""
    total: int
    """How many changes there are."""
    size: int = 0
    """Bytes that they leave behind."""

    @property
    def wanted(self) -> tuple[Place, ...]:
        """Places whose content is to be recorded."""
        return tuple(
            place
            for place, view in zip(self.places, self.views, strict=True)
            if view.protected and view.kind != Kind.DELETED.value and view.type in _WITH_CONTENT
        )

    def per_workspace(self, count: int) -> list[list[str]]:
        """Return the wanted paths of each of `count` workspaces."""
        return [[path for at, path in self.wanted if at == index] for index in range(count)]

    def with_digests(self, digests: Sequence[Mapping[str, str]]) -> Shown:
        """Return the same changes with the SHA-256 of what each leaves, per workspace."""
        wanted = set(self.wanted)
        views = [
            view.model_copy(update={"sha256": digests[place[0]].get(place[1])})
            if place in wanted and place[0] < len(digests)
            else view
            for place, view in zip(self.places, self.views, strict=True)
        ]
        return replace(self, views=tuple(views))


def changes_of(items: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Return typed changes."""
    out = []
    for item in items:
        fields = {k: v for k, v in item.items() if k in Change.__dataclass_fields__}
        out.append(Change(**{**fields, "kind": Kind(item["kind"]), "type": FileType(item["type"])}))
    return out


def shown_of(
    raw: Sequence[Sequence[Mapping[str, Any]]], workspaces: Sequence[str], paths: PathPolicy
) -> Shown:
    """Return a keeper's raw changes, per workspace, for people."""
    listed = [changes_of(items) for items, _ in zip(raw, workspaces, strict=False)]
    return show(listed, workspaces, paths)


def show(
    listed: Sequence[Sequence[Change]],
    workspaces: Sequence[str],
    paths: PathPolicy,
    reasons: Sequence[Sequence[PathReason]] = (),
) -> Shown:
    """Return the changes of each workspace for people; names that are not UTF-8 are escaped.

    Protected are the paths that the guard and `verify` look at, and those of whose content gate 2
    says something (`reasons`); they come first, then the files by which git ignores others: a
    person who lands them makes their rules. Paths in further workspaces are given whole.
    """
    protected = Protected(paths)
    leading = [
        _leading(changes, root, paths, protected)
        for changes, root in zip(listed, workspaces, strict=False)
    ]
    led_to = [frozenset(lead for leads in one.values() for lead in leads) for one in leading]
    first: list[tuple[Place, ChangeView]] = []
    ignoring: list[tuple[Place, ChangeView]] = []
    others: list[tuple[Place, ChangeView]] = []
    total = size = 0
    for index, changes in enumerate(listed):
        prefix = "" if index == 0 else workspaces[index] + "/"
        path_reasons = (
            {reason.path: reason for reason in reversed(reasons[index])} if reasons else {}
        )  # strictest
        total += len(changes)
        told = reversed(reasons[index]) if reasons else ()
        content = {reason.path: reason for reason in told if reason.rule not in _NO_CONTENT}
        for change in changes:
            size += change.size if change.kind is not Kind.DELETED else 0
            rule = _rule(change, protected) or _said_of(change, content)
            rule = rule or ("led-to" if _is_led_to(change, led_to[index]) else None)
            ignores = is_rules(change.path) or is_rules(change.source or "")
            if rule is not None or ignores or len(others) < SHOWN:
                view = _view(change, prefix, path_reasons.get(change.path), rule)
                if leads := leading[index].get(change.path):
                    view = _with_leads(view, prefix, workspaces[index], leads)
                group = first if rule is not None else ignoring if ignores else others
                group.append(((index, change.path), view))
    first += ignoring
    kept = first + others[: max(0, SHOWN - len(first))]
    return Shown(tuple(v for _, v in kept), tuple(p for p, _ in kept), total, size)


def _leading(
    changes: Sequence[Change], root: str, paths: PathPolicy, protected: Protected
) -> dict[str, tuple[str, ...]]:
    """Return, by the paths of changes, what comes to count by them and by links they lead to."""
    own = {change.path for change in changes}
    found = {
        change.path: find_leads(root, change, paths.git_keys, own)
        for change in changes
        if change.type is FileType.SYMLINK or change.after_text is not None
        if _rule(change, protected) is not None
    }
    links = {one.path: one for one in changes if one.type is FileType.SYMLINK}
    names = sorted(links)
    waiting = [lead for leads in found.values() for lead in leads if lead]
    known = set(waiting)
    while waiting:
        lead = waiting.pop()
        start = bisect_left(names, f"{lead}/")
        end = bisect_left(names, f"{lead}0", start)  # what follows `/`
        for path in {lead, *names[start:end]} & links.keys() - found.keys():
            found[path] = find_leads(root, links[path], paths.git_keys)
            more = [one for one in found[path] if one and one not in known]
            known.update(more)
            waiting += more
    return {path: leads for path, leads in found.items() if leads}


def _with_leads(view: ChangeView, prefix: str, root: str, leads: Sequence[str]) -> ChangeView:
    """Return a view that names what comes to count by its change, and binds it."""
    named = tuple(prefix + (_printable(start) or ".") for start in leads if start != UNBOUND)
    return view.model_copy(update={"leads_to": named, "leads_state": read_state(root, leads)})


def _is_led_to(change: Change, leads: Set[str]) -> bool:
    """Whether a change of the same call changes what comes to count by another one."""
    path = change.path
    while path:
        if path in leads:
            return True
        path = path.rpartition("/")[0]
    return False


def _rule(change: Change, protected: Protected) -> str | None:
    """Return the rule by which the guard looks at one end of a change."""
    ends = (change.path,) if change.source is None else (change.path, change.source)
    for path in ends:
        if (rule := protected.rule_of(path)) is not None:
            return rule
    above = change.type is not FileType.FILE and any(protected.lies_above(path) for path in ends)
    return "folder" if above else None


def _said_of(change: Change, content: Mapping[str, PathReason]) -> str | None:
    """Return the rule by which gate 2 says something of what one end of a change holds."""
    ends = (change.path,) if change.source is None else (change.path, change.source)
    return next((content[path].rule for path in ends if path in content), None)


def _view(
    change: Change, prefix: str, path_reason: PathReason | None, rule: str | None
) -> ChangeView:
    return ChangeView(
        path=prefix + _printable(change.path),
        kind=change.kind.value,
        type=change.type.value,
        source=None if change.source is None else prefix + _printable(change.source),
        outcome=path_reason.outcome.value if path_reason else None,
        reason=path_reason.reason if path_reason else None,
        rule=path_reason.rule if path_reason else None,
        protected=rule,
        mode=None if rule is None or change.kind is Kind.DELETED else _landed_mode(change),
    )


def _landed_mode(change: Change) -> int:
    """Return the permission bits without those that never land."""
    return change.mode & (0o3777 if change.type is FileType.DIRECTORY else 0o1777)


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
