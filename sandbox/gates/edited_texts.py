# SPDX-License-Identifier: Apache-2.0
"""What an agent's own tool would leave in a file of the host, as far as its parameters tell."""

from __future__ import annotations

import os
from pathlib import Path

from policy.model import ActionPlan, EditStep, Kind
from policy.values.patches import patched
from sandbox.cell.overlay.addresses import MAX_BYTES, condensed_text
from sandbox.cell.overlay.lower import MAX_TEXT
from sandbox.cell.run.apply_patch import NoFit, planned
from sandbox.host import files as own_files

_PATCH = "apply_patch"


class EditedTexts:
    """What one plan would make of the files that it names. A patch is worked out once for all."""

    def __init__(self, plan: ActionPlan) -> None:
        self._plan = plan
        self._patched: dict[int, dict[str, list[str | None]]] = {}

    def read(self, real: str, kind: Kind, *, condenses: bool) -> tuple[str | None, str | None]:
        """Return what a file holds and what becomes of it, as far as both can be told.

        `real` is its absolute path without links. With `condenses`, where the places that it names
        are enough, these.
        """
        most = MAX_BYTES if condenses else MAX_TEXT
        before: str | None = None
        if kind is not Kind.CREATED:
            before = _read(real, most)
            if before is None:
                return None, None
        patch = self._plan.tool == _PATCH
        after = self._patch_leaves(real, most) if patch else _after(self._plan, before)
        if condenses:
            return condensed_text(before), condensed_text(after)
        return before, None if after is None or len(after) > most else after

    def _patch_leaves(self, real: str, most: int) -> str | None:
        if most not in self._patched:
            self._patched[most] = _patched_files(self._plan, most)
        left = self._patched[most].get(real, [])
        return left[0] if len(left) == 1 else None


def _read(real: str, most: int) -> str | None:
    try:
        with own_files.opened(Path(real)) as file:
            content = file.read(most + 1)
    except OSError:
        return None
    return None if len(content) > most else content.decode("utf-8", "surrogateescape")


def _after(plan: ActionPlan, before: str | None) -> str | None:
    """Return what a plan leaves in the one file that it names."""
    params = plan.params
    if plan.tool == "Write":
        return params.content
    text = before
    steps = list(params.edits)
    if params.old_string is not None and params.new_string is not None:
        edit_step = EditStep(
            old_string=params.old_string,
            new_string=params.new_string,
            replace_all=params.replace_all,
        )
        steps.insert(0, edit_step)
    if plan.tool not in ("Edit", "MultiEdit") or not steps:
        return None
    for step in steps:
        if not text and not step.old_string:  # a new file
            text = step.new_string
            continue
        if text is None or not step.old_string or step.old_string not in text:
            return None
        text = text.replace(step.old_string, step.new_string, -1 if step.replace_all else 1)
    return text


def _patched_files(plan: ActionPlan, most: int) -> dict[str, list[str | None]]:
    """Return what a patch leaves, by paths without links; nothing where programs could read the
    patch differently. So its lines must stand in a file as they are, and nowhere else in it.
    """
    text = plan.params.command or plan.params.content or ""
    place = plan.cwd or plan.workspace or ""

    def locate(path: str) -> str:
        return os.path.realpath(os.path.join(place, path))  # noqa: PTH118 - a path of the host

    def read(path: str) -> str:
        found = _read(locate(path), most)
        if found is None:
            raise NoFit(f"`{path}` cannot be read")
        return found

    try:
        changes, _ = planned(text, read, exact=True)
    except NoFit:
        return {}
    seen = patched(text)
    if set(changes) != {*seen.written, *seen.deleted, *seen.moved}:
        return {}
    left: dict[str, list[str | None]] = {}
    for path, content in changes.items():
        left.setdefault(locate(path), []).append(content)
    return left
