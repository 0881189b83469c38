# SPDX-License-Identifier: Apache-2.0
"""What to say where settings ask for signatures, and a call made something without. Pure.

It is told, and not held: no cell holds a key, so what lands after a person's yes would be as
unsigned as before, and every commit would need one. The person signs what they keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from policy.gate2.git.config import Setting
from policy.model import Change

_TRUE = frozenset((None, "true", "yes", "on", "1"))
_ASK = {
    "commit.gpgsign": "commit",
    "tag.gpgsign": "tag",
    "tag.forcesignannotated": "tag",
}
_HOW = {
    "commit": "sign with `git commit --amend -S --no-edit`, several with "
    "`git rebase --exec 'git commit --amend -S --no-edit' BASE`",
    "tag": "make it anew with `git tag -s -f`",
}


def wanted_signatures(settings: Iterable[Setting]) -> frozenset[str]:
    """Return what settings ask to be signed (`commit`, `tag`); of several the last one counts."""
    last: dict[str, bool] = {}
    for name, value in settings:
        if name in _ASK:
            last[name] = value is None or value.lower() in _TRUE
    return frozenset(_ASK[name] for name, asks in last.items() if asks)


def unsigned_notice(changes: Iterable[Change], wanted: Set[str]) -> str:
    """Return what a person is told of new commits and tags without a signature, "" for nothing."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.unsigned in wanted:
            found.setdefault(change.unsigned, []).append(_name(change.path))
    said = []
    for kind, names in found.items():
        shown = ", ".join(f"`{name}`" for name in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        said.append(
            f"the new {kind} at {shown}{more} is not signed, as settings ask ({kind}.gpgsign): "
            f"calls have no key; {_HOW[kind]}"
        )
    return "; ".join(said)


def _name(path: str) -> str:
    for start in ("refs/heads/", "refs/tags/"):
        if f"/{start}" in f"/{path}":
            path = path.rpartition(start)[2]
    safe = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in safe).replace("`", "\\x60")
