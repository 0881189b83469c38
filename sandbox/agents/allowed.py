# SPDX-License-Identifier: Apache-2.0
"""Which name an agent may have, and which role below its parent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.agent_names import RULE, is_agent_id, is_agent_path
from sandbox.errors import BadInput
from sandbox.text.terminal import cut, safe_line

if TYPE_CHECKING:  # a stop needs no policy, and must be quick
    from policy.autonomy.roles import Roles
_SHOWN = 80
"""Characters of a wrong name that a message shows."""


def check_name(name: str) -> str:
    """Return a name that an agent may have. Raises BadInput."""
    if not is_agent_id(name):
        raise BadInput(f"`{safe_line(cut(name, _SHOWN))}` cannot name an agent: {RULE}")
    return name


def check_path(name: str) -> str:
    """Return a name that an agent may have, perhaps with those above it (`main:sub:7`). Raises
    BadInput."""
    if not is_agent_path(name):
        raise BadInput(
            f"`{safe_line(cut(name, _SHOWN))}` cannot name an agent: {RULE}; `:` is between an "
            "agent and one below it"
        )
    return name


def child_role(parents: str | None, role: str | None, roles: Roles | None) -> str | None:
    """Return a role within the parent's. Raises BadInput for one that there is not."""
    from policy.autonomy.roles import Roles

    known = roles or Roles.default()
    if role is not None and known.find(role) is None:
        raise BadInput(f"there is no role `{safe_line(role)}`; roles are {', '.join(known.names)}")
    return known.child(parents, role)
