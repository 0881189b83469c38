# SPDX-License-Identifier: Apache-2.0
"""Which toolchains of this host the cells of a workspace see: what a person has said, and no more.

The record lies in the state folder, where no call writes. What stands at a recorded path is looked
at each time that a cell is made. INVARIANT (P5, toolchains): a folder is shown only if a person
agreed to exactly this path for exactly this workspace, path and real path are of the table, it
belongs to root or to this user, nobody else may write it, its folder of programs or its program,
and no workspace reaches it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from policy.people.toolchains import Toolchains
from sandbox.errors import BadInput
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.workspaces.forbidden import quoted
from sandbox.workspaces.registry import Registry


@dataclass(frozen=True, slots=True)
class Shown:
    """A folder of the host that a cell sees."""

    path: str
    """Where: the path that the project's files name."""
    source: str
    """The same without links."""
    programs: str | None = None
    """Its folder of programs, where that stands first in PATH."""


class ToolchainRecord:
    """What a person has agreed to show, for each workspace."""

    def __init__(self, dirs: Dirs, *, home: str | None = None) -> None:
        self._dirs = dirs
        self._file = dirs.state / "toolchains.json"
        self._registry = Registry(dirs)
        self._home = home or self._registry.home

    @property
    def home(self) -> str:
        """The person's home, without links."""
        return self._home

    def of(self, workspace: str) -> tuple[str, ...]:
        """Return what was agreed for a workspace. Raises BadInput where the record is broken."""
        return self._read().get(workspace, ())

    def agree(self, workspace: str, paths: Sequence[str]) -> None:
        """Record a person's word; it takes the place of what was agreed before."""
        with self._locked():
            known = {**self._read(), workspace: tuple(paths)}
            kept = {key: list(value) for key, value in known.items() if value}
            own_files.write(self._file, json.dumps({"toolchains": kept}, indent=1) + "\n")

    def shown(self, workspaces: Sequence[str]) -> tuple[Shown, ...]:
        """Return what cells of these workspaces see now; what is in doubt is left out."""
        found: dict[str, Shown] = {}
        for workspace in workspaces:
            for path in self.of(workspace):
                if path not in found and not self.problem(path):
                    found[path] = self._shown(path)
                    real = found[path].source  # where its own links may lead
                    found.setdefault(real, Shown(real, real))
        return tuple(found.values())

    def problem(self, path: str) -> str:
        """Return why a folder cannot be shown to cells, or nothing."""
        table = Toolchains.default()
        real = os.path.realpath(path)
        kind = table.of(path, self._home)
        if kind is None:
            return f"{quoted(path)} is no toolchain of the table"
        if real != path and table.of(real, self._home) is None:
            return f"{quoted(path)} is really {quoted(real)}, which is no toolchain of the table"
        if not os.path.isfile(os.path.join(real, kind.program)):  # noqa: PTH113, PTH118
            return f"{quoted(path)} holds no `{kind.program}`"
        for workspace in self._registry.list():
            inner, outer = Path(real), workspace.path
            if inner.is_relative_to(outer) or Path(outer).is_relative_to(inner):
                return f"{quoted(path)} is in the workspace {quoted(outer)}, where agents write"
        return _open_to_others(real, kind.program)

    def _shown(self, path: str) -> Shown:
        kind = Toolchains.default().of(path, self._home)
        assert kind is not None
        leads = f"{path}/{os.path.dirname(kind.program)}" if kind.leads else None  # noqa: PTH120
        return Shown(path, os.path.realpath(path), leads)

    def _read(self) -> dict[str, tuple[str, ...]]:
        try:
            data = json.loads(own_files.read(self._file))
            return {str(k): tuple(map(str, v)) for k, v in data["toolchains"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise BadInput(
                f"`{self._file}` cannot be read; remove it, and `lockgate init` asks again"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._dirs.create()
        with own_files.locked(self._dirs.state / "toolchains.lock", self._file):
            yield


def _open_to_others(real: str, program: str) -> str:
    """Say who else could put something in a folder's place, or into it; or nothing.

    In it the program and the folder of programs are looked at. Above it a folder like /tmp will do,
    where nobody renames what is another's (sticky); not for the toolchain itself.
    """
    own = {0, os.geteuid()}
    inside = Path(real, program)
    for place in (inside, inside.parent, Path(real), *Path(real).parents):
        try:
            info = place.stat() if place == inside else place.lstat()
        except OSError as error:
            return f"{quoted(str(place))} cannot be looked at: {error.strerror}"
        if info.st_uid not in own:
            return f"{quoted(str(place))} belongs to another user (uid {info.st_uid})"
        others = stat.S_IWOTH | (stat.S_IWGRP if info.st_gid not in (0, os.getegid()) else 0)
        above = Path(real).is_relative_to(place) and place != Path(real)
        if info.st_mode & others and not (above and info.st_mode & stat.S_ISVTX):
            return f"{quoted(str(place))} can be written by others"
    return ""
