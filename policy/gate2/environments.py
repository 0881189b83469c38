# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on environments of installed packages: what a person runs or sources there. Pure.

A person types `source .venv/bin/activate` or `.venv/bin/python`, and editors run the latter. In an
environment that a call makes anew, all of it is the call's own; in one that was there, no program
changes these files: packages come beside them. What is installed is not looked at. Programs of
packages (`node_modules/.bin`) and what Python runs when it starts (`*.pth`) come and change by an
install: in a call that tells no program to install, they are held.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.values.comparison import normal

RULE = "virtual-environment"
_MARK = "pyvenv.cfg"
_RUN = re.compile(
    r"((?:.*/)?)(?:(?:bin|scripts)/(?:activate(?:\.(?:csh|fish|nu|ps1|bat|xsh)|_this\.py)?"
    r"|python(?:w|[23](?:\.[0-9]+)?)?(?:\.exe)?)"
    rf"|{re.escape(_MARK)})",
    re.DOTALL,
)
_ALWAYS = re.compile(r"(?:.*/)?site-packages/(?:site|user)customize(?:\.py|/.*)", re.DOTALL)
_INSTALLED = re.compile(
    r"((?:.*/)?)(?:lib(?:64)?/(?:[^/]+/)?(?:site|dist)-packages/[^/]+\.pth"
    r"|(?<=venv/)(?:bin|scripts)/[^/]+)"
    r"|((?:.*/)?\.?env[0-9.]{0,6}/)(?:bin|scripts)/[^/]+",
    re.DOTALL,
)
_LINKED = re.compile(r"((?:.*/)?node_modules)/\.bin/[^/]+", re.DOTALL)
_GENERATED = re.compile(r"(?:.*/)?obj/[^/]+\.(?:props|targets)", re.DOTALL)
_BUILDERS = frozenset(("dotnet", "msbuild", "nuget"))


class Environments:
    """The environments that a call's changes are about."""

    def __init__(self, changes: Iterable[Change], installers: Iterable[str]) -> None:
        """`installers` are the programs that the call tells to install or to build."""
        new = [change for change in changes if change.kind in (Kind.CREATED, Kind.RENAMED)]
        names = [normal(change.path) for change in new]
        self._made = {name[: -len(_MARK)] for name in names if f"/{name}".endswith(f"/{_MARK}")}
        self._folders = {normal(change.path) for change in new if change.type is FileType.DIRECTORY}
        told = frozenset(installers)
        self._installs = bool(told - _BUILDERS)
        self._builds = not told.isdisjoint(_BUILDERS)

    def reasons(self, change: Change) -> Iterator[PathReason]:
        """Yield the reasons why a change waits for a person."""
        if change.kind in (Kind.DELETED, Kind.META) or change.type is FileType.DIRECTORY:
            return
        name = normal(change.path)
        if _ALWAYS.fullmatch(name):
            because = "every Python of the environment runs it when it starts"
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
            return
        installed = _INSTALLED.fullmatch(name)
        linked = _LINKED.fullmatch(name)
        made = installed is not None and (installed[1] or installed[2] or "") in self._made
        made = made or (linked is not None and linked[1] in self._folders)
        run = _RUN.fullmatch(name)
        if run is not None and not (change.kind is not Kind.MODIFIED and run[1] in self._made):
            because = "people and editors run it of an environment that is there; make that anew"
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
        elif (installed or linked) and not (made or self._installs):
            because = (
                "it is run of packages that are installed, and the call tells no program to install"
            )
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
        elif _GENERATED.fullmatch(name) and not self._builds:
            because = "every build of .NET obeys it, and the call starts no such build"
            yield PathReason(change.path, Outcome.HOLD, RULE, because)
