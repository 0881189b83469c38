# SPDX-License-Identifier: Apache-2.0
"""What agents' own tools edit: a copy before, a record of what changed after, so that it is undone.

The tool runs in the agent's process; its hook says before and after. What is kept lies in the
workspace (`host.before_images`) and becomes a landing's record when a keeper comes by.
INVARIANT (P12, own edits): no tool is let through before a copy of each file that it names is kept,
unless a person was told that there will be none.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy.model import ActionPlan, Context
from policy.protected.paths import PathPolicy
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.calls import EditedRecord
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.record_fields import recorded
from sandbox.calls.recorder import Recorder
from sandbox.cell.journal.own_edits import Kept
from sandbox.cell.overlay import diffs, marks
from sandbox.cell.overlay.sides import Piece, below, nothing
from sandbox.cell.overlay.steps import type_name
from sandbox.cells.cell import Cell
from sandbox.cells.specs import PathsOf
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.gates.gate1 import Gate1Answer
from sandbox.gates.host_edits import edited
from sandbox.gates.masked_diff import masked_diff
from sandbox.gates.shown_changes import shown_of
from sandbox.host.before_images import Changed, Edit, Full, OwnEdits, Whose, opened

GetCell = Callable[[str, tuple[str, ...]], Awaitable[Cell]]
Roots = Callable[[], Sequence[str]]
EDITED = "changed by the agent's own tool"


class EditKeeping:
    """The edits of agents' own tools that go through one supervisor."""

    def __init__(
        self, record: Recorder, paths: PathsOf, roots: Roots, get_cell: GetCell, quota: int
    ) -> None:
        """`roots` gives the registered workspaces, `get_cell` a cell whose keeper makes room;
        `quota` is the bytes of before-images that a workspace keeps, 0 for none at all."""
        self._record = record
        self._paths = paths
        self._roots = roots
        self._get_cell = get_cell
        self._quota = quota

    async def keep(
        self, call: str, plan: ActionPlan, answer: Gate1Answer, context: Context, use: ToolUse
    ) -> str:
        """Keep a copy of each file that a call on the host names; say why that cannot be done."""
        if not self._quota:
            return ""
        agent = plan.agent
        files = await self._record.off_loop.do(agent, lambda: edited(answer, plan, context))
        whose = Whose(call, marks.sign(agent), use.session, use.use)
        kept: list[str] = []
        try:
            for root, edits in files.items():
                await self._keep_in(root, whose, edits, agent)
                kept.append(root)
        except SandboxError as error:
            for root in kept:
                await asyncio.to_thread(_forget, root, call)
            return (
                f"denied: no before-image could be kept, so that this could not be undone: {error}"
            )
        return ""

    async def _keep_in(self, root: str, whose: Whose, edits: Sequence[Edit], agent: str) -> None:
        for make_room in (self._forget_aged, self._drive_out):
            try:
                await asyncio.to_thread(_keep, root, whose, edits, self._quota)
                return
            except Full as full:
                await make_room(full, agent)
        await asyncio.to_thread(_keep, root, whose, edits, self._quota)

    async def _forget_aged(self, full: Full, _agent: str) -> None:
        """Forget edits that never came back, where a person has had time to notice."""
        self._record.forgotten(await asyncio.to_thread(_forget_aged, full.root))

    async def _drive_out(self, full: Full, agent: str) -> None:
        """Let a keeper remove records of landings. Raises Full where a last copy would go."""
        cell = await self._get_cell(agent, (full.root,))
        answer = await cell.ask({"bytes": [full.coming], "agent": agent}, op="clear")
        self._record.forgotten(answer["evicted"])
        if answer["full"]:
            raise Full(full.root, full.coming)

    async def came_back(self, agent: str, use: ToolUse) -> str | None:
        """Record what a tool changed, now that its hook says that it is done; return its call."""
        calls = await asyncio.to_thread(self._of, use)
        for call in calls:
            await self._close(call, agent)
        return calls[-1] if calls else None

    async def settle(self) -> None:
        """Record edits whose tools never reported back, where the files hold what was expected."""
        for call, agent in await asyncio.to_thread(self._as_told):
            await self._close(call, agent)

    async def why_open(self, asked: str) -> str:
        """Say why a call's edits cannot be undone while nobody knows what they left."""
        found = await self.open_calls() if asked != "last" else []
        return next((why for entry, why in found if entry.id.startswith(asked)), "")

    async def open_calls(self) -> list[tuple[CallEntry, str]]:
        """Return the calls whose tools have not come back, with why they cannot be undone."""
        return await asyncio.to_thread(self._open_calls)

    async def _close(self, call: str, agent: str) -> None:
        paths = self._paths
        closed = await self._record.off_loop.do(agent, lambda: _closed(self._roots(), call, paths))
        if closed.changes:
            workspaces = tuple(closed.changes)
            shown = shown_of(list(closed.changes.values()), workspaces, paths(workspaces))
            shown = shown.with_digests(closed.digests)
            await self._record.event(
                EditedRecord(
                    call=call,
                    agent=agent,
                    workspace=workspaces[0],
                    also=list(workspaces[1:]),
                    landed=True,
                    changes=recorded(shown.views),
                    changes_total=shown.total,
                    outcome=EDITED,
                )
            )
            self._record.keep_masked(call, closed.diff)
        for root in closed.roots:
            await asyncio.to_thread(_done, root, call, changed=root in closed.changes)

    def _of(self, use: ToolUse) -> list[str]:
        found: dict[str, None] = {}
        for root in self._roots():
            with _opened(root) as edits:
                if edits is not None:
                    found |= dict.fromkeys(edits.open_of(use.session, use.use))
        return list(found)

    def _as_told(self) -> list[tuple[str, str]]:
        found: dict[str, bool] = {}
        for root in self._roots():
            with _opened(root) as edits:
                for kept in edits.unfinished() if edits is not None else ():
                    told = edits is not None and _is_as_told(edits, kept.call)
                    found[kept.call] = found.get(kept.call, True) and told
        calls = [call for call, told in found.items() if told]
        return [(call, self._agent(call)) for call in calls]

    def _agent(self, call: str) -> str:
        try:
            return str(self._record.store.call(call).agent or "main")
        except BadInput:  # its records went away with an old file of the log
            return "main"

    def _open_calls(self) -> list[tuple[CallEntry, str]]:
        found = []
        for root in self._roots():
            with _opened(root) as edits:
                for kept in edits.unfinished() if edits is not None else ():
                    if edits is None or not _has_changed(edits, kept):
                        continue  # it may run still, or never ran
                    why = (
                        f"call `{kept.call}` has not come back: nobody saw what its tool left of "
                        f"`{kept.files[0].path}`; what was there before lies in "
                        f"`{root}/.lockgate/edits/{kept.call}`"
                    )
                    with contextlib.suppress(BadInput):  # its records went with an old file
                        found.append((self._record.store.call(kept.call), why))
        return found


@dataclass(frozen=True, slots=True)
class _Closed:
    """What a call left, in each workspace that it changed."""

    roots: tuple[str, ...]
    changes: Mapping[str, list[dict[str, Any]]]
    digests: list[dict[str, str]]
    diff: str


def _closed(roots: Sequence[str], call: str, paths: PathsOf) -> _Closed:
    held: list[str] = []
    changes: dict[str, list[dict[str, Any]]] = {}
    digests: list[dict[str, str]] = []
    texts: list[str] = []
    for root in roots:
        with _opened(root) as edits:
            found = edits.close(call) if edits is not None else None
            if edits is None or found is None:
                continue
            held.append(root)
            if not found:
                continue
            changes[root] = [_change(changed) for changed in found]
            digests.append(
                {
                    changed.after.path: changed.after.sha256
                    for changed in found
                    if changed.after.sha256
                }
            )
            texts.append(_text(edits, call, found, paths((root,))))
    return _Closed(tuple(held), changes, digests, masked_diff("".join(texts)))


def _text(edits: OwnEdits, call: str, found: Sequence[Changed], paths: PathPolicy) -> str:
    """Return the diff of what a call changed in one workspace."""
    with edits.folder_of(call) as (top, folder):
        pieces = [
            Piece(
                _change(changed),
                nothing if changed.before.was is None else below(folder, changed.slot),
                nothing if changed.after.now is None else below(top, changed.after.path),
            )
            for changed in found
        ]
        return diffs.text(pieces, paths.is_secret, lambda path: _counts(paths, path))


def _counts(paths: PathPolicy, path: str) -> bool:
    return paths.governance_of(path) is not None or paths.obeyed_of(path) is not None


def _change(one: Changed) -> dict[str, Any]:
    kind = "created" if one.before.was is None else "modified"
    if one.after.now is None:
        kind = "deleted"
    stands = one.after.now or one.before.was
    form = stat.S_IFREG if stands is None else stands[4]
    size = one.after.now[1] if one.after.now is not None else 0
    return {
        "path": one.before.path,
        "kind": kind,
        "type": type_name(form),
        "conflict": False,
        "mode": one.mode,
        **({"size": size} if size > 0 else {}),
    }


def _is_as_told(edits: OwnEdits, call: str) -> bool:
    """Whether a call left what it was going to; not where its notes are damaged."""
    try:
        return edits.is_as_told(call)
    except Unavailable:
        return False


def _has_changed(edits: OwnEdits, kept: Kept) -> bool:
    """Whether a call may have changed something; so too where its notes are damaged."""
    try:
        return edits.has_changed(kept)
    except Unavailable:
        return True


@contextlib.contextmanager
def _opened(root: str) -> Iterator[OwnEdits | None]:
    """Open the kept copies of a workspace; None too where they cannot be opened now.

    One workspace that cannot be read is no matter of the others: its edits stay as they are.
    """
    with contextlib.ExitStack() as stack:
        try:
            edits = stack.enter_context(opened(root))
        except Unavailable:
            edits = None
        yield edits


def _keep(root: str, whose: Whose, edits: Sequence[Edit], quota: int) -> None:
    with opened(root, make=True) as kept:
        if kept is None:
            raise Unavailable(f"`{root}` has no place for before-images")
        kept.keep(whose, edits, quota)


def _forget_aged(root: str) -> list[str]:
    with _opened(root) as edits:
        return edits.forget_aged() if edits is not None else []


def _forget(root: str, call: str) -> None:
    _done(root, call, changed=False)


def _done(root: str, call: str, *, changed: bool) -> None:
    with _opened(root) as edits:
        if edits is not None:
            edits.done(call, changed=changed)
