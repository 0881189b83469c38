# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on files of settings that are judged by content: which change a person must look at. Pure.

A moved file goes at one place and comes at another; both count. What cannot be read counts as the
worst that it could say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.protected.formats import Form, Odd
from policy.protected.path_rules import ObeyedRule
from policy.protected.paths import PathPolicy
from policy.protected.printable import briefly

SHOWN = 3
"""Settings that a reason names."""


def settings_reason(
    rule: ObeyedRule, path: str, change: Change, indexes: frozenset[str] = frozenset()
) -> str | None:
    """Return why a change of a file with settings is held; None where all of it is harmless.

    `path` is the end of the change that the rule names; `indexes` are places that it may name.
    """
    if change.type is not FileType.FILE:
        return rule.because if change.type is FileType.SYMLINK else None
    if change.kind is Kind.META:
        return None  # its mode is judged by itself
    texts = sides(path, change)
    if texts is None:
        return f"{rule.because}, and its content cannot be read"
    assert rule.format is not None
    try:
        keys = rule.settings.harms(*texts, rule.format, depth=path.count("/"))
        if rule.format is Form.ADDRESSES:
            keys = [key for key in keys if key not in indexes]
    except Odd as error:
        return f"{rule.because}, and {error}"
    if not keys:
        return None
    named = ", ".join(f"`{briefly(key)}`" for key in keys[:SHOWN])
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"{rule.because}: {named}{more}"


def manifest_reasons(
    change: Change, paths: PathPolicy, indexes: frozenset[str] = frozenset()
) -> Iterator[PathReason]:
    """Yield the reasons why a change of a project's description of itself is held.

    A folder that is moved as a whole takes its own along as it was. What calls cannot see is held
    as such.
    """
    if change.hidden:
        return
    for path in (change.path, change.source):
        rule = None if path is None else paths.manifest_of(path)
        if rule is None or path is None:
            continue
        if change.kind is Kind.RENAMED and not change.modified and _with_its_folder(change):
            continue
        if change.kind is Kind.RENAMED and path == change.source:
            continue  # what it said goes, and harms nobody
        judged = change
        if change.kind is Kind.RENAMED and rule.format is Form.ADDRESSES:
            came_from = paths.manifest_of(change.source or "")
            if came_from is not None and came_from.id == rule.id:  # its places were judged there
                judged = replace(change, kind=Kind.MODIFIED, source=None)
        why = None if change.kind is Kind.DELETED else settings_reason(rule, path, judged, indexes)
        if why is not None:
            yield PathReason(path, Outcome.HOLD, rule.id, why)


def _with_its_folder(change: Change) -> bool:
    names = (change.path, change.source or "")
    return (
        all("/" in name for name in names) and len({name.rpartition("/")[2] for name in names}) == 1
    )


def sides(path: str, change: Change) -> tuple[str | None, str | None] | None:
    """Return the texts before and after at one end of a change, None for no file there.

    None for both together: a text that is needed is not known.
    """
    before, after = change.before_text, change.after_text
    was = change.kind is not Kind.CREATED
    comes = change.kind is not Kind.DELETED
    if change.kind is Kind.RENAMED:
        was, comes = path == change.source, path == change.path
    if (was and before is None) or (comes and after is None):
        return None
    return before if was else None, after if comes else None
