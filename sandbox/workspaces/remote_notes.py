# SPDX-License-Identifier: Apache-2.0
"""Which remotes agents' calls added to repositories: no push of a person's may come to go there.

It stands in the state folder, which no cell reaches. INVARIANT (P2, "nobody excuses themselves"):
a remote is noted before it lands, so that no crash makes it look like a person's. It counts as a
person's again when a person lands it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from policy.gate2.git.changed_settings import Remote, added_remotes
from policy.model import Kind
from sandbox.host import files as own_files

MOST = 5000
"""Remotes that are noted; where there are more, each may be an agent's."""
_MOST_BYTES = 16 << 20
_NAME = "config"


def new_remotes(items: Iterable[Mapping[str, Any]]) -> tuple[Remote, ...]:
    """Return the remotes that a keeper's raw changes add to repositories that were there."""
    found: list[Remote] = []
    for item in items:
        after = item.get("after_text")
        named = str(item["path"]).rpartition("/")[2].lower() == _NAME
        stood = item["kind"] != Kind.DELETED.value and item.get("git_new") != "new"
        if named and stood and after is not None:
            found += added_remotes(item.get("before_text"), after)
    return tuple(dict.fromkeys(found))


class RemoteNotes:
    """The notes of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "remotes"

    def known(self, workspace: str) -> frozenset[Remote] | None:
        """Return the remotes that calls added in a workspace, in one around it or in it.

        None where that is not known: each may be an agent's.
        """
        try:
            notes = self._read()
        except (OSError, ValueError, TypeError):
            return None
        if len(notes) > MOST:
            return None
        here = PurePosixPath(workspace)
        return frozenset(
            (name, url)
            for other, name, url in notes
            if here.is_relative_to(other) or PurePosixPath(other).is_relative_to(here)
        )

    def about_to_land(self, workspace: str, remotes: Iterable[Remote], *, person: bool) -> None:
        """Note remotes that are about to land. Raises Unavailable."""
        with own_files.locked(self._folder / "remotes.lock", self._folder):
            try:
                notes = self._read()
            except (OSError, ValueError, TypeError):
                return  # it stays unreadable, and each may be an agent's
            own = {(workspace, *remote) for remote in remotes}
            now = notes - own if person else notes | own
            if now != notes and len(notes) <= MOST:
                own_files.write(self._file, json.dumps(sorted(now)))

    def _read(self) -> set[tuple[str, str, str]]:
        try:
            with own_files.opened(self._file) as opened:
                data = json.loads(opened.read(_MOST_BYTES))
        except FileNotFoundError:
            return set()
        return {(str(workspace), str(name), str(url)) for workspace, name, url in data}
