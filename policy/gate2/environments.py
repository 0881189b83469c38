# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of Python that are there: what a person runs or sources of them. Pure.

A person types `source .venv/bin/activate` or `.venv/bin/python`, and editors run the latter. In an
environment that a call makes anew, all of it is the call's own; in one that was there, no program
changes these files: packages come beside them. What is installed is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.values.filenames import normal

RULE = "virtual-environment"
_MARK = "pyvenv.cfg"
_RUN = re.compile(
    r"((?:.*/)?)(?:(?:bin|scripts)/(?:activate(?:\.(?:csh|fish|nu|ps1|bat|xsh)|_this\.py)?"
    r"|python(?:w|[23](?:\.[0-9]+)?)?(?:\.exe)?)"
    rf"|{re.escape(_MARK)})",
    re.DOTALL,
)
_ALWAYS = re.compile(r"(?:.*/)?site-packages/(?:site|user)customize(?:\.py|/.*)", re.DOTALL)


class Environments:
    """The environments that a call's changes are about."""

    def __init__(self, changes: Iterable[Change]) -> None:
        names = (normal(one.path) for one in changes if one.kind in (Kind.CREATED, Kind.RENAMED))
        self._made = {one[: -len(_MARK)] for one in names if f"/{one}".endswith(f"/{_MARK}")}

    def reasons(self, change: Change) -> Iterator[PathReason]:
        """Give why a change waits for a person."""
        if change.kind in (Kind.DELETED, Kind.META) or change.type is FileType.DIRECTORY:
            return
        name = normal(change.path)
        if _ALWAYS.fullmatch(name):
            because = "every Python of the environment runs it when it starts"
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
            return
        run = _RUN.fullmatch(name)
        if run is not None and not (change.kind is not Kind.MODIFIED and run[1] in self._made):
            because = "people and editors run it of an environment that is there; make that anew"
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
