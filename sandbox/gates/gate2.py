# SPDX-License-Identifier: Apache-2.0
"""From a transaction's raw change lists to gate 2's judgement, and to what people are shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from policy.gate2.git.obeyed import NOTHING
from policy.gate2.git.signing import unsigned_notice
from policy.gate2.judge import judge, takes_content
from policy.gate2.links import NO_LINKS
from policy.model import Change, Decision, FileType, Judgement, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from sandbox.results import ChangeView
from sandbox.workspaces.git_obeyed import asked_to_sign, configured
from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.ignore_sources import Touched, is_rules, touched
from sandbox.workspaces.led_to import UNBOUND, find_leads, read_state
from sandbox.workspaces.obeyed_links import obeyed_links
from sandbox.workspaces.protected_paths import Protected

SHOWN = 1000
"""Changes that come back in an answer, protected ones first; of these none is left out."""
_ORDER = (Outcome.LAND, Outcome.HOLD, Outcome.DISCARD)

_NO_CONTENT = frozenset(
    ("before-images", "conflict", "deletion", "limit", "no-right-to-write", "not-as-rehearsed")
) | frozenset(("not-as-shown", "replacement", "repository"))
"""Rules by which something else is in the way than what a path will hold."""

Place = tuple[int, str]
"""Which workspace of a call, and a path in it as the keeper names it."""


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


_WITH_CONTENT = (FileType.FILE.value, FileType.SYMLINK.value)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call changed and what gate 2 says of it."""

    judgement: Judgement
    shown: Shown
    notice: str = ""
    """What a person is told whatever became of it."""
    undoable: bool = True
    """Whether its before-images are kept, once they land."""
    objected_to: bool = False
    """A person objected before they landed."""
    replaced: tuple[tuple[str, ...], ...] = ()
    """Files that somebody else had a part in and whose content they take, per workspace."""
    touched: tuple[Touched, ...] = ()
    """What they change, per workspace, of what git goes by in what it ignores."""

    @property
    def views(self) -> tuple[ChangeView, ...]:
        """The changes as people are shown them."""
        return self.shown.views

    @property
    def total(self) -> int:
        """How many changes there are."""
        return self.shown.total

    def with_digests(self, digests: Sequence[Mapping[str, str]]) -> Effects:
        """Return the same effects with the SHA-256 of what protected files hold now."""
        return replace(self, shown=self.shown.with_digests(digests))

    def kept(self, problem: str) -> Effects:
        """Return the same effects, held because they could not be landed now."""
        message = f"held: {problem}; a person can land it when that is mended"
        return replace(self, judgement=Judgement(Outcome.HOLD, self.judgement.reasons, message))

    def proposed(self) -> Effects:
        """Return the same effects as a proposal: they never land by themselves."""
        message = "it is a proposal, nothing landed: a person can land or discard it"
        return replace(self, judgement=Judgement(Outcome.HOLD, self.judgement.reasons, message))

    def objected(self, by: str, reason: str) -> Effects:
        """Return the same effects, discarded because a person objected before they landed."""
        said = f": {reason}" if reason else "; ask what to do instead"
        message = f"discarded, nothing landed: {by} objected{said}"
        judgement = Judgement(Outcome.DISCARD, self.judgement.reasons, message)
        return replace(self, judgement=judgement, objected_to=True)

    def not_as_rehearsed(self) -> Effects:
        """Return the same effects, held because a person was shown others when they said yes."""
        message = (
            "held: its effects are not those that were shown when it was approved "
            "(not-as-rehearsed); a person can look at them and land them"
        )
        reasons = (
            PathReason("", Outcome.HOLD, "not-as-rehearsed", "its rehearsal had other effects"),
            *self.judgement.reasons,
        )
        return replace(self, judgement=Judgement(Outcome.HOLD, reasons, message))

    def not_as_shown(self) -> Effects:
        """Return the same effects, held because others' landings made them something else."""
        why = "others landed meanwhile, and it would change something else than what was shown"
        reasons = (PathReason("", Outcome.HOLD, "not-as-shown", why), *self.judgement.reasons)
        message = f"held, nothing landed yet: {why} (not-as-shown); a person can land or discard it"
        return replace(self, judgement=Judgement(Outcome.HOLD, reasons, message))

    def crowded(self, paths: Sequence[str]) -> Effects:
        """Return the same effects, held because the last copies of something would go for them."""
        names = ", ".join(f"`{path}`" for path in paths[:5])
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        why = (
            f"its landing would drive out the last before-image of {names}{more} (before-images), "
            "since `undo_mib` is reached"
        )
        reasons = (PathReason("", Outcome.HOLD, "before-images", why), *self.judgement.reasons)
        message = f"held, nothing landed yet: {why}; a person can land or discard it"
        return replace(self, judgement=Judgement(Outcome.HOLD, reasons, message))

    def driven_out(self, calls: Sequence[str], own: str) -> Effects:
        """Return the same effects of call `own`, with a word on what is no longer undoable."""
        if not calls:
            return self
        names = ", ".join(f"`{call}`" for call in calls)
        said = f"no longer undoable, since `undo_mib` is reached: {names}"
        message = "; ".join(filter(None, (self.judgement.message, said)))
        judgement = replace(self.judgement, message=message)
        return replace(self, judgement=judgement, undoable=own not in calls)

    def waited(self, seconds: float) -> Effects:
        """Return the same effects, with a word on the time in which nobody objected."""
        message = f"landed after {seconds:g} s in which a person could object"
        return replace(self, judgement=Judgement(Outcome.LAND, self.judgement.reasons, message))

    def conflicted(self, paths: Sequence[str]) -> Effects:
        """Return the same effects, held because the real files changed during the landing."""
        why = "the real file changed meanwhile, or somebody is writing to it"
        reasons = tuple(PathReason(path, Outcome.HOLD, "conflict", why) for path in paths)
        names = ", ".join(f"`{path}`" for path in paths[:5])
        message = (
            f"held: {names} changed while the call ran, or is being written to; read it again and "
            "redo the change"
        )
        return replace(self, judgement=Judgement(Outcome.HOLD, reasons, message))


def weigh(
    decision: Decision,
    raw: Sequence[Sequence[Mapping[str, Any]]],
    workspaces: Sequence[str],
    paths: PathPolicy,
    ledger: Ledger,
    earlier: Sequence[frozenset[str]] = (),
    indexes: frozenset[str] = frozenset(),
) -> Effects:
    """Judge the changes of each workspace; the strictest outcome counts for all of them.

    `earlier` is, per workspace, what the agent's calls of the last day took the content of;
    `indexes` are this host's package indexes that the call could reach (`https://host`).
    It may take seconds where an agent made it so: call it off the event loop.
    """
    listed = [
        with_ignored(changes_of(items), workspaces, own, ledger)
        for own, (items, _) in enumerate(zip(raw, workspaces, strict=False))
    ]
    judgements = [
        judge(
            decision,
            changes,
            paths,
            workspace=root,
            configured=configured(root, _named(changes), paths.git_keys) if changes else NOTHING,
            linked=obeyed_links(root, paths) if changes else NO_LINKS,
            agents_remotes=ledger.remotes.known(root) if changes else frozenset(),
            earlier=before,
            indexes=indexes,
        )
        for changes, root, before in zip(
            listed, workspaces, earlier or [frozenset()] * len(workspaces), strict=False
        )
    ]
    strictest = max(
        judgements, key=lambda one: _ORDER.index(one.outcome), default=Judgement(Outcome.LAND)
    )
    reasons = tuple(reason for one in judgements for reason in one.reasons)
    shown = show(listed, workspaces, paths, [one.reasons for one in judgements])
    return Effects(
        Judgement(strictest.outcome, reasons, strictest.message),
        shown,
        notice="; ".join(
            filter(None, map(_unsigned, listed, workspaces)),
        ),
        replaced=tuple(
            tuple(one.path for one in changes if takes_content(one, paths)) for changes in listed
        ),
        touched=tuple(touched(items) for items in raw),
    )


def _unsigned(changes: Sequence[Change], root: str) -> str:
    """Return what a person is told of commits and tags that lack a signature."""
    found = [one for one in changes if one.unsigned]
    wanted = asked_to_sign(root, [one.path for one in found]) if found else frozenset()
    return unsigned_notice(found, wanted)


def _named(changes: Sequence[Change]) -> list[str]:
    return [
        path
        for one in changes
        for path in (one.path, one.source, *one.commits_others)
        if path is not None
    ]


def changes_of(items: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Return typed changes."""
    out = []
    for item in items:
        fields = {k: v for k, v in item.items() if k in Change.__dataclass_fields__}
        out.append(Change(**{**fields, "kind": Kind(item["kind"]), "type": FileType(item["type"])}))
    return out


def with_ignored(
    changes: list[Change], workspaces: Sequence[str], own: int, ledger: Ledger
) -> list[Change]:
    """Return a workspace's changes in which what a person's rules ignore is marked.

    `own` is its number; what it held may have gone to another one of the call's workspaces.
    """
    if not any(change.kind in _GOING or change.replaced for change in changes):
        return changes
    apart = {change.lives_apart for change in changes if change.lives_apart is not None}
    try:
        with ExitStack() as stack:
            homes = {
                at: stack.enter_context(Ignored(Path(workspaces[at]), ledger))
                for at in {own, *apart}
            }
            return [
                replace(
                    change,
                    ignored=gone in homes[own],
                    goes_ignored=_goes(change, homes, own),
                    disposable=change.own and not homes[own].tracks(gone),
                )
                if (gone := _gone(change)) is not None
                else change
                for change in changes
            ]
    except OSError:  # a workspace cannot be read
        return [
            replace(change, goes_ignored=change.kind is Kind.RENAMED or change.lives_on)
            for change in changes
        ]


def _gone(change: Change) -> str | None:
    """Return the path of a file that is there no more after a change, or holds nothing of it."""
    if change.type is FileType.DIRECTORY:
        return None  # what it holds is listed by itself
    if change.replaced and change.kind is not Kind.RENAMED:
        return change.path
    return {Kind.DELETED: change.path, Kind.RENAMED: change.source}.get(change.kind)


_GOING = (Kind.DELETED, Kind.RENAMED)


def _goes(change: Change, homes: Mapping[int, Ignored], own: int) -> bool:
    """Whether what a file held is now only where it may go as ignored."""
    if change.kind is Kind.RENAMED:
        return homes[own].hides(change.path, change.source or "")
    if not change.lives_in:
        return False
    if change.lives_apart is None:
        return homes[own].hides(change.lives_in, change.path)
    return homes[change.lives_apart].hides(change.lives_in)


def all_ignored(paths: Sequence[str], workspaces: Sequence[str], ledger: Ledger) -> bool:
    """Whether a person's rules ignore all of some paths, in whichever workspace they are."""
    gone = [Change(path, Kind.DELETED, FileType.FILE) for path in paths]
    return bool(gone) and all(
        change.ignored
        for own in range(len(workspaces))
        for change in with_ignored(gone, workspaces, own, ledger)
    )


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
        said = {one.path: one for one in reversed(reasons[index])} if reasons else {}  # strictest
        total += len(changes)
        told = reversed(reasons[index]) if reasons else ()
        content = {one.path: one for one in told if one.rule not in _NO_CONTENT}
        for change in changes:
            size += change.size if change.kind is not Kind.DELETED else 0
            rule = _rule(change, protected) or _said_of(change, content)
            rule = rule or ("led-to" if _is_led_to(change, led_to[index]) else None)
            ignores = is_rules(change.path) or is_rules(change.source or "")
            if rule is not None or ignores or len(others) < SHOWN:
                view = _view(change, prefix, said.get(change.path), rule)
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
    named = tuple(prefix + (_printable(one) or ".") for one in leads if one != UNBOUND)
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


def _view(change: Change, prefix: str, said: PathReason | None, rule: str | None) -> ChangeView:
    return ChangeView(
        path=prefix + _printable(change.path),
        kind=change.kind.value,
        type=change.type.value,
        source=None if change.source is None else prefix + _printable(change.source),
        outcome=said.outcome.value if said else None,
        reason=said.reason if said else None,
        rule=said.rule if said else None,
        protected=rule,
        mode=None if rule is None or change.kind is Kind.DELETED else _landed_mode(change),
    )


def _landed_mode(change: Change) -> int:
    """Return the permission bits without those that never land."""
    return change.mode & (0o3777 if change.type is FileType.DIRECTORY else 0o1777)


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
