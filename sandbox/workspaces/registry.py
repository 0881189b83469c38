# SPDX-License-Identifier: Apache-2.0
"""The registered workspaces: which folders of the host a call may work in.

Checks paths and keeps the list; asks nobody and prints nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from policy.model import Workspace
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.text.terminal import safe_line
from sandbox.workspaces.forbidden import SECRET, SYSTEM, absolute, homes, quoted, walk

_OBEYED = frozenset(("bin", "library", "_vimrc", "vimfiles"))
"""Folders of a home, beside the hidden ones, from which programs run without being named."""


class State(str, Enum):
    """How a registered workspace stands now."""

    READY = "ready"
    GONE = "gone"
    CHANGED = "changed"
    """Something else stands at the path: a link, a file, a folder that may not be read."""


@dataclass(frozen=True, slots=True)
class Status:
    """One registered workspace and how it stands."""

    path: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a path may be used by a call (orchestration.md, duro_workspace_validate)."""

    path: str
    valid: bool
    workspace: str | None
    """The registered workspace that holds the path."""
    reason: str


class NeedsApproval(BadInput):
    """The folder lies outside the home, or programs obey it; a person has to say yes first."""


class Registry:
    """The list of workspaces in the state folder."""

    def __init__(self, dirs: Dirs, *, home: Path | None = None) -> None:
        self._dirs = dirs
        self._file = dirs.state / "workspaces.json"
        self._home = Path(os.path.realpath(home or Path("~").expanduser()))

    @property
    def home(self) -> str:
        """Return the user's home on this host, without links."""
        return str(self._home)

    def list(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces, in the order of their paths."""
        try:
            data = json.loads(self._file.read_text("utf-8"))
            return tuple(Workspace(str(item["path"])) for item in data["workspaces"])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(
                f"`{self._file}` cannot be read; remove it and add the workspaces again"
            ) from None

    def add(self, path: str | Path, *, approved: bool = False) -> Workspace:
        """Register a folder; one that is registered already is returned as it is.

        Raises BadInput with the reason, or NeedsApproval for a folder outside the home, or one that
        programs obey. INVARIANT (P3, delicate): rules go by names from a workspace's top, so that
        in a workspace `.github` nothing would be a workflow.
        """
        workspace = self.check(path)
        if (
            not approved
            and workspace not in self.list()
            and (why := self._delicate(workspace.path))
        ):
            raise NeedsApproval(f"{quoted(workspace.path)} {why}; adding it needs your yes")
        if not approved and not self.at_home(workspace.path):
            raise NeedsApproval(
                f"{quoted(workspace.path)} lies outside your home; adding it needs your yes"
            )
        with self._locked() as known:
            if workspace not in known:
                self._refuse_nesting(workspace.path, known)
                self._write((*known, workspace))
        return workspace

    def remove(self, path: str | Path) -> Workspace:
        """Take a folder off the list; its files stay as they are. Raises BadInput."""
        gone = Workspace(absolute(path))
        with self._locked() as known:
            if gone not in known:
                raise BadInput(f"{quoted(gone.path)} is not a registered workspace")
            self._write(tuple(item for item in known if item != gone))
        return gone

    def status(self) -> tuple[Status, ...]:
        """Return each registered workspace with how it stands now."""
        statuses = []
        for item in self.list():
            try:
                self.check(item.path)
                statuses.append(Status(item.path, State.READY))
            except BadInput as error:
                there = os.path.lexists(item.path)
                statuses.append(
                    Status(item.path, State.CHANGED if there else State.GONE, str(error))
                )
        return tuple(statuses)

    def holding(self, path: str | Path) -> Workspace | None:
        """Return the registered workspace that holds `path` (by component), or None."""
        wanted = Path(absolute(path))
        for item in self.list():
            if wanted.is_relative_to(item.path):
                return item
        return None

    def find(self, path: str | Path) -> Workspace:
        """Return the registered workspace at exactly this path, as it stands now.

        Raises BadInput: not registered, or something else has taken its place.
        """
        wanted = Workspace(absolute(path))
        if wanted in self.list():
            return self.check(wanted.path)
        walk(wanted.path)
        if outer := self.holding(wanted.path):
            raise BadInput(
                f"{quoted(wanted.path)} is not a workspace but lies in {quoted(outer.path)}; "
                "name that one"
            )
        raise BadInput(
            f"{quoted(wanted.path)} is not a registered workspace; "
            "`lockgate workspace add` registers it"
        )

    def around(self, path: str | Path) -> Workspace:
        """Return the registered workspace that holds a folder. Raises BadInput."""
        workspace = self.holding(path)
        if workspace is None:
            raise BadInput(
                f"{quoted(absolute(path))} is in no registered workspace; `lockgate init` "
                "registers it, `-w PATH` names another"
            )
        return self.check(workspace.path)

    def validate(self, path: str | Path) -> Validation:
        """Say for any path whether a call may use it, and why."""
        try:
            wanted = absolute(Path(path).expanduser())
        except BadInput as error:
            return Validation(safe_line(str(path)), valid=False, workspace=None, reason=str(error))
        real = os.path.realpath(wanted)
        inside = self.holding(real)
        if reason := self._forbidden(real):
            return Validation(wanted, valid=False, workspace=None, reason=reason)
        if inside is None:
            reason = f"{quoted(wanted)} is in no registered workspace"
            if real != wanted:
                reason = f"{quoted(wanted)} is really {quoted(real)}, in no registered workspace"
            return Validation(wanted, valid=False, workspace=None, reason=reason)
        for status in self.status():
            if status.path == inside.path and status.state is not State.READY:
                return Validation(wanted, valid=False, workspace=inside.path, reason=status.reason)
        reason = f"inside {quoted(inside.path)}"
        return Validation(wanted, valid=True, workspace=inside.path, reason=reason)

    def at_home(self, path: str) -> bool:
        """Whether a path lies below the home, so that adding it needs no approval."""
        return Path(path).is_relative_to(self._home)

    def _delicate(self, path: str) -> str:
        """Return why programs would obey what a folder holds, however it is called there."""
        wanted = Path(path)
        for folder in (wanted, *wanted.parents):
            if (folder / "HEAD").exists() and all(
                (folder / one).is_dir() for one in ("objects", "refs")
            ):
                return f"lies in the git folder {quoted(str(folder))}"
        parts = wanted.relative_to(self._home).parts if self.at_home(path) else wanted.parts
        if hidden := next((part for part in parts if part.startswith(".")), None):
            return f"lies in {quoted(hidden)}, where programs keep what they obey"
        if self.at_home(path) and parts[:1] and parts[0].lower() in _OBEYED:
            return f"lies in {quoted(parts[0])} of your home, from which programs run"
        return ""

    def check(self, path: str | Path) -> Workspace:
        """Return the workspace that a folder would be. Raises BadInput with the reason."""
        wanted = absolute(path)
        walk(wanted)
        if reason := self._forbidden(wanted) or self._too_wide(wanted):
            raise BadInput(reason)
        if not os.access(wanted, os.R_OK | os.X_OK):
            raise BadInput(f"{quoted(wanted)} cannot be read by you")
        return Workspace(wanted)

    def _forbidden(self, path: str) -> str | None:
        wanted = Path(path)
        if any(wanted.is_relative_to(folder) for folder in SYSTEM):
            return f"{quoted(path)} is a folder of the system"
        for folder in self._secrets():
            if wanted.is_relative_to(folder):
                return f"{quoted(path)} is forbidden: `{folder}` holds secrets"
        for folder in self._own():
            if wanted.is_relative_to(folder):
                return f"{quoted(path)} is forbidden: `{folder}` is Lockgate's own"
        if wanted.is_relative_to(self._home):
            return None
        for other in homes():
            if wanted.is_relative_to(other) and not self._home.is_relative_to(other):
                return f"{quoted(path)} is in another user's home"
        return None

    def _too_wide(self, path: str) -> str | None:
        wanted = Path(path)
        if wanted == self._home:
            return f"{quoted(path)} is your home; name a folder in it"
        if wanted == Path("/"):
            return "`/` is the whole file system; name a folder for the project alone"
        for inner in (self._home, *homes(), *map(Path, SYSTEM), *self._secrets(), *self._own()):
            if inner.is_relative_to(wanted):
                return f"{quoted(path)} holds `{inner}`; name a folder for the project alone"
        return None

    def _secrets(self) -> tuple[Path, ...]:
        return tuple(self._home / name for name in SECRET)

    def _own(self) -> tuple[Path, ...]:
        return (self._dirs.state, self._dirs.config, self._dirs.runtime)

    @staticmethod
    def _refuse_nesting(path: str, known: tuple[Workspace, ...]) -> None:
        for item in known:
            if Path(path).is_relative_to(item.path):
                raise BadInput(
                    f"{quoted(path)} lies in the workspace {quoted(item.path)}; use that one"
                )
            if Path(item.path).is_relative_to(path):
                raise BadInput(
                    f"{quoted(path)} holds the workspace {quoted(item.path)}; remove that first"
                )

    @contextmanager
    def _locked(self) -> Iterator[tuple[Workspace, ...]]:
        self._dirs.create()
        with (self._dirs.state / "workspaces.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.list()

    def _write(self, workspaces: tuple[Workspace, ...]) -> None:
        paths = sorted(item.path for item in workspaces)
        text = json.dumps({"workspaces": [{"path": path} for path in paths]}, indent=1)
        beside = self._file.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._file)
