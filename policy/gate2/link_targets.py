# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on links that a call makes: where their targets may lead. Pure.

    leaves("a", "../x", "/home/me/shop") -> True

Lexical, on the safe side: no file is looked at, and what a name stands for can be another thing by
the time that somebody follows the link. Only what lies above the workspace is known to be no link.
"""

from __future__ import annotations

from collections.abc import Sequence

from policy.protected.printable import on_one_line

_UP = ".."


def leaves(path: str, target: str, workspace: str | None, others: Sequence[str] = ()) -> bool:
    """Whether a link at `path` may lead out of the workspace, and out of the `others`."""
    return _goes_up(target) or not _is_below(path, target, workspace, others)


def said(target: str) -> str:
    """Say of a target that `leaves` why it is held."""
    shown = f"it is a link to `{on_one_line(target)}`"
    if _goes_up(target):
        return (
            f"{shown}, which may lead out of the workspace: `..` stands after a name, which may "
            "become a link; write it without"
        )
    return f"{shown}, outside of the workspace"


def _goes_up(target: str) -> bool:
    """Whether `..` stands after a name, which may be a link."""
    parts = _parts(target)
    ups = 0 if target.startswith("/") else _ups(parts)
    return _UP in parts[ups:]


def _is_below(path: str, target: str, workspace: str | None, others: Sequence[str]) -> bool:
    parts = _parts(target)
    if target.startswith("/"):
        return any(_starts(parts, root) for root in (workspace, *others) if root is not None)
    ups, folder = _ups(parts), _parts(path)[:-1]
    if ups <= len(folder):
        return True
    if workspace is None:
        return False
    above = [*_parts(workspace), *folder]
    whole = [*above[: max(0, len(above) - ups)], *parts[ups:]]
    return any(_starts(whole, root) for root in (workspace, *others))


def _ups(parts: list[str]) -> int:
    """Return how many `..` a target begins with."""
    return next((n for n, part in enumerate(parts) if part != _UP), len(parts))


def _starts(parts: list[str], root: str) -> bool:
    wanted = _parts(root)
    return parts[: len(wanted)] == wanted


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
