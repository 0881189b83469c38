# SPDX-License-Identifier: Apache-2.0
"""Names of git's references: well-formed, and of the kinds that everyday commands make. Pure.

As git-check-ref-format(1), and stricter: nothing that reads like an option, an object's id, or one
of git's own names, since a person would take it for that.
"""

from __future__ import annotations

import re

_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.(?:/|\Z)|/\Z|\A/")
_COMPONENT = re.compile(r"[.-]|.*\.lock\Z|@\Z", re.DOTALL)
_KINDS = re.compile(r"refs/(heads|tags|remotes|notes)/(.+)|refs/stash", re.DOTALL)
_ID = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_PSEUDO = re.compile(r"(?:[A-Z_]+_)?HEAD|AUTO_MERGE")
_FIRST = ("refs", "heads", "tags", "remotes")


def is_name(name: str) -> bool:
    """Whether git would take a name for that of a reference."""
    if _BAD.search(name) or not name.isprintable():
        return False
    return not any(_COMPONENT.match(part) for part in name.split("/"))


def reference(name: str) -> str | None:
    """Return the short name of a full one that may come by itself; None for any other."""
    kind = _KINDS.fullmatch(name)
    if kind is None or not is_name(name):
        return None
    short = kind[2] or "stash"
    first, _, last = short.partition("/")
    if first in _FIRST or _ID.fullmatch(short) or _PSEUDO.fullmatch(short):
        return None
    if kind[1] == "remotes" and (not last or _ID.fullmatch(last)):
        return None
    return short


def is_branch(name: str) -> bool:
    """Whether a full name is that of a branch."""
    return name.startswith("refs/heads/") and reference(name) is not None
