# SPDX-License-Identifier: Apache-2.0
"""A supervisor over one workspace, with real cells and a gate 1 that says what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import docker
import docker.errors
from docker.models.containers import Container

from policy.gate1.decide import Policy
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    LayerAnswer,
    Limits,
    Network,
    Params,
    Rights,
    Tier,
    Verdict,
    Workspace,
)
from policy.rules.matching import Bounds
from sandbox.approvals.approver import Approver, nobody
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Settings
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_CELL, LABEL_ROLE, LABEL_STATE, LABEL_TEST
from sandbox.results import CallResult

T = TypeVar("T")
WAIT_SECONDS = 120.0
READ, WRITE = "read", "write"
REACHES = "reaches "
"""Before what a plan is `derived_from`: the network right that it gets, as JSON."""
READING = ("Read", "Glob", "Grep", "LS")
ME = os.geteuid()
OWNERS = (0, 1000) if ME == 0 else (ME,)
"""Owners of workspaces that a test can make: root's are shown to a cell through an owner map."""


def decide(plan: ActionPlan, context: Context, policy: Policy, *_: object) -> Decision:
    """Allow everything, with the rights that the plan's intent names."""
    limits = Limits(**policy.limits[0].model_dump())
    said = plan.derived_from or ""
    reach = said.removeprefix(REACHES) if said.startswith(REACHES) else '"none"'
    network = Network.model_validate_json(reach)
    rights = Rights(workspace=Access(plan.intent or WRITE), network=network, limits=limits)
    return Decision(
        verdict=Verdict.ALLOW,
        tier=Tier.CAUTION,
        rights=rights,
        layers=(LayerAnswer(layer="test", verdict=Verdict.ALLOW, reason="a test says so"),),
        message="",
        named_deletions=("**",) if plan.derived_from == "deletes" else (),
        named_moves=("**",) if plan.derived_from == "moves" else (),
    )


def _as_bounds(limits: Limits) -> Bounds:
    return Bounds(**limits.model_dump())


class Lab:
    """Runs calls in cells of its own and looks at their containers from outside."""

    def __init__(
        self,
        client: docker.DockerClient,
        root: Path,
        workspaces: tuple[Path, ...],
        run_id: str,
        *,
        limits: Limits | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.client = client
        self.dirs = Dirs.under(root / "lockgate")
        self.workspaces = workspaces
        self.ws = workspaces[0]
        self.supervisor = Supervisor(
            self.dirs,
            policy=replace(Policy.default(), limits=(_as_bounds(limits or Limits()),)),
            workspaces=[Workspace(str(path)) for path in workspaces],
            settings=settings or Settings(),
            labels={LABEL_TEST: run_id},
        )
        self._runner = asyncio.Runner()
        self._runner.run(self.supervisor.__aenter__())

    # -- calls

    def plan(self, command: str, access: str = WRITE, **fields: Any) -> ActionPlan:
        """Return the plan of a shell command; other keywords are fields or parameters."""
        known = {k: fields.pop(k) for k in list(fields) if k in ActionPlan.model_fields}
        return ActionPlan(
            **{"tool": "Bash", "workspace": str(self.ws), "intent": access, **known},
            params=cast(Any, {"command": command, **fields}),
        )

    async def call(self, command: str, access: str = WRITE, **fields: Any) -> CallResult:
        """Run a shell command; `stdin`, `env`, `on_output` and `call_id` are the call's own."""
        own = {
            key: fields.pop(key)
            for key in ("stdin", "env", "on_output", "call_id", "approver")
            if key in fields
        }
        return await self.supervisor.call(self.plan(command, access, **fields), **own)

    def sh(self, command: str, access: str = WRITE, **fields: Any) -> CallResult:
        """Run a shell command and wait for it."""
        return self.run(self.call(command, access, **fields))

    def read(self, command: str, **fields: Any) -> CallResult:
        """Run a shell command that may only read."""
        return self.sh(command, READ, **fields)

    def tool(self, tool: str, **params: Any) -> CallResult:
        """Run a file tool with the access that it needs."""
        access = READ if tool in READING else WRITE
        plan = ActionPlan(
            tool=tool, workspace=str(self.ws), intent=access, params=cast(Any, params)
        )
        return self.run(self.supervisor.call(plan))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the supervisor's loop."""
        return self._runner.run(work)

    # -- the real files

    def text(self, name: str) -> str:
        """Return the content of a real file."""
        return (self.ws / name).read_text()

    def git(self, *arguments: str) -> str:
        """Run git outside, on the real workspace."""
        return git(self.ws, *arguments)

    # -- the containers

    def containers(self, role: str | None = None) -> list[Container]:
        """Return this supervisor's containers, running or not."""
        labels = [f"{LABEL_STATE}={state_label(self.dirs)}"]
        labels += [f"{LABEL_ROLE}={role}"] if role else []
        return list(
            self.client.containers.list(all=True, filters={"label": labels}, ignore_removed=True)
        )

    @property
    def cell(self) -> Container:
        """The one cell."""
        (one,) = self.containers("cell")
        return one

    @property
    def keeper(self) -> Container:
        """The one keeper."""
        (one,) = self.containers("keeper")
        return one

    def look(self, script: str, *, user: str = "") -> str:
        """Run a script in the cell from outside, past the runner, as the engine's `exec` does."""
        done = self.cell.exec_run(["bash", "-c", script], user=user)
        return bytes(cast(bytes, done.output)).decode("utf-8", "replace")

    def processes(self) -> list[str]:
        """Return the command lines of all processes of the cell, runner and keeper among them."""
        rows = self.cell.top(ps_args="-eo pid,args")["Processes"]
        return [row[1] for row in rows]

    def close(self) -> None:
        """End the supervisor; nothing that it made stays."""
        own = {cell["name"] for cell in self.supervisor.cells()}
        try:
            self._runner.run(self.supervisor.__aexit__(None, None, None))
        finally:
            self._runner.close()
        found = self.containers()
        left = [one.name for one in found if one.labels[LABEL_CELL] in own]
        if not found:  # another lab may share the folder
            remove_layers(self.client, self.dirs)
        assert left == []


@dataclass(frozen=True)
class BothGates:
    """A supervisor with the built-in rules over one workspace; called, it runs a command."""

    supervisor: Supervisor
    work: Path

    async def __call__(
        self, command: str, approver: Approver = nobody, *, agent: str = "main"
    ) -> CallResult:
        params = Params(command=command)
        plan = ActionPlan(tool="Bash", workspace=str(self.work), params=params, agent=agent)
        return await self.supervisor.call(plan, approver=approver)


@contextlib.asynccontextmanager
async def both_gates(dirs: Dirs, work: Path, run_id: str) -> AsyncIterator[BothGates]:
    """Start a supervisor as users have it, for one workspace."""
    workspaces, labels = [Workspace(str(work))], {LABEL_TEST: run_id}
    made = Supervisor(dirs, workspaces=workspaces, settings=Settings(), labels=labels)
    async with made as supervisor:
        yield BothGates(supervisor, work)


def remove_layers(client: docker.DockerClient, dirs: Dirs) -> None:
    """Remove the volume in which keepers of a state folder keep layers."""
    try:
        client.volumes.get(f"lockgate-layers-{state_label(dirs)}").remove()
    except docker.errors.NotFound:
        return


def git(folder: Path, *arguments: str) -> str:
    """Run git as a person with a name, whoever owns the folder."""
    settings = ("safe.directory=*", "user.name=T", "user.email=t@example.invalid")
    options = [word for one in settings for word in ("-c", one)]
    done = subprocess.run(
        ["git", *options, "-c", "commit.gpgsign=false", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def give(folder: Path, owner: int) -> None:
    """Make somebody the owner of a folder and of all that it holds.

    What is theirs already is left alone: it would get a new ctime, which git looks at.
    """
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        if (status.st_uid, status.st_gid) != (owner, owner):
            os.chown(path, owner, owner, follow_symlinks=False)


def repository(folder: Path, owner: int) -> Path:
    """Make a git repository with two commits, protected files and a secret."""
    folder.mkdir()
    fill(folder, owner)
    return folder


def fill(folder: Path, owner: int) -> None:
    """Make a repository of a folder: see `repository`."""
    git(folder, "init", "-q", "-b", "main")
    files = {
        ".gitignore": ".env\n*.log\nbuild/\n",
        "README.md": "Hello\nworld\nagain\n",
        "devkit.config.json": '{"strict": false}\n',
        "src/app.py": "print('one')\n",
        "src/deep/er/leaf.txt": "leaf\n",
        "tool.sh": "#!/bin/sh\necho tool\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tool.sh").chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "devkit.config.json").write_text('{"strict": true}\n')
    git(folder, "commit", "-q", "-a", "-m", "two")
    (folder / ".env").write_text("TOKEN=planted-in-workspace\n")
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    if owner != ME:
        give(folder, owner)


def put_back(lab: Lab) -> None:
    """Make a lab's workspace what `repository` made it, and let nothing wait for a person."""
    for each in lab.run(lab.supervisor.held()):
        lab.run(lab.supervisor.discard(each.id))
    assert lab.supervisor.running() == []
    for path in lab.ws.iterdir():
        if path.name == ".lockgate":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    fill(lab.ws, lab.ws.stat().st_uid)


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything below a folder but Lockgate's own and git's index.

    A file is (type and mode, owner, mtime, content), a link its target.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for base, folders, files in os.walk(folder):
        if ".lockgate" in folders:
            folders.remove(".lockgate")
        for name in (*folders, *files):
            path = Path(base, name)
            key = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
            info = path.lstat()
            if path.is_symlink():
                found[key] = ("link", os.fsencode(path.readlink()), info.st_uid)
            elif path.is_dir():
                found[key] = (oct(info.st_mode), info.st_uid)
            elif key != ".git/index":
                found[key] = (oct(info.st_mode), info.st_uid, info.st_mtime_ns, path.read_bytes())
    return found


def wait_for(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition, with a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


async def eventually(
    condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS
) -> None:
    """Wait for a condition without blocking the loop, with a bound."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.02)


async def after(event: asyncio.Event) -> AsyncIterator[bytes]:
    """Give a command the line that it reads (`read x`) when something has happened."""
    await event.wait()
    yield b"\n"


async def ended(work: Awaitable[Any]) -> BaseException:
    """Return the exception that a piece of work ends with."""
    try:
        await asyncio.wait_for(asyncio.ensure_future(work), WAIT_SECONDS)
    except BaseException as error:
        return error
    raise AssertionError("it ended well")


def leave(lab: Lab) -> None:
    """End a lab's supervisor as its process would end it, and keep what is held."""
    lab.run(lab.supervisor.__aexit__(None, None, None))
