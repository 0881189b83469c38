# SPDX-License-Identifier: Apache-2.0
"""What the cells of one supervisor are made of: their plans, their keepers' set-up, their homes."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from policy.protected.paths import PathPolicy
from sandbox.cells.cell_spec import CellSpec
from sandbox.config.settings import Settings
from sandbox.containers.engine import Engine
from sandbox.containers.images import Images
from sandbox.containers.plan import (
    AGENT_ID,
    LABEL_AGENT,
    LABEL_CELL,
    LABEL_OWNER,
    LABEL_STATE,
    READING_HOME,
    ContainerPlan,
    Resources,
    Toolchain,
    cell_plan,
    keeper_plan,
)
from sandbox.errors import BadInput
from sandbox.host.process_owner import owner_label
from sandbox.host.time_zone import find_time_zone
from sandbox.projects.git_filters import required_filters
from sandbox.projects.toolchain_masks import ToolchainMasks
from sandbox.projects.toolchains import Shown, ToolchainRecord

PathsOf = Callable[[tuple[str, ...]], PathPolicy]
"""Gate 2's rules for workspaces, as they are now."""
Patterns = dict[str, list[str]]
MIB = 1024 * 1024
_OF_A_LOOK = 0.5
"""For which part of its time a keeper waits for others in a workspace."""
_OWNERS_DIFFER = "[core]\n\tcheckStat = minimal\n"
"""Git settings where a cell sees other owners than the host: else each call would hash all files
anew and change the index, which keeps the owner of every file."""


class Specs:
    """Makes the specs of cells. Every container of theirs carries this supervisor's labels."""

    def __init__(
        self,
        engine: Engine,
        images: Images,
        settings: Settings,
        paths: PathsOf,
        labels: Mapping[str, str],
        doors: Path,
        toolchains: ToolchainRecord | None = None,
    ) -> None:
        self._engine = engine
        self._images = images
        self._settings = settings
        self._paths = paths
        self._labels = dict(labels)
        self._doors = doors
        self._toolchains = toolchains
        self._home = _home_files()
        self._time_zone = find_time_zone()
        self._masks = ToolchainMasks()
        self._masked: dict[tuple[str, ...], tuple[PathPolicy, Patterns]] = {}
        self.volume = f"lockgate-layers-{engine.state}"
        """Where the keepers of this state folder keep layers."""

    def make(
        self, agent: str, workspaces: tuple[str, ...], *, network: str = "none", place: str = "cell"
    ) -> CellSpec:
        """Return the spec of a new cell. Blocking.

        `place` says where its keeper puts the workspaces: into the running `cell`, in `views` that
        the cell is then created over, or `nowhere` (a keeper alone). Raises SandboxError.
        """
        name = f"lockgate-{secrets.token_hex(5)}"
        uid, gid, owners = _owner(workspaces)
        labels = {
            **self._labels,
            LABEL_STATE: self._engine.state,
            LABEL_OWNER: owner_label(),
            LABEL_CELL: name,
            LABEL_AGENT: agent,
        }
        local = self._engine.local(os.uname().release)
        found = self._toolchains.shown(workspaces) if self._toolchains and local else ()
        shown, programs = self._masked_toolchains(found, workspaces)
        door = self._doors / name if local and place == "cell" else None
        images = [self._engine.image_id(tag) for tag in (self._images.cell, self._images.keeper)]

        def cell(views: Sequence[str] = (), *, writes: bool = False) -> ContainerPlan:
            return cell_plan(
                name=name,
                image=images[0],
                workspaces=workspaces,
                uid=uid,
                gid=gid,
                labels=labels,
                resources=self._resources(),
                network=network,
                runtime=self._settings.runtime,
                views=views,
                writes=writes,
                time_zone=self._time_zone,
                toolchains=shown,
            )

        def keeper(identity: str | None, views: tuple[str, str] | None = None) -> ContainerPlan:
            return keeper_plan(
                name=f"{name}-keeper",
                image=images[1],
                workspaces=workspaces,
                cell=identity,
                volume=self.volume,
                labels=labels,
                maps_owners=bool(owners),
                door=str(door) if door else None,
                views=views,
            )

        allowed = self._settings.keeper
        setup: dict[str, Any] = {
            "cell": name,
            "agent": agent,
            "workspaces": list(workspaces),
            "uid": uid,
            "gid": gid,
            "owners": owners,
            "patterns": self.patterns(workspaces),
            "place": place,
            "local": local,
            "undo_bytes": self._settings.undo_mib * MIB,
            "wait_seconds": allowed.look_seconds * _OF_A_LOOK,
        }
        home = dict(self._home)
        home[".gitconfig"] = home.get(".gitconfig", "") + required_filters(workspaces)
        if owners:
            home[".gitconfig"] = home.get(".gitconfig", "") + _OWNERS_DIFFER
        setup["home"] = {"reading": READING_HOME, "files": home}
        return CellSpec(
            name,
            agent,
            workspaces,
            cell,
            keeper,
            setup,
            door,
            home,
            labels,
            network,
            look_seconds=allowed.look_seconds,
            land_seconds=allowed.land_seconds,
            toolchains=found,
            programs=programs,
        )

    def patterns(self, workspaces: tuple[str, ...]) -> Patterns:
        """Return what is to be hidden and pinned in these workspaces, as expressions."""
        paths = self._paths(workspaces)
        known = self._masked.get(workspaces)
        if known is None or known[0] is not paths:
            hide, show = paths.mask_expressions()
            pin = paths.pin_expressions()
            above = list(paths.pin_folder_expressions())
            patterns = {"hide": list(hide), "show": list(show), "pin": list(pin), "above": above}
            patterns["obey"] = list(paths.obey_expressions())
            patterns.update((f"read_{key}", one) for key, one in paths.read_patterns().items())
            known = paths, patterns
            self._masked[workspaces] = known
        return known[1]

    async def fits(self, spec: CellSpec) -> bool:
        """Whether a cell hides and pins what the policy says now, and shows what a person did.

        Raises BadInput where the record of toolchains is broken.
        """
        if spec.setup["patterns"] != self.patterns(spec.workspaces):
            return False
        if self._toolchains is None or not spec.setup["local"]:
            return True
        if not any(map(self._toolchains.of, spec.workspaces)):
            return not spec.toolchains
        # Folders of a home, which may lie on a file system that answers late.
        shown = await asyncio.to_thread(self._toolchains.shown, spec.workspaces)
        return shown == spec.toolchains

    def _masked_toolchains(
        self, shown: Sequence[Shown], workspaces: tuple[str, ...]
    ) -> tuple[tuple[Toolchain, ...], tuple[str, ...]]:
        """Return the toolchains with what of them is hidden as in workspaces, and the folders of
        programs that stand first in PATH."""
        found, programs = [], []
        for one in shown:
            patterns = self.patterns(workspaces)
            hidden = self._masks.find(one.source, patterns["hide"], patterns["show"])
            if hidden is None:
                continue
            files = tuple(f"{one.path}/{name}" for name, folder in hidden if not folder)
            folders = tuple(f"{one.path}/{name}" for name, folder in hidden if folder)
            found.append(Toolchain(one.path, one.source, files, folders))
            if one.programs:
                programs.append(one.programs)
        return tuple(found), tuple(programs)

    def _resources(self) -> Resources:
        wanted = self._settings.cell
        return Resources(
            memory=wanted.memory_mib * MIB,
            cpus=min(wanted.cpus, float(os.cpu_count() or 1)),
            pids=wanted.pids,
            files=wanted.open_files,
            shm=wanted.shm_mib * MIB,
            tmp=wanted.tmp_mib * MIB,
            home=2 * wanted.tmp_mib * MIB,
        )


def _owner(workspaces: Sequence[str]) -> tuple[int, int, dict[int, int]]:
    """Return uid and gid of the cell's processes, and the owner map (real owner -> in the cell).

    A cell never runs as root: what root owns is shown to it as owned by an ordinary user, through
    an idmapped mount.
    """
    owners = set()
    for path in workspaces:
        try:
            info = Path(path).lstat()
        except OSError as error:
            raise BadInput(f"workspace `{path}`: {error.strerror}") from None
        owners.add((info.st_uid, info.st_gid))
    if len({uid for uid, _ in owners}) > 1:
        raise BadInput(
            f"workspaces {', '.join(f'`{w}`' for w in workspaces)} belong to different users; "
            "use one cell for each"
        )
    uid, gid = sorted(owners)[0]
    if uid == 0:
        return AGENT_ID, AGENT_ID, {0: AGENT_ID}
    return uid, gid or uid, {}


def _home_files() -> dict[str, str]:
    """Return files of the cell's home: the person's name and address for commits, nothing else."""
    lines = ["[user]"]
    for key in ("name", "email"):
        try:
            done = subprocess.run(
                ["git", "config", "--global", f"user.{key}"],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                cwd=Path("/"),
            )
        except (OSError, subprocess.SubprocessError):
            return {}
        value = done.stdout.strip()
        if value and value.isprintable() and '"' not in value and "\\" not in value:
            lines.append(f'\t{key} = "{value}"')
    return {".gitconfig": "\n".join(lines) + "\n"} if len(lines) > 1 else {}
