# SPDX-License-Identifier: Apache-2.0
"""What is noted of changes in git's folders, within a time that no agent can stretch.

A call can leave there as much as it likes for the keeper to read, and whoever wants to read the
workspace waits meanwhile. What is not found out in that time cannot be found out: it is held.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Iterator
from types import FrameType

from ..git import commits, index
from ..git.entries import Contents
from ..git_folder import changes as folders
from ..git_folder import copies
from ..git_losses import index_entries, lost, signed
from ..overlay.steps import Change

MOST_SECONDS = 60.0
"""Of the processor's time: however busy the machine is, the same changes are looked through."""


class TookLong(BaseException):
    """The time is over. No error that what reads hostile files would expect and go on after."""


def note_git(
    changes: list[Change],
    root: str,
    upper: str,
    hidden: Collection[str],
    counts: Callable[[str], bool],
    seconds: float = MOST_SECONDS,
    contents: Contents | None = None,
) -> None:
    """Note what gate 2 must know of changes in git's folders. `counts`: paths that are protected,
    `contents` what is read of files that only commits hold.

    Where that takes too long, the call is marked to be held as a whole.
    """
    try:
        with _limited(seconds):
            index.note_dropped(changes, root, upper, hidden)
            folders.note_folders(changes, root, upper)
            copies.note_copies(changes, root, upper, counts)
            signed.note_unsigned(changes, root, upper)
            commits.note_commits(changes, root, upper, counts, contents)
            index_entries.note_entries(changes, root, upper, counts, contents)
            lost.note_lost(changes, root, upper, time.time())
    except TookLong:
        for change in changes[:1]:
            change["commits_odd"] = f"it takes more than {seconds:g} s to look through"


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TookLong in the block once it has used so much of the processor's time."""
    before = signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again where a finalizer swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise TookLong
