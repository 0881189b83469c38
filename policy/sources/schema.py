# SPDX-License-Identifier: Apache-2.0
"""The shape of the policy file that people write. Reading it is `document`'s business."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from policy.autonomy.levels import LevelsFile
from policy.autonomy.modes import ModesFile
from policy.autonomy.roles import RolesFile
from policy.autonomy.trust import TrustFile
from policy.model import Frozen
from policy.programs.own_programs import OwnProgram
from policy.protected.path_rules import AllowedLink, GovernanceRule, ObeyedRule, SecretPaths
from policy.rules.matching import Bounds, CommandRule, Rule, Tools
from policy.rules.reach import NetworkRules
from policy.values.path_index import globs
from policy.values.paths import canonical

MOST_RULES = 10_000
SECTIONS = ("rules", "commands", "programs", "governance", "obeyed")
"""The parts that are lists of rules, each with an id."""

Names = tuple[Annotated[str, Field(min_length=1)], ...]


class PlaceNames(Frozen):
    """Names that gate 1 knows places by; added to those of `defaults/places.yaml`."""

    secret_folders: Names = ()
    secret_files: Names = ()
    secret_home: Names = ()
    secret_absolute: Names = ()
    environment_files: Names = ()
    asked_files: Names = ()
    asked_endings: Names = ()
    asked_writes: Names = ()
    environment_templates: Names = ()
    """Loosens: endings of environment files that hold no secrets."""
    agent_home: Names = ()
    """Loosens: what below a home directory belongs to the agent."""

    @field_validator(
        "secret_folders", "secret_files", "secret_home", "environment_files", "asked_files",
        "asked_endings", "asked_writes",
    )  # fmt: skip
    @classmethod
    def _folded(cls, names: Names) -> Names:
        return tuple("/".join(map(canonical, name.strip("/").split("/"))) for name in names)


class SecretNames(Frozen):
    """Files that a cell does not see, and those that it may see although they look alike."""

    hide: Names = ()
    show: Names = ()
    """Loosens: files that are not hidden, whatever an earlier file says."""
    match: Names = ()
    miss: Names = ()

    @model_validator(mode="after")
    def _examples(self) -> SecretNames:
        self.paths()
        for pattern in (*self.hide, *self.show):
            globs(pattern)
        return self

    def paths(self) -> SecretPaths:
        """Return them for gate 2; its examples are run."""
        return SecretPaths(**dict(self))


IGNORED = "ignored"
"""In the place of a pattern: all that git ignores. A file of that name is `/ignored`."""


class LandFreely(Frozen):
    """Changes that land without a person although gate 2 would hold them.

    Only what the files before this one hold, and this one: never what a stronger file does.
    """

    deletions: Names = ()
    """Files that a call may delete without naming them, such as `dist/**`. The word `ignored`
    stands for what git ignores by rules that a person made: a call that names such files is not
    asked about (gate 2 lets them go anyway)."""
    obeyed: Names = ()
    """Files that something on the host obeys, such as `.github/workflows/**`."""

    @field_validator("deletions", "obeyed")
    @classmethod
    def _comparable(cls, patterns: Names) -> Names:
        for pattern in patterns:
            globs(pattern)
        return patterns

    @property
    def deletable(self) -> Names:
        """The patterns of files that a call may delete without naming them."""
        return tuple(pattern for pattern in self.deletions if pattern != IGNORED)


class PolicyDocument(Frozen):
    """A policy file. Every part may be left out; all of them add to what counts already."""

    version: Literal[1] = 1
    rules: Annotated[tuple[Rule, ...], Field(max_length=MOST_RULES)] = ()
    """Rules on files, programs and words (policy-check.md)."""
    commands: Annotated[tuple[CommandRule, ...], Field(max_length=MOST_RULES)] = ()
    """Rules on programs by name."""
    programs: Annotated[tuple[OwnProgram, ...], Field(max_length=MOST_RULES)] = ()
    """Programs of one's own; those of tier `caution` loosen."""
    governance: Annotated[tuple[GovernanceRule, ...], Field(max_length=MOST_RULES)] = ()
    """Files that no call changes, whatever way it takes."""
    obeyed: Annotated[tuple[ObeyedRule, ...], Field(max_length=MOST_RULES)] = ()
    """Files that something on the host executes or obeys: a person looks at changes."""
    secrets: SecretNames = SecretNames()
    """Files that a cell does not see."""
    links: tuple[AllowedLink, ...] = ()
    """Loosens: links that may leave the workspace."""
    land_freely: LandFreely = LandFreely()
    """Loosens: changes that need no person."""
    git_keys: Names = ()
    """Settings of git that a person looks at, besides the known ones."""
    limits: Bounds = Bounds()
    """Bounds of every call; only lower ones count."""
    network: NetworkRules = NetworkRules()
    """What calls may reach: hosts by program (that loosens), and whether installs reach indexes."""
    places: PlaceNames = PlaceNames()
    tools: Tools = Tools()
    """Tools by what they do, and verdicts on them; all but `ask` and `deny` can loosen."""
    levels: LevelsFile | None = None
    """Levels per user and agent (`levels.yaml`)."""
    modes: ModesFile | None = None
    """The mode of autonomy (`modes.yaml`)."""
    trust: TrustFile | None = None
    """Trust in agents (`trust.yaml`)."""
    roles: RolesFile | None = None
    """Roles of one's own (`roles.yaml`)."""

    @field_validator("governance", "obeyed")
    @classmethod
    def _comparable(cls, rules: Any) -> Any:
        for rule in rules:
            for pattern in rule.paths:
                globs(pattern)
        return rules
