# SPDX-License-Identifier: Apache-2.0
"""What a reading of a call finds: the paths it touches and the judgements that it triggers.

Facts carry no verdict about places; `tiers`, `locations` and `matching` (policy/rules) turn them
into verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from policy.model import Tier


class How(str, Enum):
    """What a call does to a path."""

    EXIST = "looks for"
    LIST = "lists"
    READ = "reads"
    SEARCH = "searches"
    """Reads whatever a tree holds; a secret that it meets is hidden by the cell."""
    RUN = "runs"
    WRITE = "writes"
    APPEND = "appends to"
    EMPTY = "empties"
    META = "changes the mode or owner of"
    MOVE = "moves away"
    DELETE = "deletes"
    TREE = "deletes the tree"


READS = frozenset((How.EXIST, How.LIST, How.READ, How.SEARCH, How.RUN))
WRITES = frozenset((How.WRITE, How.APPEND, How.EMPTY, How.META, How.MOVE, How.DELETE, How.TREE))
DELETES = frozenset((How.DELETE, How.TREE, How.MOVE))


@dataclass(frozen=True, slots=True)
class Touch:
    """One path, absolute and normalised, with unknown pieces marked."""

    how: How
    path: str
    program: str = ""
    redirect: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A judgement that does not depend on a place."""

    tier: Tier
    rule: str
    reason: str
    program: str = ""
    """For `unknown-program`: the one that nobody knows."""


@dataclass(slots=True)
class Facts:
    """Everything a reading found; filled by one reading, then only read."""

    touches: dict[Touch, None] = field(default_factory=dict)
    findings: dict[Finding, None] = field(default_factory=dict)
    programs: dict[str, None] = field(default_factory=dict)
    calls: dict[tuple[str, ...], None] = field(default_factory=dict)
    """The first words of each command."""
    settings: dict[tuple[str, str], None] = field(default_factory=dict)
    """Variables that programs are started with, and those that change what commands mean."""
    writes: bool = False
    """The call may write caches or other files that it does not name."""
    network: bool = False
    hosts: dict[tuple[str, int], None] = field(default_factory=dict)
    """Names and ports of hosts that its commands spell out."""
    indexes: dict[str, None] = field(default_factory=dict)
    """Package clients that it lets install something of their index."""
    wanted: dict[str, None] = field(default_factory=dict)
    """Files of the project of which more should be known (`policy.shell.held_scripts`)."""
    lossless: dict[Touch, str] = field(default_factory=dict)
    """Why nothing that a person had goes with what the call deletes or empties."""
    removed: dict[str, None] = field(default_factory=dict)
    """Folders that the call says it removes by a command that looks whether anything would be lost
    (`git worktree remove`)."""
    absent: set[str] = field(default_factory=set)
    """Deleted paths at which nothing stands before the call."""

    def touch(self, touch: Touch) -> None:
        """Add a touched path."""
        self.touches[touch] = None

    def find(self, tier: Tier, rule: str, reason: str, program: str = "") -> None:
        """Add a judgement."""
        self.findings[Finding(tier, rule, reason, program)] = None
