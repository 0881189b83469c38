# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on mode bits and access lists: nobody else gets at a file by a call's own doing. Pure.

Compared with what was there before: a file that others could write stays as it is. What a usual
umask gives to a new file lands, and so does making a program of one (`chmod +x`).
"""

from __future__ import annotations

from collections.abc import Iterator

from policy.model import Change, FileType, Kind, Outcome, PathReason

OTHERS_MODE = "others-mode"
ACCESS_LIST = "access-list"
OWNER_MODE = "owner-mode"
_WRITE, _READ, _PASS = 0o022, 0o044, 0o011
_STICKY, _SET_GROUP = 0o1000, 0o2000
_OTHERS_WRITE = 0o002


def mode_reasons(change: Change) -> Iterator[PathReason]:
    """Yield why a person decides on the mode or the access lists that a change leaves."""
    if change.kind is Kind.DELETED or change.type not in (FileType.FILE, FileType.DIRECTORY):
        return
    folder = change.type is FileType.DIRECTORY
    if why := _others(change, folder=folder):
        yield PathReason(change.path, Outcome.HOLD, OTHERS_MODE, why)
    if change.access_list:
        why = "an access list gives others more than they had"
        yield PathReason(change.path, Outcome.HOLD, ACCESS_LIST, why)
    if _shut_out(change, 0o500 if folder else 0o400):
        why = f"its owner could not read it any more{_said(change)}"
        yield PathReason(change.path, Outcome.HOLD, OWNER_MODE, why)


def _others(change: Change, *, folder: bool) -> str:
    after = change.mode
    if change.before_mode is None:
        new = change.kind is Kind.CREATED and after & _OTHERS_WRITE
        return f"anybody could write to it{_said(change)}" if new else ""
    gained = after & ~change.before_mode
    if gained & _WRITE:
        return f"others could write to it{_said(change)}"
    if gained & (_READ | (_PASS if folder else 0)):
        return f"others could read it{_said(change)}"
    if folder and change.before_mode & _STICKY & ~after and after & _WRITE:
        return f"others could remove what is not theirs{_said(change)}"
    if folder and gained & _SET_GROUP:
        return f"what is made in it would belong to its group{_said(change)}"
    return ""


def _shut_out(change: Change, needed: int) -> bool:
    before = change.before_mode
    return before is not None and before & needed == needed != change.mode & needed


def _said(change: Change) -> str:
    if change.before_mode is None:
        return f": its mode is {change.mode:04o}"
    return f": its mode was {change.before_mode:04o} and becomes {change.mode:04o}"
