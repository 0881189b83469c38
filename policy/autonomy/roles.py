# SPDX-License-Identifier: Apache-2.0
"""Roles: what a Researcher, Coder, Critic, Deployer or a role of one's own may do.

The matrix of safety-guardrails.md ("Sub-Agent Constraints"). A role denies or asks, and narrows
what the kernel lets a call do; it never allows what another layer does not.

INVARIANT (P7, roles): a child's role is the intersection of its own and its parent's, so that no
child may do what its parent may not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from policy.facts import WRITES, Facts
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Frozen,
    LayerAnswer,
    Limits,
    Rights,
    Verdict,
    strictest,
)
from policy.values import strict_yaml
from policy.values.paths import Where, where

_A, _ASK, _DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
_CELLS = {
    "yes": (_A, _A),
    "no": (_DENY, _DENY),
    "with approval": (_ASK, _ASK),
    "project only": (_A, _DENY),
    "tests only": (_A, _DENY),
}
_CHOICES = f"use one of {', '.join(_CELLS)}"
_COLUMNS = ("read", "write", "execute", "push")
_PROJECT = frozenset((Where.INSIDE, Where.TEMPORARY, Where.DEVICE))
_PLAIN = re.compile(r"[\w\s./:=@%+,'\"&|;><*-]*")
_BREAKS = frozenset(("&&", "||", ";", "|", "|&", "&"))
_REDIRECTS = frozenset((">", ">>", "<", ">&", "&>", "&>>"))
_SIGNS = frozenset("|&;<>")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_MOST_PLAIN = 2000
_BETWEEN = "/"


def _or_words(schema: dict[str, Any]) -> None:
    """Let the schema say that a cell is written in words, too."""
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [{"type": "string", "enum": list(_CELLS)}, whole]


class MatrixCell(Frozen):
    """One cell of the matrix: the verdict within the project (or tests), and the one beyond."""

    model_config = ConfigDict(json_schema_extra=_or_words)

    within: Verdict = Verdict.DENY
    beyond: Verdict = Verdict.DENY

    @model_validator(mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError(f"`{str(value).lower()}` is not a permission; {_CHOICES}")
        if not isinstance(value, str):
            return value
        found = _CELLS.get(" ".join(value.casefold().split()))
        if found is None:
            raise ValueError(f"`{value}` is not a permission; {_CHOICES}")
        return {"within": found[0], "beyond": found[1]}

    @model_validator(mode="after")
    def _ordered(self) -> MatrixCell:
        if strictest((self.within, self.beyond)) is not self.beyond:
            raise ValueError("what lies beyond must be as strict as what lies within")
        return self

    def meet(self, other: MatrixCell) -> MatrixCell:
        """Return the stricter of both, within and beyond."""
        return MatrixCell(
            within=strictest((self.within, other.within)),
            beyond=strictest((self.beyond, other.beyond)),
        )


class Role(Frozen):
    """One row of the matrix. What it does not say is denied."""

    read: MatrixCell = MatrixCell()
    write: MatrixCell = MatrixCell()
    execute: MatrixCell = MatrixCell()
    push: MatrixCell = MatrixCell()
    limits: Limits = Limits(seconds=86_400)

    def meet(self, other: Role) -> Role:
        """Return the intersection: never wider than either."""
        cells = {name: getattr(self, name).meet(getattr(other, name)) for name in _COLUMNS}
        return Role(**cells, limits=self.limits.meet(other.limits))

    def rights(self) -> Rights:
        """Return the widest rights that a call of this role can get.

        A role that writes nothing and executes nothing never gets a writable layer.
        """
        if self.read.within is Verdict.DENY:
            return Rights(limits=self.limits)
        writes = self.write.within is not Verdict.DENY
        return Rights(workspace=Access.WRITE if writes else Access.READ, limits=self.limits)


@dataclass(frozen=True, slots=True)
class RoleAct:
    """One thing that a call does, in the words of the matrix."""

    column: str
    within: bool
    what: str


class Acts(Frozen):
    """Rules of the tier layer by column."""

    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()
    push: frozenset[str] = frozenset()


def _with_roles(schema: dict[str, Any]) -> None:
    """Let the schema say that roles may stand alone."""
    schema["additionalProperties"] = schema["properties"]["roles"]["additionalProperties"]


class RolesFile(Frozen):
    """The file `roles.yaml`."""

    model_config = ConfigDict(json_schema_extra=_with_roles)

    roles: dict[str, Role] = Field(default_factory=dict)
    acts: Acts = Acts()
    pushes: frozenset[str] = frozenset()
    tests: tuple[tuple[str, ...], ...] = ()
    beside: frozenset[str] = frozenset()
    explained: frozenset[str] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Take roles alone (`roles: {tester: …}` of a policy file) for what they are."""
        plain = isinstance(value, Mapping) and value and not value.keys() & cls.model_fields.keys()
        return {"roles": value} if plain else value

    @field_validator("roles")
    @classmethod
    def _named(cls, roles: dict[str, Role]) -> dict[str, Role]:
        for name in roles:
            if _BETWEEN in name or not name.strip():
                raise ValueError(f"`{name}` cannot name a role")
        return {name.casefold(): role for name, role in roles.items()}


class Roles:
    """Everything that the role layer knows; built once, then only read."""

    def __init__(self, file: RolesFile) -> None:
        self._file = file

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> Roles:
        """Return the roles that come with the package."""
        return Roles(strict_yaml.default(RolesFile, "roles.yaml"))

    def extended(self, file: RolesFile) -> Roles:
        """Return the roles with a user's own; a role of the same name becomes the intersection."""
        roles = dict(self._file.roles)
        for name, role in file.roles.items():
            roles[name] = role.meet(roles[name]) if name in roles else role
        return Roles(self._file.model_copy(update={"roles": roles}))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all roles."""
        return tuple(self._file.roles)

    def find(self, name: str) -> Role | None:
        """Return a role; `parent/child` is the child's within its parent's. None: no such role."""
        found: Role | None = None
        for part in name.casefold().split(_BETWEEN):
            role = self._file.roles.get(part.strip())
            if role is None:
                return None
            found = role if found is None else found.meet(role)
        return found

    def child(self, parent: str | None, child: str | None) -> str | None:
        """Return the name of the role that a parent's child has; never wider than the parent's."""
        return _BETWEEN.join(name for name in (parent, child) if name) or None

    def answers(
        self, plan: ActionPlan, facts: Facts, said: Iterable[LayerAnswer], context: Context
    ) -> tuple[list[LayerAnswer], Rights | None]:
        """Return the role layer's answers on a call, and the widest rights that its role gives.

        A plan without a role gets no answer and no bound; an unknown role may do nothing.
        """
        if plan.role is None:
            return [], None
        role = self.find(plan.role)
        if role is None:
            why = f"there is no role `{plan.role}`; roles are {', '.join(self.names)}"
            return [_say(Verdict.DENY, "role-unknown", why)], Rights()
        layer_answers = [
            _judged(plan.role, role, act) for act in self.acts(plan, facts, said, context)
        ]
        return list(dict.fromkeys(layer_answers)), role.rights()

    def acts(
        self, plan: ActionPlan, facts: Facts, said: Iterable[LayerAnswer], context: Context
    ) -> tuple[RoleAct, ...]:
        """Return what a call does, in the words of the matrix; every call reads."""
        found = {RoleAct("read", True, "it reads"): None}
        for touch in facts.touches:
            if touch.how in WRITES:
                inside = where(touch.path, context) in _PROJECT
                place = "in" if inside else "outside"
                found[RoleAct("write", inside, f"it writes {place} the project")] = None
        for name in sorted(self._file.pushes & facts.programs.keys()):
            found[RoleAct("push", True, f"`{name}` pushes")] = None
        tests = plan.params.command is not None and self.tests(plan.params.command)
        for answer in said:
            act = self._act(answer, tests=tests)
            if act is not None:
                found[act] = None
        return tuple(found)

    def _act(self, answer: LayerAnswer, *, tests: bool) -> RoleAct | None:
        acts, rule = self._file.acts, answer.rule
        if answer.verdict is Verdict.ALLOW or rule in acts.read:
            return None
        if rule in acts.push:
            return RoleAct("push", True, "it pushes")
        if rule in acts.write:
            return RoleAct("write", True, "it writes in the project")
        if rule in acts.tests or (tests and rule in self._file.explained):
            return RoleAct("execute", True, "it runs tests")
        return RoleAct("execute", False, f"it executes something: {answer.reason}")

    def tests(self, command: str) -> bool:
        """Whether a command line plainly runs tests and nothing else of weight.

        Only plain words are looked at, so that what cannot be seen at once is not taken for tests.
        """
        if len(command) > _MOST_PLAIN or "\n" in command or not _PLAIN.fullmatch(command):
            return False
        try:
            lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
            lexer.commenters = ""
            words = list(lexer)
        except ValueError:
            return False
        parts: list[list[str]] = [[]]
        for word in words:
            if word in _BREAKS:
                parts.append([])
            elif set(word) <= _SIGNS and word not in _REDIRECTS:
                return False
            elif parts[-1] or not _ASSIGNED.match(word):
                parts[-1].append(word)
        ran = [part for part in parts if self._is_test(part)]
        beside = [part for part in parts if part and part not in ran]
        return bool(ran) and all(one[0] in self._file.beside for one in beside)

    def _is_test(self, words: list[str]) -> bool:
        return any(tuple(words[: len(wanted)]) == wanted for wanted in self._file.tests)


def _judged(name: str, role: Role, act: RoleAct) -> LayerAnswer:
    cell: MatrixCell = getattr(role, act.column)
    verdict = cell.within if act.within else cell.beyond
    if verdict is Verdict.ALLOW:
        return _say(verdict, "", f"`{name}` may {act.column}: {act.what}")
    says = "may not" if verdict is Verdict.DENY else "needs approval to"
    return _say(verdict, f"role-{act.column}", f"`{name}` {says} {act.column}: {act.what}")


def _say(verdict: Verdict, rule: str, reason: str) -> LayerAnswer:
    return LayerAnswer(layer="role", verdict=verdict, reason=reason, rule=rule)
