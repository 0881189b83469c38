# SPDX-License-Identifier: Apache-2.0
"""What git held and nothing else holds any more: it goes away only with a person's word.

Pure. What is lost is found out where the files are (`sandbox/cell/git_losses/lost.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policy.model import Change, FileType, Kind, Outcome, PathReason


def losses(change: Change, is_named: Callable[[str], bool]) -> Iterator[PathReason]:
    """Yield the reasons why a change of a repository waits for a person.

    A repository that goes away as a whole may have been named by its call (`rm -rf clone`), as any
    folder; what goes away inside of one that stays is always held.
    """
    whole = change.kind is Kind.DELETED and change.type is FileType.DIRECTORY
    if whole and is_named(change.path):
        return
    for why in change.loses:
        yield PathReason(change.path, Outcome.HOLD, "git-history", why)
