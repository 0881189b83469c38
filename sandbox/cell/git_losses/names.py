# SPDX-License-Identifier: Apache-2.0
"""New references that stand in the way of others, or stand for them under their short names.

Source: git's Documentation/revisions.txt (the order in which a short name is looked up) and
git-check-ref-format.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ..git.packs import Odd
from .refs import Ref, Refs

_FORMS = (
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
)
"""What is put around a short name, in the order in which git tries it."""
_LIKE_AN_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|@|HEAD|[A-Z_]*_HEAD|-.*")


def misleads(name: str, ref: Ref, old: Refs, new: Refs) -> Iterator[str]:
    """Give in which ways a reference that is new would be taken for something else."""
    for rank, (start, end) in enumerate(_FORMS):
        short = _short(name, start, end)
        if not short:
            continue
        if start != "refs/" and not end and _LIKE_AN_OBJECT.fullmatch(short):
            yield f"git takes `{short}` for something else"
        for before, after in _FORMS[rank + 1 :]:
            other = f"{before}{short}{after}"
            there = _get(old, other)
            if there is not None and other != name and there != ref:
                yield f"`{short}` meant `{other}` before"
    parts = name.split("/")
    for count in range(3, len(parts)):
        above = "/".join(parts[:count])
        if _get(new, above) is not None:
            yield f"`{above}` stands in its way"
    if new.is_packed_below(name):
        yield "it stands in the way of others"


def _short(name: str, start: str, end: str) -> str:
    fits = name.startswith(start) and name.endswith(end)
    return name[len(start) : len(name) - len(end)] if fits and len(name) > len(start + end) else ""


def _get(refs: Refs, name: str) -> Ref | None:
    with contextlib.suppress(Odd):
        return refs.get(name)
    return None
