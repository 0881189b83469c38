# SPDX-License-Identifier: Apache-2.0
"""What a cell is made of, before it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.containers.plan import ContainerPlan
from sandbox.projects.toolchains import Shown


@dataclass(frozen=True, slots=True)
class CellSpec:
    """What a cell is made of. Plans need what exists only later (the cell's id, its views)."""

    name: str
    agent: str
    workspaces: tuple[str, ...]
    cell: Callable[..., ContainerPlan]
    keeper: Callable[..., ContainerPlan]
    setup: dict[str, Any]
    door: Path | None = None
    """A folder for direct connections; None where the engine is not on this kernel."""
    home: dict[str, str] = field(default_factory=dict)
    """Files of the cell's own home: name -> text."""
    labels: dict[str, str] = field(default_factory=dict)
    network: str = "none"
    look_seconds: float = 300.0
    land_seconds: float = 900.0
    """How long its keeper may take over a request; over one that changes files."""
    toolchains: tuple[Shown, ...] = ()
    """Folders of the host that a person has agreed to show in it."""
    programs: tuple[str, ...] = ()
    """Folders of programs among them that stand first in PATH."""
