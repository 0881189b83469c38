# SPDX-License-Identifier: Apache-2.0
"""Which name an agent may have, and which role below its parent's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:  # a stop needs no policy, and must be quick
    from policy.autonomy.roles import Roles

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_name(name: str) -> str:
    """Return a name that an agent may have. Raises BadInput."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"`{safe_line(name)}` cannot name an agent: 1 to 64 letters, digits, `.`, `_`, `-`"
        )
    return name


def child_role(parents: str | None, role: str | None, roles: Roles | None) -> str | None:
    """Return a role within the parent's. Raises BadInput for one that there is not."""
    from policy.autonomy.roles import Roles

    known = roles or Roles.default()
    if role is not None and known.find(role) is None:
        raise BadInput(f"there is no role `{safe_line(role)}`; roles are {', '.join(known.names)}")
    return known.child(parents, role)
