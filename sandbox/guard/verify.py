# SPDX-License-Identifier: Apache-2.0
"""Check, before a merge, that a person approved every change of a protected path.

    verify(path: Path, *, log: Log, base: str | None = None, tip: str = "HEAD",
           worktree: bool = False, workspace: str | None = None,
           paths: PathPolicy | None = None) -> Report

A path is approved when the record tells of a landing of it by a call that a person approved, or
that a person landed from hold, and what is committed is what landed; or when a person vouched for
exactly this content and mode. Where the record does not say
what landed, the newest landing of the path counts, and the report says so. No record means not
approved. Raises Unavailable where it cannot be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from policy.protected.paths import PathPolicy
from sandbox.audit import chain
from sandbox.audit.segments import Segments
from sandbox.errors import Unavailable
from sandbox.guard.landings import Landed, Landings, Tampered, Vouched
from sandbox.guard.untrusted_repository import Blob, Difference, Repository
from sandbox.text.terminal import safe_line
from sandbox.workspaces.protected_paths import GIT_SETTINGS, Protected, own_records, printable

COMMITTED, WORK_TREE = "committed", "work tree"
_RECORDS_RULE = "lockgate-records"
_FOLDER_RULE = "folder"


@dataclass(frozen=True, slots=True)
class Log:
    """An audit log, and the head that was kept of it."""

    file: Path
    head: Path | None = None
    """None: there may be one beside it, under the same name with `.head`."""
    own: bool = False
    """It is the log of this user's state folder, which always has a head."""

    def broken(self) -> str | None:
        """Return what is wrong with its chain, or None. Raises Unavailable when there is no log."""
        kept = self._kept()
        try:
            if kept is None and self.own and self.file.stat().st_size:
                return "the kept head of the log is gone"
            self.file.stat()
            return Segments(self.file).verify(kept)
        except OSError as error:
            raise Unavailable(
                f"no audit log: `{safe_line(str(self.file))}`: {(error.strerror or '').lower()}"
            ) from None

    def _kept(self) -> chain.Head | None:
        place = self._place
        try:
            return chain.read_head(place.read_text("ascii"))
        except FileNotFoundError:
            if self.head is None:
                return None
            raise Unavailable(f"no head of the log: `{safe_line(str(place))}`") from None
        except (OSError, ValueError):
            raise Unavailable(f"`{safe_line(str(place))}` is no head of a log") from None

    @property
    def head_kept(self) -> bool:
        """Whether there is a head, so that a cut tail shows."""
        return self._place.exists()

    @property
    def _place(self) -> Path:
        return self.head or self.file.parent / f"{self.file.stem}.head"


@dataclass(frozen=True, slots=True)
class Checked:
    """One protected path that changed."""

    path: str
    change: str
    """created, modified or deleted."""
    where: str
    rule: str
    approved: bool
    content: str | None
    """`equal` to what landed, or `not recorded`; None where nothing is approved."""
    by: str | None
    when: str | None
    call: str | None
    """None where nothing is approved, and where a person vouched for it."""
    reason: str
    """Why it is not approved; empty if it is."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    repository: str
    base: str
    tip: str
    branch: str | None
    """The default branch by which the base was found."""
    log: str
    chain: str | None
    """What is wrong with the log, or None."""
    head_kept: bool
    paths: tuple[Checked, ...]

    @property
    def approved(self) -> bool:
        """Whether the log is whole and every change approved."""
        return self.chain is None and all(path.approved for path in self.paths)

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {**asdict(self), "approved": self.approved}


def verify(
    path: Path,
    *,
    log: Log,
    base: str | None = None,
    tip: str = "HEAD",
    worktree: bool = False,
    workspace: str | None = None,
    paths: PathPolicy | None = None,
) -> Report:
    """Check what changed between `base` and `tip`; with `worktree`, what is not committed as well.

    `workspace` is the path of the repository as the log knows it, should that be another than here.
    """
    repository = Repository(path)
    end = repository.commit(tip)
    branch = None
    if base is not None:
        start = repository.commit(base)
    else:
        start, branch = repository.default_base(end)
    wrong = log.broken()
    protected = Protected(paths or PathPolicy.default())
    landings = landings_of(log, protected)
    root = _root(repository, landings, workspace)
    checked = []
    for where, one, rule in protected_changes(repository, protected, start, end, worktree=worktree):
        history = _history(landings, root, one.path)
        vouched = _vouched(landings, root, one.path)
        checked.append(_check(repository, one, where, rule, history, vouched))
    return Report(
        repository=str(repository.top),
        base=start,
        tip=end,
        branch=branch,
        log=str(log.file),
        chain=wrong,
        head_kept=log.head_kept,
        paths=tuple(checked),
    )


def landings_of(log: Log, protected: Protected) -> Landings:
    """Return what a log tells of protected paths. Raises OSError."""
    landings = Landings(
        log.file, lambda one: protected.rule_of(one) is not None or protected.lies_above(one)
    )
    landings.refresh()
    return landings


def protected_changes(
    repository: Repository, protected: Protected, start: str, end: str, *, worktree: bool
) -> Iterator[tuple[str, Difference, str]]:
    """Yield where each protected path changed (committed or in the work tree), what, its rule."""
    changed = [(COMMITTED, change) for change in repository.changes(start, end)]
    if worktree:
        changed += [
            (WORK_TREE, difference) for difference in _uncommitted(repository, protected, end)
        ]
    for where, one in changed:
        if rule := _rule(protected, repository, one):
            yield where, one, rule


def kind_of(one: Difference) -> str:
    """Return created, modified or deleted."""
    return "created" if one.before is None else "deleted" if one.after is None else "modified"


def _root(repository: Repository, landings: Landings, workspace: str | None) -> str:
    """Return the path of the repository as the log knows it."""
    told = landings.workspaces | landings.vouched_in
    known = landings.workspaces or told
    if workspace is not None:
        if known and not any(_related(workspace, one) for one in told):
            names = ", ".join(f"`{safe_line(one)}`" for one in sorted(known)[:5])
            raise Unavailable(
                f"the log knows no workspace `{safe_line(workspace)}`; it knows {names}"
            )
        return workspace
    here = str(repository.top)
    if not known or any(_related(here, one) for one in told):
        return here
    if len(known) == 1:
        return next(iter(known))
    names = ", ".join(f"`{safe_line(one)}`" for one in sorted(known)[:5])
    raise Unavailable(
        f"the log tells of {len(known)} workspaces; name this one with `--workspace`: {names}"
    )


def _related(one: str, other: str) -> bool:
    return Path(one).is_relative_to(other) or Path(other).is_relative_to(one)


def _history(landings: Landings, root: str, path: str) -> list[Landed | Tampered]:
    whole = f"{root}/{printable(path)}"
    found: list[Landed | Tampered] = []
    for workspace in landings.workspaces:
        if whole.startswith(workspace + "/"):
            found += landings.of(workspace, whole[len(workspace) + 1 :])
    return sorted(found, key=lambda one: one.end)


def _vouched(landings: Landings, root: str, path: str) -> list[Vouched]:
    whole = f"{root}/{printable(path)}"
    vouched_changes: list[Vouched] = []
    for workspace in landings.workspaces | landings.vouched_in:
        if whole.startswith(workspace + "/"):
            vouched_changes += landings.vouched(workspace, whole[len(workspace) + 1 :])
    return sorted(vouched_changes, key=lambda one: one.when)


def _uncommitted(repository: Repository, protected: Protected, tip: str) -> Iterator[Difference]:
    for name in repository.names(tip):
        if protected.rule_of(name) is None and not protected.lies_above(name):
            continue
        before = repository.committed(tip, name)
        after = repository.in_worktree(name)
        if before != after and (before is None or before.type != "directory"):
            yield Difference(name, before, after)


def _rule(protected: Protected, repository: Repository, difference: Difference) -> str | None:
    """Return the rule that protects a path, if its change counts."""
    links = [
        blob for blob in (difference.before, difference.after) if blob and blob.type == "symlink"
    ]
    rule = protected.rule_of(difference.path)
    if own_records(difference.path):
        return _RECORDS_RULE
    if rule is None:
        return _FOLDER_RULE if links and protected.lies_above(difference.path) else None
    if rule == GIT_SETTINGS and not links:
        if difference.after is None:
            return None
        texts = [
            (repository.content(blob) or b"").decode("utf-8", "replace")
            for blob in (difference.before, difference.after)
        ]
        return rule if protected.obeys(difference.path, *texts) else None
    return rule


def _check(
    repository: Repository,
    difference: Difference,
    where: str,
    rule: str,
    history: list[Landed | Tampered],
    vouched: list[Vouched],
) -> Checked:
    content = repository.content(difference.after)
    sha256 = None if content is None else hashlib.sha256(content).hexdigest()
    known = {
        "path": printable(difference.path),
        "change": kind_of(difference),
        "where": where,
        "rule": rule,
    }
    mode = difference.after.mode if difference.after else None
    for word in reversed(vouched):
        if (word.mode, word.sha256) == (mode, sha256):
            return Checked(
                **known,
                approved=True,
                content="equal",
                by=word.by,
                when=word.when,
                call=None,
                reason="",
            )
    found, equal, reason = _approval(history, difference.after, sha256)
    if found is None and vouched:
        reason = f"{vouched[-1].by} vouched for other content than this"
    return Checked(
        **known,
        approved=found is not None,
        content=None if found is None else "equal" if equal else "not recorded",
        by=found.approved_by if found else None,
        when=found.when if found else None,
        call=found.call if found else None,
        reason=reason,
    )


def _approval(
    history: list[Landed | Tampered], after: Blob | None, sha256: str | None
) -> tuple[Landed | None, bool, str]:
    """Return the approved landing and whether its content is known to be this; or why not."""
    # without undos and what they took back: what is left are the landings that still stand
    landed = [one for one in history if isinstance(one, Landed) and not one.undo]
    if not landed:
        return None, False, "no landing of it is recorded"
    approved = [one for one in landed if one.approved_by is not None]
    for one in reversed(approved):
        if one.exact and one.gone == (after is None) and one.sha256 == sha256:
            return one, True, ""
    last = landed[-1]
    if last.approved_by is None:
        return None, False, f"call {last.call} landed it, and no person approved that"
    if last.exact or last.gone != (after is None) or (after and after.type != last.type):
        other = "that deleted it" if last.gone else "not this content"
        but = "not its deletion" if after is None else other
        return None, False, f"{last.approved_by} approved call {last.call}, but {but}"
    around = [one for one in history if isinstance(one, Tampered) and not one.restored]
    if around and around[-1].end >= last.end:
        return None, False, f"it was changed around Lockgate at {around[-1].when[:19]}"
    return last, False, ""
