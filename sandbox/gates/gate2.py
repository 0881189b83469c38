# SPDX-License-Identifier: Apache-2.0
"""From a transaction's raw change lists to gate 2's judgement, and to what people are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from policy.gate2.deletions import takes_content
from policy.gate2.git.named_by_git import NOTHING
from policy.gate2.git.signing import unsigned_notice
from policy.gate2.judge import judge
from policy.gate2.links import NO_LINKS
from policy.model import Change, Decision, FileType, Judgement, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from sandbox.gates.shown_changes import Shown, changes_of, show
from sandbox.results import ChangeView
from sandbox.workspaces.git_obeyed import asked_to_sign, configured
from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.ignore_sources import Touched, touched
from sandbox.workspaces.obeyed_links import obeyed_links

_ORDER = (Outcome.LAND, Outcome.HOLD, Outcome.DISCARD)


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

    def not_as_approved(self, scripts: Sequence[str]) -> Effects:
        """Return the same effects, held because files that it ran were written to meanwhile; where
        there is nothing to hold, with a word on that."""
        why = _say_changed(scripts)
        outcome = self.judgement.outcome
        if not self.total or outcome is Outcome.DISCARD:
            message = "; ".join(
                filter(None, (self.judgement.message, say_not_as_approved(scripts)))
            )
        else:
            outcome = Outcome.HOLD
            message = f"held: {why} (not-as-approved); a person can look at it and land it"
        reasons = (PathReason("", outcome, "not-as-approved", why), *self.judgement.reasons)
        return replace(self, judgement=Judgement(outcome, reasons, message))

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


def say_not_as_approved(scripts: Sequence[str]) -> str:
    """Say of a call of which nothing lands that files which it ran were written to meanwhile."""
    return (
        f"{_say_changed(scripts)} (not-as-approved): what it printed, asked and sent may not be "
        "what was approved"
    )


def _say_changed(scripts: Sequence[str]) -> str:
    names = ", ".join(f"`{path}`" for path in scripts[:5])
    return f"{names} changed on the host after a person approved the call that runs it"


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
            others=tuple(workspace for workspace in workspaces if workspace != root),
        )
        for changes, root, before in zip(
            listed, workspaces, earlier or [frozenset()] * len(workspaces), strict=False
        )
    ]
    strictest = max(
        judgements, key=lambda one: _ORDER.index(one.outcome), default=Judgement(Outcome.LAND)
    )
    reasons = tuple(reason for judgement in judgements for reason in judgement.reasons)
    shown = show(listed, workspaces, paths, [judgement.reasons for judgement in judgements])
    return Effects(
        Judgement(strictest.outcome, reasons, strictest.message),
        shown,
        notice="; ".join(
            filter(None, map(_unsigned, listed, workspaces)),
        ),
        replaced=tuple(
            tuple(change.path for change in changes if takes_content(change, paths))
            for changes in listed
        ),
        touched=tuple(touched(items) for items in raw),
    )


def _unsigned(changes: Sequence[Change], root: str) -> str:
    """Return what a person is told of commits and tags that lack a signature."""
    found = [change for change in changes if change.unsigned]
    wanted = asked_to_sign(root, [change.path for change in found]) if found else frozenset()
    return unsigned_notice(found, wanted)


def _named(changes: Sequence[Change]) -> list[str]:
    return [
        path
        for change in changes
        for path in (change.path, change.source, *change.commits_others)
        if path is not None
    ]


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
