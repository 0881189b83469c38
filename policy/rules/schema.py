# SPDX-License-Identifier: Apache-2.0
"""The shape of rules (policy-check.md): triggers, checks, constraints. What they say of a call is
for `matching`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from policy.model import (
    Access,
    Enforcement,
    Frozen,
    LayerAnswer,
    Limits,
    MatchedRule,
    Rights,
    Tier,
)
from policy.rules.command_index import check_pattern
from policy.values.path_index import globs

Patterns = tuple[str, ...]


def _compared(patterns: Patterns) -> Patterns:
    for pattern in patterns:
        globs(pattern)
    return patterns


def _commands_compared(patterns: Patterns) -> Patterns:
    for pattern in patterns:
        check_pattern(pattern)
    return patterns


class Triggers(Frozen):
    """What makes a rule apply."""

    file_patterns: Patterns = ()
    """Files that a call touches."""
    command_patterns: Patterns = ()
    """Commands that a call runs, as in `commands`: `gh pr create`, `kubectl *`."""
    behavior_triggers: tuple[str, ...] = ()
    """The behaviour in words, for people."""
    keywords: tuple[str, ...] = ()
    """Words of the plan's intent."""

    _globs = field_validator("file_patterns")(_compared)
    _commands = field_validator("command_patterns")(_commands_compared)


class Bounds(Frozen):
    """Limits, as far as they are given; only the lower of two counts."""

    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    answer_bytes: Annotated[int, Field(ge=0)] | None = None
    output_bytes: Annotated[int, Field(ge=0)] | None = None
    changed_files: Annotated[int, Field(ge=0)] | None = None
    changed_bytes: Annotated[int, Field(ge=0)] | None = None

    def bound(self, limits: Limits) -> Limits:
        """Return limits, each at most what is given here."""
        given = {k: min(v, getattr(limits, k)) for k, v in self if v is not None}
        return limits.model_copy(update=given) if given else limits


class Constraints(Frozen):
    """What a call that a check lets pass may do at most."""

    workspace: Access = Access.WRITE
    limits: Bounds = Bounds()

    def bound(self, rights: Rights) -> Rights:
        """Return rights, never wider than they were."""
        narrowed = rights.meet(Rights(workspace=self.workspace, limits=rights.limits))
        return narrowed.model_copy(update={"limits": self.limits.bound(rights.limits)})


class Check(Frozen):
    """What a rule demands where its condition holds."""

    id: str
    condition: str = ""
    """The condition in words, for people; `writes` and `reads` are what is compared."""
    writes: Patterns = ()
    reads: Patterns = ()
    decision: Literal["allow", "deny", "allow_with_constraints"]
    denied_path: str = ""
    allowed_path: str = ""
    required_fields: tuple[str, ...] = ()
    """What the call must name (`owner: ...` in its content, its command or its intent)."""
    constraints: Constraints = Constraints()
    next_action_template: dict[str, Any] | None = None

    _globs = field_validator("writes", "reads")(_compared)


class Checks(Frozen):
    """The checks of a rule; the first whose condition holds counts."""

    checks: tuple[Check, ...] = Field(min_length=1)


Example = str | dict[str, Any]
"""A command line, or `{tool, params}`."""


class Rule(Frozen):
    """A governance rule."""

    id: str
    name: str
    because: str = ""
    triggers: Triggers
    enforcement: Checks
    match: tuple[Example, ...] = ()
    miss: tuple[Example, ...] = ()


class CommandRule(Frozen):
    """A rule on programs by name, which can only tighten what the catalog says."""

    id: str
    programs: tuple[str, ...] = Field(min_length=1)
    """`git push`, `docker`, `kubectl *`, or `git push --force` (`policy.rules.command_index`)."""
    tier: Tier
    because: str
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()

    _commands = field_validator("programs")(_commands_compared)


class Tools(Frozen):
    """Tools by what they do: names, or globs such as `mcp__github__get_*`; all that fit count.

    `tools` says what each kind does. The last four are a verdict on tools whose parameters nobody
    reads: a tool that only `allow` or `report` names may run, whatever it does.
    """

    read: tuple[str, ...] = ()
    read_many: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    move: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    powershell: tuple[str, ...] = ()
    web: tuple[str, ...] = ()
    spawn: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def kinds(self, name: str) -> frozenset[str]:
        """Return the fields that name a tool."""
        known = self._exact.get(name)
        if known is not None and not self._globs:
            return known
        found = {field for field, pattern in self._globs if fnmatchcase(name, pattern)}
        return frozenset(found) | (known or frozenset())

    def named(self, names: Iterable[str]) -> frozenset[str]:
        """Return what is said of a tool by other names of it, which can only tighten."""
        return frozenset().union(*map(self.kinds, names)) & _TIGHTENING

    def is_shell(self, name: str) -> bool:
        """Whether a tool's parameter is a command line."""
        return not self.kinds(name).isdisjoint(_SHELLS)

    @cached_property
    def _exact(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for field, names in self:
            for name in names:
                found.setdefault(name, set()).add(field)
        return {name: frozenset(fields) for name, fields in found.items()}

    @cached_property
    def _globs(self) -> tuple[tuple[str, str], ...]:
        return tuple((f, name) for f, names in self for name in names if _GLOB.search(name))


_SHELLS = frozenset(("shell", "powershell"))
_TIGHTENING = frozenset(("ask", "deny"))
_GLOB = re.compile(r"[*?\[]")


class PolicyFile(Frozen):
    """The file `policy.yaml`."""

    rules: tuple[Rule, ...] = ()
    commands: tuple[CommandRule, ...] = ()
    tools: Tools = Tools()


class PolicyCheckResult(Frozen):
    """The document's `PolicyCheckResult` (policy-check.md)."""

    allowed: bool
    matched_rules: tuple[MatchedRule, ...] = ()
    enforcement: Enforcement | None = None
    message: str


class PolicyCheck(Frozen):
    """The answer of all rules (policy-check.md, PolicyCheckResult)."""

    allowed: bool
    matched_rules: tuple[MatchedRule, ...] = ()
    enforcement: Enforcement | None = None
    message: str
    answers: tuple[LayerAnswer, ...] = ()
    blocked: tuple[LayerAnswer, ...] = ()
    """Those that say in a whole sentence, in the document's words, what they block."""
    constraints: tuple[Constraints, ...] = ()

    @property
    def demand(self) -> Enforcement | None:
        """What a rule demands; None where all of them let the call pass as it is."""
        found = self.enforcement
        return found if found is not None and found.decision != "allow" else None

    @property
    def result(self) -> PolicyCheckResult:
        """The answer as the document has it."""
        return PolicyCheckResult(
            allowed=self.allowed,
            matched_rules=self.matched_rules,
            enforcement=self.demand,
            message=self.message,
        )
