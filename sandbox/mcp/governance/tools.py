# SPDX-License-Identifier: Apache-2.0
"""The governance tools of one state folder, by what they are about.

They tell, and note what an agent says of itself; none of them lets anything run. INVARIANT (P8):
`request_approval` puts a question and grants nothing.
"""

from __future__ import annotations

from sandbox.config.settings import Dirs
from sandbox.mcp.governance.approvals import PersonAsking
from sandbox.mcp.governance.decisions import Decisions
from sandbox.mcp.governance.permissions import Permissions
from sandbox.mcp.governance.standing import Standing
from sandbox.mcp.governance.standpoint import Standpoint


class Governance:
    """Answers for the agents of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        at = Standpoint(dirs)
        self.permissions = Permissions(at)
        self.standing = Standing(at)
        self.decisions = Decisions(at)
        self.asking = PersonAsking(at)
