# SPDX-License-Identifier: Apache-2.0
"""What a tool that an agent runs on the host itself will leave in files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from policy.facts import DELETES, WRITES, Facts, How, Touch
from policy.model import ActionPlan, Change, Context, FileType, Kind, Verdict
from policy.tools import reading as tools
from policy.values.partial import unknown
from sandbox.gates.edited_texts import EditedTexts
from sandbox.gates.gate1 import Gate1Answer
from sandbox.host import files as own_files
from sandbox.host.before_images import Edit, unkept
from sandbox.workspaces.ignore_sources import Touched, touched

COMMANDS = ("Bash", "PowerShell")


def edited(answer: Gate1Answer, plan: ActionPlan, context: Context) -> dict[str, list[Edit]]:
    """Return the files that a tool of the agent's own will change, per workspace, without links.

    Not those of a command, which changes more than it names; nor what no copy can be kept of, which
    a person was asked about.
    """
    if answer.effective is None:
        return {}
    policy = answer.effective.policy
    found = written_files(plan, tools.facts(plan, context, policy.catalog, policy.tools), context)
    asked, texts = answer.decision.verdict is Verdict.ASK, EditedTexts(plan)
    kept = {
        root: [
            Edit(path, _expected(texts, os.path.join(root, path)))  # noqa: PTH118
            for path in paths
            if not (asked and why_unkept(Path(root, path)))
        ]
        for root, paths in found.items()
    }
    return {root: edits for root, edits in kept.items() if edits}


def _expected(texts: EditedTexts, real: str) -> str:
    """Return the SHA-256 of what a tool is going to leave in a file, where that can be told."""
    kind = Kind.MODIFIED if os.path.lexists(real) else Kind.CREATED
    after = texts.read(real, kind, condenses=False)[1]
    if after is None:
        return ""
    return hashlib.sha256(after.encode("utf-8", "surrogateescape")).hexdigest()


def written_paths(answer: Gate1Answer, plan: ActionPlan, context: Context) -> frozenset[str]:
    """Return the paths, without links, that a call on the host is known to write to."""
    if answer.effective is None:
        return frozenset()
    policy = answer.effective.policy
    facts = tools.facts(plan, context, policy.catalog, policy.tools)
    return frozenset(
        os.path.realpath(touch.path) for touch in known_path(facts) if touch.how in WRITES
    )


def touched_rules(
    answer: Gate1Answer, plan: ActionPlan, context: Context
) -> list[tuple[str, Touched]]:
    """Return what a call on the host changes, per workspace, of git's ignore rules and indexes.

    What the agent's tool really leaves there, nobody can tell beforehand.
    """
    if answer.effective is None:
        return []
    policy = answer.effective.policy
    items: dict[str, list[dict[str, str]]] = {}
    for touch in known_path(tools.facts(plan, context, policy.catalog, policy.tools)):
        real = os.path.realpath(touch.path)
        root = workspace_of(real, context) if touch.how in WRITES else None
        if root is None:
            continue
        change = change_of(touch, real, root)
        fields = {"path": change.path, "kind": change.kind.value, "type": change.type.value}
        items.setdefault(root, []).append(fields)
    found = [(root, touched(one)) for root, one in items.items()]
    return [one for one in found if one[1]]


@dataclass(frozen=True, slots=True)
class Leaves:
    """What a call on the host is expected to leave."""

    paths: frozenset[str]
    """Files that it writes, as far as they are named."""
    texts: Mapping[str, str]
    """What they hold then, of those of which that can be told."""
    moves: bool
    """It moves files, so that what arrives is nothing that it says itself."""


def leaves(answer: Gate1Answer, plan: ActionPlan, context: Context) -> Leaves:
    """Return what a call on the host leaves in files of the workspaces that no link leads to."""
    if answer.effective is None:
        return Leaves(frozenset(), {}, moves=True)
    policy = answer.effective.policy
    touches = known_path(tools.facts(plan, context, policy.catalog, policy.tools))
    written = {os.path.realpath(touch.path) for touch in touches if touch.how in WRITES}
    texts: dict[str, str] = {}
    if len(written) == 1:
        path = next(iter(written))
        kind = Kind.MODIFIED if os.path.lexists(path) else Kind.CREATED
        known = workspace_of(path, context) is not None
        after = EditedTexts(plan).read(path, kind, condenses=False)[1] if known else None
        if after is not None and any(touch.path == path for touch in touches):
            texts[path] = after
    moves = any(touch.how is How.MOVE for touch in touches)
    return Leaves(frozenset(written), texts, moves=moves)


_MOST = 2000
"""Paths of one call that are looked up."""


def written_files(plan: ActionPlan, facts: Facts, context: Context) -> dict[str, list[str]]:
    """Return the files that a tool writes, per workspace, relative to it and without links."""
    found: dict[str, dict[str, None]] = {}
    for touch in known_path(facts) if plan.tool not in COMMANDS else ():
        real = os.path.realpath(touch.path)
        root = workspace_of(real, context) if touch.how in WRITES else None
        if root is None or Path(real).is_dir():
            continue
        found.setdefault(root, {})[real[len(root) :].lstrip("/")] = None
    return {root: list(paths) for root, paths in found.items()}


def why_unkept(path: Path) -> str:
    """Say why no copy of a file can be kept; empty where one can, or nothing is there."""
    try:
        if why := unkept(path.lstat()):
            return why
        with own_files.opened(path):
            return ""
    except (FileNotFoundError, NotADirectoryError, own_files.NoFile):
        return ""
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def change_of(touch: Touch, real: str, root: str) -> Change:
    there = os.path.lexists(real)
    kind = Kind.MODIFIED if there else Kind.CREATED
    if touch.how in DELETES:
        kind = Kind.DELETED
    return Change(real[len(root) :].lstrip("/"), kind, FileType.FILE, mode=0o644)


def workspace_of(path: str, context: Context) -> str | None:
    """Return the workspace that holds a path."""
    for workspace in context.workspaces:
        if path.startswith(workspace.path.rstrip("/") + "/"):
            return workspace.path
    return None


def known_path(facts: Facts) -> list[Touch]:
    return [touch for touch in facts.touches if not unknown(touch.path)][:_MOST]
