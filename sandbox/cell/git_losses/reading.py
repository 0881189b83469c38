# SPDX-License-Identifier: Apache-2.0
"""Files of a repository that git could no longer read: by their modes, or since they are no files.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..overlay.steps import Change

_OWNER_ENTERS, _OWNER_READS = 0o700, 0o400


def note_modes(changes: Mapping[str, Change]) -> Iterator[tuple[str, str]]:
    """Give what of a repository is made unreadable, or put as something else than a file.

    `changes` are those in it, by their paths there.
    """
    for path, change in changes.items():
        if change["kind"] == "deleted":
            continue
        if change["kind"] == "renamed" and not change.get("modified"):
            continue
        if change["type"] in ("symlink", "channel", "special"):
            yield path, "git keeps nothing but files and folders there"
        elif "mode" in change:
            needed = _OWNER_ENTERS if change["type"] == "directory" else _OWNER_READS
            if change["mode"] & needed != needed:
                yield path, "git could no longer read it"
