# SPDX-License-Identifier: Apache-2.0
"""A cell for one integration test, as the fixture `lockgate_cell` gives it. Blocking.

What a command changes goes through both gates and lands in the test's own workspace, never in the
project. The one who wrote the test is the person who would be asked, so gate 1's questions are
answered with yes unless the test says otherwise; what is forbidden stays forbidden.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from policy.model import Workspace
from sandbox.approvals.approver import nobody, yes
from sandbox.calls.blocking import BlockingSupervisor
from sandbox.config.settings import Dirs, Lifetime, Settings
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from sandbox.containers.images import check_image, names
from sandbox.containers.ledger import state_label
from sandbox.containers.runtimes import moves_mounts
from sandbox.errors import ImageProblem, SandboxError
from sandbox.questions.plans import read_plan
from sandbox.results import CallResult, ChangeView

COPY = "copy"
LEFT_OUT = (".venv", "venv", "node_modules", "__pycache__", ".tox", ".lockgate", "*.pyc")
"""What a copy of the project leaves out."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the marker `lockgate`."""

    workspace: str | os.PathLike[str] | None = None
    """None: an empty folder; `copy`: a copy of the project; a path: a copy of that folder of it."""
    image: str | None = None
    """Another cell image."""
    runtime: str | None = None
    """Another runtime of the engine; with gVisor each command gets a cell of its own."""
    fresh: bool = False
    """Whether each command gets a cell of its own (home, /tmp and processes are new)."""
    approve: bool = True
    """Whether gate 1's questions are answered with yes."""
    network: None = None
    """No cell has a network."""

    @classmethod
    def of(cls, values: Sequence[Any], named: Mapping[str, Any]) -> Options:
        """Return the options of a marker. Raises ValueError with what is wrong."""
        known = [field.name for field in fields(cls)]
        if values:
            raise ValueError("the marker takes named options only, such as `workspace=`")
        for name in named:
            if name not in known:
                raise ValueError(f"the marker has no option `{name}`: it has {', '.join(known)}")
        if named.get("network") is not None:
            raise ValueError("`network` can only be None: a test's cell has no network")
        return cls(**named)


class LockgateCell:
    """A workspace of its own and the cell over it."""

    def __init__(self, options: Options, *, project: Path, root: Path) -> None:
        """Make the workspace below `root`. Raises ValueError for a folder that is not there."""
        self._options = options
        self._dirs = Dirs.under(root / "state")
        self._last: CallResult | None = None
        self._held: list[str] = []
        self.workspace = root / "workspace"
        """The test's own workspace; what landed is there."""
        _fill(self.workspace, options, project)
        apart = options.fresh or not moves_mounts(options.runtime or "runc")
        self._supervisor = BlockingSupervisor(
            self._dirs,
            workspaces=[Workspace(str(self.workspace))],
            settings=Settings(
                image=options.image,
                runtime=options.runtime,
                lifetime=Lifetime.DISPOSABLE if apart else Lifetime.RESIDENT,
                warm=0,
            ),
        )

    def start(self) -> None:
        """Start it. Raises SandboxError where that cannot be; then nothing is left."""
        wanted = names()
        client = connect()
        for tag in (self._options.image or wanted.cell, wanted.keeper):
            if problem := check_image(client, tag):
                raise ImageProblem(problem)
        self._supervisor.__enter__()
        try:
            self._supervisor.warm(str(self.workspace))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the cell; nothing of it stays but the workspace."""
        for call in self._held:
            with contextlib.suppress(SandboxError):
                self._supervisor.discard(call)
        self._supervisor.__exit__(None, None, None)
        with contextlib.suppress(SandboxError):
            engine = Engine(connect(), state_label(self._dirs))
            engine.remove_volume(f"lockgate-layers-{engine.state}")

    def run(
        self,
        command: str,
        *,
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        seconds: float | None = None,
        cwd: str | None = None,
        check: bool = False,
    ) -> CallResult:
        """Run a shell command in the workspace, or in the folder `cwd` of it.

        With `check`, AssertionError says why it did not run to status 0 or was not let through.
        Raises SandboxError where Lockgate itself fails.
        """
        params: dict[str, Any] = {"command": command}
        if seconds is not None:
            params["timeout"] = int(seconds * 1000)
        result = self._call("Bash", params, stdin, env, cwd)
        if check and (result.exit_status != 0 or result.judgement in ("hold", "discard")):
            said = "\n".join(filter(None, (result.message, result.stdout, result.stderr)))
            raise AssertionError(f"`{command}`: status {result.exit_status}\n{said}")
        return result

    def write(self, path: str, text: str) -> CallResult:
        """Write a file of the workspace from within the cell; AssertionError if it did not land."""
        result = self._call("Write", {"file_path": str(self._inside(path)), "content": text})
        if result.exit_status != 0 or result.judgement != "land":
            raise AssertionError(f"`{path}` was not written: {result.message or result.stderr}")
        return result

    def read(self, path: str) -> str:
        """Return the text of a file of the workspace, as it is now: what landed counts."""
        place = self._inside(path)
        if not place.resolve().is_relative_to(self.workspace.resolve()):
            raise ValueError(f"`{path}` leads out of the workspace")
        return place.read_text(encoding="utf-8")

    @property
    def changes(self) -> tuple[ChangeView, ...]:
        """What the last command changed, whether it landed or is held."""
        return self._last.changes if self._last is not None else ()

    def land(self) -> CallResult:
        """Land what gate 2 held of the last command. AssertionError where nothing is held."""
        if self._last is None or self._last.id not in self._held:
            raise AssertionError("nothing of the last command is held")
        result = self._supervisor.land(self._last.id)
        self._held.remove(self._last.id)
        return result

    def _call(
        self,
        tool: str,
        params: Mapping[str, Any],
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CallResult:
        plan = read_plan(
            {
                "tool": tool,
                "params": params,
                "workspace": str(self.workspace),
                "cwd": str(self._inside(cwd)) if cwd is not None else None,
            }
        )
        approver = yes if self._options.approve else nobody
        self._last = self._supervisor.call(plan, approver=approver, stdin=stdin, env=env)
        if self._last.judgement == "hold":
            self._held.append(self._last.id)
        return self._last

    def _inside(self, path: str) -> Path:
        place = Path(os.path.normpath(self.workspace / path))
        if not place.is_relative_to(self.workspace):
            raise ValueError(f"`{path}` is not in the workspace")
        return place


def _fill(workspace: Path, options: Options, project: Path) -> None:
    if options.workspace is None:
        workspace.mkdir()
        return
    source = project if options.workspace == COPY else project / options.workspace
    if not source.is_dir():
        raise ValueError(f"`workspace`: no folder `{source}`")
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    own = workspace.resolve()

    def left_out(folder: str, found: list[str]) -> set[str]:
        inside = {name for name in found if own.is_relative_to(Path(folder, name).resolve())}
        return set(ignored(folder, found)) | inside

    shutil.copytree(source, workspace, symlinks=True, ignore=left_out)
