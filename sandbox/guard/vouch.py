# SPDX-License-Identifier: Apache-2.0
"""Work out what a person is about to vouch for: their own changes of protected paths.

    to_vouch(path: Path, names, *, base, tip, worktree, paths) -> tuple[str, list[Change]]

What is vouched for is a path with exactly one content and mode, which `verify` accepts from then
on. Writes nothing. Raises Unavailable where the repository cannot be read, BadInput for a path for
which nobody has to vouch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.protected.paths import PathPolicy
from sandbox.errors import BadInput
from sandbox.guard.untrusted_repository import SUBMODULE, Repository
from sandbox.guard.verify import kind_of, protected_changes
from sandbox.text.terminal import safe_line
from sandbox.workspaces.protected_paths import Protected, printable


@dataclass(frozen=True, slots=True)
class Change:
    """One change that a person is shown before they vouch for it."""

    path: str
    """As the record writes it."""
    kind: str
    rule: str
    mode_before: str | None
    mode: str | None
    """As git writes it; None where nothing is at the path."""
    before: bytes | None
    after: bytes | None

    def as_record(self) -> dict[str, Any]:
        """Return what the record holds of it."""
        digest = None if self.after is None else hashlib.sha256(self.after).hexdigest()
        return {"path": self.path, "kind": self.kind, "mode": self.mode, "sha256": digest}


def to_vouch(
    path: Path,
    names: Sequence[str],
    *,
    base: str | None = None,
    tip: str = "HEAD",
    worktree: bool = False,
    paths: PathPolicy | None = None,
) -> tuple[str, list[Change]]:
    """Return the repository at `path`, and what changed in it at `names` (relative to `path`).

    Looked at is what `verify` looks at with the same options; of a path that changed in commits
    and again since, the work tree counts.
    """
    repository = Repository(path)
    end = repository.commit(tip)
    start = repository.commit(base) if base is not None else repository.default_base(end)[0]
    protected = Protected(paths or PathPolicy.default())
    found = {
        one.path: (one, rule)
        for _, one, rule in protected_changes(repository, protected, start, end, worktree=worktree)
    }
    changes = []
    for name in dict.fromkeys(relative_name(repository.top, path, name) for name in names):
        if name not in found:
            where = "" if worktree else "; what is not committed yet counts with `--worktree`"
            raise BadInput(
                f"`{safe_line(name)}` is no protected path that changed since "
                f"`{safe_line(base or start[:12])}`, so nobody has to vouch for it{where}"
            )
        one, rule = found[name]
        if one.after is not None and one.after.mode == SUBMODULE:
            raise BadInput(f"`{safe_line(name)}` is a submodule; nobody can vouch for its content")
        changes.append(
            Change(
                path=printable(name),
                kind=kind_of(one),
                rule=rule,
                mode_before=one.before.mode if one.before else None,
                mode=one.after.mode if one.after else None,
                before=repository.content(one.before),
                after=repository.content(one.after),
            )
        )
    return str(repository.top), changes


def relative_name(top: Path, here: Path, name: str) -> str:
    """Return a path, given as seen from `here`, as the repository knows it. Raises BadInput.

    The folder that it lies in is resolved; the path itself may be a link.
    """
    whole = Path(os.path.abspath(here / name))  # noqa: PTH100
    place = Path(os.path.realpath(whole.parent)) / whole.name
    if not place.is_relative_to(top) or place == top:
        raise BadInput(f"`{safe_line(name)}` is no path in `{safe_line(str(top))}`")
    return str(place.relative_to(top))
