# SPDX-License-Identifier: Apache-2.0
"""Agents that a person named before they run (`lockgate agent add`): their role and their parent.

What is called by such a name has its role, within its parent's: a declaration only ever narrows,
since an agent that nobody declared has no role at all, and may do what its caller may.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sandbox.agents.allowed import check_name, child_role
from sandbox.errors import BadInput, Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN, above
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:  # a stop needs no policy, and must be quick
    from policy.autonomy.roles import Roles

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
            found = [Declared(**load) for load in json.loads(own_files.read(self._file))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(f"`{self._file}` cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, RecursionError):
            raise Unavailable(f"`{self._file}` is damaged; mend it, or remove it") from None
        return sorted(found, key=lambda one: one.path.split(BETWEEN))

    def find(self, name: str) -> Declared | None:
        """Return an agent by its id or its path."""
        return next(
            (declared for declared in self.all() if name in (declared.id, declared.path)), None
        )

    def add(self, one: Declared) -> None:
        """Declare an agent. Raises BadInput where there is one of that name."""
        with self._locked():
            known = self.all()
            if any(other.id == one.id for other in known):
                raise BadInput(f"agent `{one.id}` is there already; `lockgate agent remove` it")
            if len(known) >= MOST:
                raise BadInput(f"{MOST} agents are declared already; remove some")
            self._write([*known, one])

    def remove(self, one: Declared) -> None:
        """Forget a declaration. Raises BadInput while others are declared below it."""
        with self._locked():
            known = self.all()
            below = [other.id for other in known if other.path.startswith(one.path + BETWEEN)]
            if below:
                raise BadInput(f"agents work for `{one.id}`: {', '.join(below)}; remove them first")
            self._write([other for other in known if other.id != one.id])

    def _write(self, known: list[Declared]) -> None:
        if known:
            own_files.write(
                self._file, json.dumps([asdict(declared) for declared in known], indent=1)
            )
        else:
            self._file.unlink(missing_ok=True)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return own_files.locked(self._file.with_suffix(".lock"), self._file)


def declaration(
    known: Declarations, name: str, *, parent: str | None, role: str | None, roles: Roles
) -> Declared:
    """Return a new declaration. Raises BadInput for a name, a parent or a role that cannot be."""
    over = known.find(parent) if parent is not None else None
    if parent is not None and over is None:
        raise BadInput(f"no agent `{safe_line(parent)}` is declared; see `lockgate agent list`")
    return Declared(
        check_name(name),
        over.id if over else None,
        f"{over.path}{BETWEEN}{name}" if over else name,
        child_role(over.role if over else None, role, roles),
    )


def within(outer: str | None, inner: str | None) -> str | None:
    """Return the role that is both: `outer`, narrowed by `inner`."""
    if outer is None or inner is None or inner == outer or inner.startswith(f"{outer}/"):
        return inner or outer
    return f"{outer}/{inner}"


def narrowed(plan: Mapping[str, Any], known: Declarations) -> dict[str, Any]:
    """Return a plan (as it came) with the path and the role of a declared agent, or of the nearest
    one above it."""
    agents = known.all()
    wanted = str(plan.get("agent") or DEFAULT)
    path = next((agent.path for agent in agents if wanted in (agent.id, agent.path)), wanted)
    roles = {agent.path: agent.role for agent in agents}
    nearest = next((one for one in above(path) if one in roles), None)
    if nearest is None or (roles[nearest] is None and nearest != path):
        return dict(plan)
    return {**plan, "agent": path, "role": within(roles[nearest], role_of(plan))}


def role_of(plan: Mapping[str, Any]) -> str | None:
    """Return the role that a plan (as it came) names."""
    role = plan.get("role")
    return None if role is None else str(role)
