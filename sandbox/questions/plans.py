# SPDX-License-Identifier: Apache-2.0
"""Makes the plan of a call, for every door: no other module below `sandbox` makes one.

A door hands over what it was told, as it came. Here it gets its user, its workspace and its folder
from where the caller stands, and its agent and role from whose process the caller is.
INVARIANT (P8, "one question"): so a call that is asked about beforehand (`check`, `explain`,
`grant`, the governance tools) is the very call that is made later.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.model import ActionPlan
from policy.tools.dialects import Use
from sandbox.agents.peer import Caller
from sandbox.errors import BadInput
from sandbox.host import login as person
from sandbox.projects.git_elsewhere import also_needed
from sandbox.questions.named import named_workspaces
from sandbox.text.terminal import is_unicode
from sandbox.workspaces.registry import Registry

Said = Mapping[str, Any]
"""What a door was told of a call: some of a plan's fields, not checked yet."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a caller stands, and which folders may be its workspace."""

    here: str | None
    """Its folder; None: it is gone, or not said."""
    named: Callable[[str], str]
    """Returns the workspace at a path that the call names. Raises BadInput."""
    around: Callable[[str], str]
    """Returns the workspace that holds a folder. Raises BadInput."""
    workspaces: Registry | None = None
    """The registered ones, of which a call may name further ones; None: there are none."""
    names_all: bool = False
    """Whether each call says its workspace and its folder itself."""

    @classmethod
    def registered(cls, workspaces: Registry, here: str | None) -> Whereabouts:
        """Only registered workspaces count: something may run there."""
        return cls(
            None if here is None else _unaliased(workspaces, here),
            lambda path: workspaces.find(path).path,
            lambda folder: workspaces.around(folder).path,
            workspaces,
        )

    @classmethod
    def anywhere(cls, workspaces: Registry, here: str) -> Whereabouts:
        """Any folder that could be a workspace can be asked about, since nothing runs."""

        def around(folder: str) -> str:
            workspace = workspaces.holding(folder)
            return workspace.path if workspace is not None else folder

        return cls(here, lambda path: workspaces.check(path).path, around, workspaces)

    def with_named(self, plan: ActionPlan) -> ActionPlan:
        """Return a plan with the further workspaces that it needs and that can be used now: those
        that it names, and that of the repository that its own is a linked work tree of."""
        if self.workspaces is None:
            return plan
        named = named_workspaces(plan, (workspace.path for workspace in self.workspaces.list()))
        known = (plan.workspace, *plan.also)
        wanted = dict.fromkeys((*named, *also_needed(plan.workspace, self._holding)))
        usable = tuple(one for one in wanted if one not in known and _usable(self.workspaces, one))
        return plan.model_copy(update={"also": (*plan.also, *usable)}) if usable else plan

    def _holding(self, folder: str) -> str | None:
        workspace = self.workspaces.holding(folder) if self.workspaces is not None else None
        return workspace.path if workspace is not None else None

    @classmethod
    def said(cls, workspaces: Registry) -> Whereabouts:
        """Return where somebody stands who names workspace and folder in every call."""
        return cls(None, str, str, workspaces, names_all=True)

    def place(self, said: Said) -> dict[str, Any]:
        """Return what was said with a workspace, and the folder in it that the call starts in."""
        if self.names_all:
            return dict(said)
        if said.get("workspace") is not None:
            workspace = self.named(str(said["workspace"]))
        elif self.here is not None:
            workspace = self.around(self.here)
        else:
            raise BadInput("the folder you are in is gone; `-w PATH` names a workspace")
        cwd = said.get("cwd")
        if cwd is None and self.here is not None and Path(self.here).is_relative_to(workspace):
            cwd = self.here
        if cwd is not None and self.workspaces is not None:
            cwd = _unaliased(self.workspaces, str(cwd))
        return {**said, "workspace": workspace, "cwd": cwd}


def _unaliased(workspaces: Registry, folder: str) -> str:
    """Return where a folder of a workspace lies, if it was named through a link from elsewhere."""
    if not Path(folder).is_absolute() or workspaces.holding(folder) is not None:
        return folder
    try:
        real = os.path.realpath(folder)
    except (OSError, ValueError):  # such a text names no folder, which is said elsewhere
        return folder
    return real if workspaces.holding(real) is not None else folder


def _usable(workspaces: Registry, path: str) -> bool:
    try:
        return bool(workspaces.check(path))
    except BadInput:
        return False


def plan_of(
    said: object, caller: Caller, whereabouts: Whereabouts | None = None, *, use: Use | None = None
) -> ActionPlan:
    """Return the plan of a call. Without `whereabouts`, it names its workspace and folder itself.

    `use` is the call of an agent's tool, where that is no part of what was `said`. Raises BadInput,
    and ValidationError where a field is wrong.
    """
    if not is_unicode(said):
        raise BadInput("the plan holds half a character, which no text can")
    if not isinstance(said, Mapping):
        return read_plan(said)
    if any("\0" in str(said.get(key) or "") for key in ("workspace", "cwd")):
        raise BadInput("the plan names a folder with a null byte in it, which no folder has")
    if said.get("user") in (None, person.NOBODY):
        said = {**said, "user": person.login()}
    if whereabouts is not None:
        said = whereabouts.place(said)
    who = caller.attributed(said)
    if use is None:
        plan = read_plan(who)
    else:
        plan = use.plan(**{key: value for key, value in who.items() if value is not None})
    return plan if whereabouts is None else whereabouts.with_named(plan)


def read_plan(said: object) -> ActionPlan:
    """Return a plan whose every field was said, by us. Raises ValidationError."""
    return ActionPlan.model_validate(said)


def command_of(words: Sequence[str]) -> str:
    """Return the shell text that words on a command line are: one word is text itself."""
    return words[0] if len(words) == 1 else shlex.join(words)
