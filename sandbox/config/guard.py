# SPDX-License-Identifier: Apache-2.0
"""What a user may say about the guard: the section `guard` of `config.yaml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policy.model import Frozen


class GuardSettings(Frozen):
    """How the guard acts. What is not said keeps its default."""

    enabled: bool = True
    """Whether the supervisor runs a guard while it lives. `lockgate guard` runs one in any case."""
    restore: bool = False
    """Put the last known content back where no landing explains a change."""
    command: tuple[str, ...] = ()
    """A program and its arguments, started for each event, which it gets as JSON on stdin."""
    every_seconds: Annotated[float, Field(gt=0)] = 30.0
    """How often every protected file is looked at, whatever the watching said."""
    walk_seconds: Annotated[float, Field(ge=0)] = 600.0
    """How often the workspace is walked for protected files in folders that are not watched, at
    most; a walk never takes more than a twentieth of the time. 0: only at the start."""
    ignore: tuple[str, ...] = ()
    """Patterns of obeyed files that others may change, such as `.idea/workspace.xml`. Governance
    files cannot be named here."""
