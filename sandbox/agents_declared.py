# SPDX-License-Identifier: Apache-2.0
"""Agents that a person named before they run (`lockgate agent add`): their role and their parent.

What is called by such a name has its role, within its parent's: a declaration only ever narrows,
since an agent that nobody declared has no role at all, and may do what its caller may.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import own_files
from sandbox.dirs import Dirs
from sandbox.errors import BadInput, Unavailable
from sandbox.latch import BETWEEN
from sandbox.text import safe_line

if TYPE_CHECKING:  # a stop needs no policy, and must be quick
    from policy.roles import Roles

FILE = "declared-agents.json"
MOST = 10_000
DEFAULT = "main"
"""The agent of a call that names none."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One agent as it was declared."""

    id: str
    parent: str | None
    """The id of the declared agent that it works for."""
    path: str
    """The ids of all that are above it and its own (`a:b`)."""
    role: str | None
    """Its role within its parent's (`parent/child`)."""


class Declarations:
    """The declared agents of a state folder. Several processes may use it at once."""

    def __init__(self, dirs: Dirs) -> None:
        self._file = dirs.state / FILE

    @property
    def empty(self) -> bool:
        """Whether there is none; cheap."""
        return not self._file.exists()

    def all(self) -> list[Declared]:
        """Return them, parents first. Raises Unavailable where the file cannot be read."""
        try:
            found = [Declared(**one) for one in json.loads(own_files.read(self._file))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f"`{self._file}` cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, RecursionError):
            raise Unavailable(f"`{self._file}` is damaged; mend it, or remove it") from None
        return sorted(found, key=lambda one: one.path.split(BETWEEN))

    def find(self, name: str) -> Declared | None:
        """Return an agent by its id or its path."""
        return next((one for one in self.all() if name in (one.id, one.path)), None)

    def role(self, path: str) -> str | None:
        """Return the role of the nearest declared agent at or above a path, None for none."""
        roles = {one.path: one.role for one in self.all()}
        parts = path.split(BETWEEN)
        above = (BETWEEN.join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((roles[one] for one in above if one in roles), None)

    def add(self, one: Declared) -> None:
        """Declare an agent. Raises BadInput where there is one of that name."""
        with _Locked(self._file):
            known = self.all()
            if any(other.id == one.id for other in known):
                raise BadInput(f"agent `{one.id}` is there already; `lockgate agent remove` it")
            if len(known) >= MOST:
                raise BadInput(f"{MOST} agents are declared already; remove some")
            self._write([*known, one])

    def remove(self, one: Declared) -> None:
        """Forget a declaration. Raises BadInput while others are declared below it."""
        with _Locked(self._file):
            known = self.all()
            below = [other.id for other in known if other.path.startswith(one.path + BETWEEN)]
            if below:
                raise BadInput(f"agents work for `{one.id}`: {', '.join(below)}; remove them first")
            self._write([other for other in known if other.id != one.id])

    def _write(self, known: list[Declared]) -> None:
        if not known:
            self._file.unlink(missing_ok=True)
            return
        draft = self._file.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump([asdict(one) for one in known], file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)


class _Locked:
    """Holds the lock of the declarations. Raises Unavailable."""

    def __init__(self, file: Path) -> None:
        self._path = file.with_suffix(".lock")
        self._fd = -1

    def __enter__(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"`{self._path}` cannot be used: {error.strerror}") from None
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def declaration(
    known: Declarations, name: str, *, parent: str | None, role: str | None, roles: Roles
) -> Declared:
    """Return a new declaration. Raises BadInput for a name, a parent or a role that cannot be."""
    from sandbox.agents import checked_name

    above = known.find(parent) if parent is not None else None
    if parent is not None and above is None:
        raise BadInput(f"no agent `{safe_line(parent)}` is declared; see `lockgate agent list`")
    if role is not None and roles.find(role) is None:
        raise BadInput(f"there is no role `{safe_line(role)}`; roles are {', '.join(roles.names)}")
    path = f"{above.path}{BETWEEN}{name}" if above else name
    return Declared(
        checked_name(name),
        above.id if above else None,
        path,
        roles.child(above.role if above else None, role),
    )


def within(outer: str | None, inner: str | None) -> str | None:
    """Return the role that is both: `outer`, narrowed by `inner`."""
    if outer is None or inner is None or inner == outer or inner.startswith(f"{outer}/"):
        return inner or outer
    return f"{outer}/{inner}"


def narrowed(plan: Mapping[str, Any], known: Declarations) -> dict[str, Any]:
    """Return a plan (as it came) with the path and the role of a declared agent."""
    wanted = str(plan.get("agent") or DEFAULT)
    one = known.find(wanted)
    path = one.path if one is not None else wanted
    role = known.role(path)
    if role is None and one is None:
        return dict(plan)
    own = plan.get("role")
    return {**plan, "agent": path, "role": within(role, None if own is None else str(own))}
