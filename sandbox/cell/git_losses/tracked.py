# SPDX-License-Identifier: Apache-2.0
"""What stands for another repository's branches (`refs/remotes/`), where a call changes it.

`git status` says by it what was pushed, and a person goes by that. A cell has no network, so that
only a repository of the workspace can have been fetched from, or pushed to: gate 2 looks at whose
address that is.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from ..git.config import settings
from ..git.files import Files, content
from ..git.packs import Odd
from .refs import Ref
from .sides import Side

_TRACKED = "refs/remotes/"
_MOST_SETTINGS = 1 << 20


def tracked(old: Side, new: Side, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Give each reference that comes, moves or goes, with the address of its remote. Raises Odd.

    `paths` are those of changed files, in the repository.
    """
    names = set()
    for path in paths:
        if path.startswith(_TRACKED) and not path.endswith(".lock"):
            names.add(path)
        elif path == "packed-refs":
            before, after = old.refs.packed(), new.refs.packed()
            both = before.keys() | after.keys()
            names |= {n for n in both if n.startswith(_TRACKED) and before.get(n) != after.get(n)}
    for name in sorted(names):
        if _get(old, name) != _get(new, name):
            yield name, (name, _address(new.files, name[len(_TRACKED) :]))


def _get(side: Side, name: str) -> Ref | None:
    with contextlib.suppress(Odd):
        return side.refs.get(name)
    return None


def _address(files: Files, short: str) -> str:
    """Return the address of the remote that a short name begins with; "" for none or several."""
    try:
        known = list(settings(content(files, "config", _MOST_SETTINGS) or b""))
    except ValueError:
        return ""
    urls: dict[str, list[bytes]] = {}
    for key, value in known:
        name = os.fsdecode(key)
        if name.startswith("remote.") and name.endswith(".url"):
            urls.setdefault(name[len("remote.") : -len(".url")], []).append(value)
    found = [one for name, one in urls.items() if short.startswith(f"{name}/")]
    return os.fsdecode(found[0][0]) if len(found) == 1 and len(found[0]) == 1 else ""
