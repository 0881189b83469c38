# SPDX-License-Identifier: Apache-2.0
"""Gate 2: say of a transaction's changes whether they land, wait for a person, or are thrown away.

Pure: no I/O, no clock; same changes, same answer. It looks at what changed, never at how, so that
no trick of spelling, linking or renaming matters. The strictest reason decides for the whole
transaction; a further change can only tighten the answer.

INVARIANT (P3, judge): a change of a governance path, of what it was renamed from, or of a link in
place of a folder that holds one, discards the transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from policy.gate2.compiled import Compiled, is_compiled, is_native
from policy.gate2.deletions import NamedPaths, deletion_reasons, in_git, replacement_reasons, tidy
from policy.gate2.environments import Environments
from policy.gate2.git.changed_settings import Remote
from policy.gate2.git.changes import GitChanges
from policy.gate2.git.judged import folder_reasons, pointer_reason, settings_reasons
from policy.gate2.git.losses import losses
from policy.gate2.git.named_by_git import NOTHING, Configured
from policy.gate2.link_targets import leaves, said
from policy.gate2.links import NO_LINKS, Linked, linked_reasons, unknown_links
from policy.gate2.modes import mode_reasons
from policy.gate2.settings_files import manifest_reasons, settings_reason
from policy.model import Access, Change, Decision, FileType, Judgement, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from policy.protected.printable import on_one_line as _shown
from policy.values.comparison import normal
from policy.values.odd_names import why_odd

SHOWN = 3
"""Paths that a message names for each reason."""
_STRICTNESS = (Outcome.DISCARD, Outcome.HOLD, Outcome.LAND)
_OBJECT = re.compile(
    r"(?:.*/)?\.git/(?:.*/)?objects/(?:[0-9a-f]{2}/[0-9a-f]{38,}|pack/[^/]*\.(?:pack|idx))",
    re.DOTALL,
)
_OTHERS_WRITE = 0o022


def judge(
    decision: Decision,
    changes: Sequence[Change],
    paths: PathPolicy,
    *,
    workspace: str | None = None,
    configured: Configured = NOTHING,
    linked: Linked = NO_LINKS,
    agents_remotes: Set[Remote] | None = frozenset(),
    earlier: frozenset[str] = frozenset(),
    indexes: frozenset[str] = frozenset(),
    others: Sequence[str] = (),
) -> Judgement:
    """Judge a whole transaction.

    `workspace` is the absolute path at which the call saw the workspace; links to it stay inside.
    `configured` is what git on the host obeys in it because a setting says so, `linked` where links
    lead that were there before. `agents_remotes` are remotes that agents' calls added to its
    repositories before; None where any may be one. `earlier` is what the agent's calls of the last
    day took the content of. `indexes` are package indexes of the host (`https://host`) that the
    call got packages from: what it installed may name them. `others` are the other workspaces that
    the call saw, where links may lead as well.
    """
    reasons: list[PathReason] = []
    advice: dict[str, str] = {}
    named = NamedPaths(decision.named_deletions)
    moved = NamedPaths((*decision.named_deletions, *decision.named_moves))
    git = GitChanges(changes, workspace, agents_remotes)
    compiled = Compiled(changes)
    environments = Environments(changes, decision.installers)
    for change in changes:
        reasons += _governance(change, paths, advice)
        if decision.rights.workspace is not Access.WRITE:
            reasons.append(
                PathReason(
                    change.path, Outcome.DISCARD, "no-right-to-write", "the call may only read"
                )
            )
        if not (_is_copy(change) or git.goes_with_its_work_tree(change)):
            reasons += [*_obeyed(change, paths, git)] or [*folder_reasons(change, git)]
            reasons += manifest_reasons(change, paths, indexes)
            reasons += _configured(change, configured)
            reasons += linked_reasons(change, linked, paths)
            reasons += settings_reasons(change, paths, git)
        reasons += _hidden_tracked(change)
        reasons += _commits(change, paths, configured, linked)
        reasons += _entries(change, paths, git, workspace, others)
        reasons += losses(change, moved.covers)
        reasons += deletion_reasons(change, named, moved, paths, git)
        reasons += _link(change, paths, workspace, others)
        reasons += _plain(change)
        reasons += mode_reasons(change)
        reasons += _odd_name(change)
        reasons += compiled.reasons(change)
        reasons += environments.reasons(change)
    reasons += replacement_reasons(changes, named, paths, earlier)
    reasons += _limits(decision, changes, paths)
    reasons += unknown_links(linked) if changes else ()
    if not reasons:
        return Judgement(Outcome.LAND, (), _name_channels(changes))
    reasons.sort(key=lambda reason: _STRICTNESS.index(reason.outcome))  # stable
    return Judgement(reasons[0].outcome, tuple(reasons), _message(reasons, advice))


def _ends(change: Change) -> tuple[str, ...]:
    """Return the paths that a change touches: where it is, and where it was."""
    return (change.path,) if change.source is None else (change.path, change.source)


def _is_copy(change: Change) -> bool:
    """Whether a person decided on a file already: the same stands beside the new check-out."""
    plain = change.kind is Kind.CREATED and change.type is FileType.FILE
    return plain and bool(change.copy_of)


def _is_link(change: Change) -> bool:
    return change.type is FileType.SYMLINK and change.kind is not Kind.DELETED


def _governance(change: Change, paths: PathPolicy, advice: dict[str, str]) -> Iterator[PathReason]:
    for path in _ends(change):
        rule = paths.governance_of(path)
        if rule is None and _is_link(change) and path == change.path:
            rule = paths.governance_below(path)
        if rule is not None:
            reason = f"it is protected by {rule.name}"
            advice.setdefault(rule.id, rule.allowed_path)
            yield PathReason(path, Outcome.DISCARD, rule.id, reason)


def _obeyed(change: Change, paths: PathPolicy, git: GitChanges) -> Iterator[PathReason]:
    if change.type is FileType.DIRECTORY:
        above = paths.obeyed_below(change.path) if change.kind is Kind.META else None
        if change.kind is Kind.META and not tidy(change.path) and change.mode & _OTHERS_WRITE:
            because = "whoever may write into the workspace may put there what the host obeys"
            yield PathReason(change.path, Outcome.HOLD, "workspace-mode", because)
        # Its mode decides who may put something there, and who may read it; see gate2.modes.
        if above is not None and (change.before_mode is None or not above.source):
            yield PathReason(
                change.path, Outcome.HOLD, above.id, f"it holds what counts: {above.because}"
            )
        return  # what it holds is listed by itself
    pointer = pointer_reason(change, git)
    if pointer is not None:
        yield pointer
        return
    for path in _ends(change):
        rule = paths.obeyed_of(path)
        if rule is None and _is_link(change) and path == change.path:
            rule = paths.obeyed_below(path)
        if rule is not None:
            by_content = rule.format is not None and rule.covers(normal(path))
            why = settings_reason(rule, path, change) if by_content else rule.because
            if why is not None:
                yield PathReason(path, Outcome.HOLD, rule.id, why)
                return
    if _is_link(change) and in_git(change.path):
        yield PathReason(
            change.path, Outcome.HOLD, "git-links", "git keeps no links in its own folder"
        )


def _configured(change: Change, configured: Configured) -> Iterator[PathReason]:
    for path in _ends(change):
        if change.type is FileType.DIRECTORY and change.kind is not Kind.META:
            because = None  # what it holds is listed by itself
        elif change.type is FileType.DIRECTORY or (_is_link(change) and path == change.path):
            because = configured.because(path) or configured.below(path)
        else:
            because = configured.because(path)
        if because is not None:
            yield PathReason(path, Outcome.HOLD, "git-configured", because)
            return


def _hidden_tracked(change: Change) -> Iterator[PathReason]:
    if change.drops_hidden:
        lost = _several(change.drops_hidden)
        yield PathReason(
            change.path,
            Outcome.HOLD,
            "hidden-tracked",
            f"{lost} would leave the repository, only because calls cannot see it; instead of "
            "`-a` or `-A`, name what to commit: `git add FILE…`, `git commit FILE…`",
        )


def _is_index(change: Change) -> bool:
    return change.path.rpartition("/")[2] == "index"


def _commits(
    change: Change, paths: PathPolicy, configured: Configured, linked: Linked
) -> Iterator[PathReason]:
    holder = "the index lists" if _is_index(change) else "a new commit holds"
    others = "HEAD's" if holder.startswith("the") else "its parent's"
    for path in (*change.commits, *filter(is_native, change.commits_others)):
        compiled = is_compiled(path) or is_native(path)
        rules = paths.governance_of(path), paths.obeyed_of(path)
        if any(rules) or paths.is_secret(path) or compiled:
            because = f"{holder} it with a content that is neither {others} nor the file's"
            if compiled and not any(rules):
                because += ", and compiled Python of a call does not land: ignore `__pycache__/`"
            yield PathReason(path, Outcome.HOLD, "commit-content", because)
    if configured.files or configured.folders or linked.targets:
        for path in change.commits_others:
            because_of = configured.because(path) or configured.below(path)
            because_of = because_of or linked.because(path, paths)
            if because_of is not None:
                because = f"{holder} it with a content of its own, and {because_of}"
                yield PathReason(path, Outcome.HOLD, "commit-content", because)
        if change.commits_cut:
            because = "more paths differ than are compared with what git on the host obeys"
            yield PathReason(change.path, Outcome.HOLD, "commit-content", because)
    if change.kind is Kind.MODIFIED and _OBJECT.fullmatch(normal(change.path)):
        because = "git never changes an object that is there"
        yield PathReason(change.path, Outcome.HOLD, "git-substitutes", because)
    if change.commits_odd:
        because = f"what new commits hold cannot be found out: {_shown(change.commits_odd)}"
        yield PathReason(change.path, Outcome.HOLD, "commit-content", because)


def _entries(
    change: Change,
    paths: PathPolicy,
    git: GitChanges,
    workspace: str | None,
    others: Sequence[str],
) -> Iterator[PathReason]:
    """Judge what only a commit or an index holds as what a check-out would make of it."""
    verb = "the index lists" if _is_index(change) else "a new commit holds"
    for path in change.commits_others:
        if why := why_odd(path):
            yield PathReason(path, Outcome.HOLD, "commit-content", f"{verb} it, and {why}")
    for told in change.commits_entries:
        was = bool(told.get("was"))
        made = Change(
            told["path"],
            Kind.MODIFIED if was else Kind.CREATED,
            FileType(told["type"]),
            target=told.get("target"),
            before_text=told.get("before_text"),
            after_text=told.get("after_text"),
        )
        for reason in (
            *_governance(made, paths, {}),
            *_obeyed(made, paths, git),
            *manifest_reasons(made, paths),
            *settings_reasons(made, paths, git),
            *_link(made, paths, workspace, others),
        ):
            because = f"{verb} it: {reason.reason}"
            yield PathReason(made.path, Outcome.HOLD, "commit-content", because)
            break


def _link(
    change: Change, paths: PathPolicy, workspace: str | None, others: Sequence[str]
) -> Iterator[PathReason]:
    if not _is_link(change) or change.kind is Kind.META:
        return
    target = change.target or ""
    moved = change.kind is Kind.RENAMED and not change.modified and change.source is not None
    if moved and (target[:1] == "/" or leaves(change.source or "", target, workspace, others)):
        return  # it pointed there before
    out = leaves(change.path, target, workspace, others)
    if out and not paths.allows_link(change.path, target):
        yield PathReason(change.path, Outcome.HOLD, "link-leaves", said(target))


def _plain(change: Change) -> Iterator[PathReason]:
    if change.kind is not Kind.DELETED:
        if change.type is FileType.SPECIAL:
            yield PathReason(change.path, Outcome.HOLD, "special", "device nodes never land")
        elif change.type is FileType.FILE and change.mode & 0o6000:
            yield PathReason(
                change.path, Outcome.HOLD, "set-id", "set-user-id and set-group-id bits never land"
            )
    if change.hidden:
        yield PathReason(
            change.path, Outcome.HOLD, "hidden", "it is hidden from calls, as a secret"
        )
    if change.conflict:
        yield PathReason(
            change.path, Outcome.HOLD, "conflict", "the real file changed while the call ran"
        )


def _odd_name(change: Change) -> Iterator[PathReason]:
    """Hold a name that is new, and that programs take for something else."""
    if change.kind in (Kind.CREATED, Kind.RENAMED):
        why = why_odd(change.path)
        if why and why != why_odd(change.source or ""):
            yield PathReason(change.path, Outcome.HOLD, "odd-name", why)


def _limits(
    decision: Decision, changes: Sequence[Change], paths: PathPolicy
) -> Iterator[PathReason]:
    limits = decision.rights.limits
    most_files = min(limits.changed_files, paths.limits.changed_files)
    most_bytes = min(limits.changed_bytes, paths.limits.changed_bytes)
    if len(changes) > most_files:
        reason = f"{len(changes)} paths changed, {most_files} is the limit"
        yield PathReason("", Outcome.HOLD, "limit", reason)
    written = sum(change.size for change in changes if change.kind is not Kind.DELETED)
    if written > most_bytes:
        reason = f"{written} bytes changed, {most_bytes} is the limit"
        yield PathReason("", Outcome.HOLD, "limit", reason)


def _name_channels(changes: Sequence[Change]) -> str:
    """Return what is said of sockets and FIFOs that a call leaves behind; empty without any."""
    names = [
        change.path
        for change in changes
        if change.type is FileType.CHANNEL and change.kind is not Kind.DELETED
    ]
    return f"sockets and FIFOs do not land: {_several(names)}" if names else ""


def _message(reasons: Sequence[PathReason], advice: dict[str, str]) -> str:
    outcome = reasons[0].outcome
    groups: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        if reason.outcome is outcome:
            groups.setdefault((reason.rule, reason.reason), []).append(reason.path)
    said = [
        (f"{_several(named)}: " if (named := [*filter(None, dict.fromkeys(found))]) else "")
        + f"{why} ({rule})"
        for (rule, why), found in groups.items()
    ]
    more = f"; and {len(said) - SHOWN} more reasons" if len(said) > SHOWN else ""
    text = "; ".join(said[:SHOWN]) + more
    if outcome is Outcome.HOLD:
        return f"held, nothing landed yet: {text}; a person can land or discard it"
    ways = [advice.get(rule, "use a call that may write") for rule, _ in groups]
    return f"discarded, nothing landed: {text}; instead, {'; or '.join(dict.fromkeys(ways))}"


def _several(found: Sequence[str]) -> str:
    names = ", ".join(f"`{_shown(path)}`" for path in found[:SHOWN])
    return names + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
