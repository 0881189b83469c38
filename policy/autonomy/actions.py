# SPDX-License-Identifier: Apache-2.0
"""What an action is, from the words of its name and from what is said of it (orchestration.md).

Words are data (`trust.yaml`). What follows for trust is `trust`'s business.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from policy.model import Frozen

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9]+")
_NAMES_FILE = re.compile(r"[./]")
_JOINS = frozenset(("and", "then", "or"))
_MOST_TEXT = 4000


def words_of(text: str) -> frozenset[str]:
    """Return the words of a name or a hint: `deploy_production`, `sendEmail`, `delete x`."""
    return frozenset(_WORD.findall(_CAPITAL.sub("_", text[:_MOST_TEXT]).casefold()))


def _verbs(hint: str, *, reading: bool) -> frozenset[str]:
    """Return the words at the beginning of a hint, where its verb stands (`git push`).

    What a reading tool gets may begin with the name of a file, which is no verb.
    """
    first = hint[:_MOST_TEXT].split()[:2]
    return words_of(" ".join(w for w in first if not reading or not _NAMES_FILE.search(w)))


class Risk(str, Enum):
    """How much an action can break."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class ActionContext(BaseModel):
    """What is said of an action; anything else that is said has no effect.

    A value that is neither true nor false counts as the stricter one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    is_destructive: bool | None = None
    affects_production: bool | None = None
    is_reversible: bool | None = None

    @field_validator("*", mode="wrap")
    @classmethod
    def _strict(
        cls, value: Any, parse: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> bool | None:
        try:
            parsed: bool | None = parse(value)
        except ValidationError:
            return info.field_name != "is_reversible"
        return parsed


class Nature(Frozen):
    """What an action is, from its name and its context, the stricter of both."""

    reads: bool
    destructive: bool
    production: bool
    reversible: bool

    @property
    def kind(self) -> str:
        """The word for the action in reasons."""
        return self.adjectives.split()[0]

    @property
    def adjectives(self) -> str:
        """What is worst about the action, capitalised."""
        if self.destructive or self.production:
            words = ["destructive"] * self.destructive + ["production"] * self.production
            return " ".join(words).capitalize()
        return "Reversible" if self.reversible else "Irreversible"

    @property
    def risk(self) -> Risk:
        """How much the action can break."""
        if self.destructive and self.production:
            return Risk.CRITICAL
        if self.destructive or self.production:
            return Risk.HIGH
        return Risk.LOW if self.reads or self.reversible else Risk.MEDIUM


class ActionWords(Frozen):
    """Words of names of actions, by what they mean."""

    reading: frozenset[str] = frozenset()
    destructive: frozenset[str] = frozenset()
    production: frozenset[str] = frozenset()
    reversible: frozenset[str] = frozenset()
    external: frozenset[str] = frozenset()

    def nature(self, action: str, context: ActionContext, hint: str = "") -> Nature:
        """Return what an action is. What nothing is known of counts as irreversible."""
        words = words_of(action)
        acts = words | _verbs(hint, reading=bool(words & self.reading))
        destructive, external = bool(acts & self.destructive), bool(acts & self.external)
        changes = bool(acts & self.reversible) or bool(acts & _JOINS)
        reads = (
            bool(acts & self.reading)
            and not (destructive or external or changes)
            and not (context.is_destructive or context.affects_production)
            and context.is_reversible is not False
        )
        produces = bool((words | words_of(hint)) & self.production)
        undone = bool(acts & self.reversible) or bool(context.is_reversible)
        lost = destructive or external or context.is_destructive or context.is_reversible is False
        return Nature(
            reads=reads,
            destructive=destructive or bool(context.is_destructive),
            production=not reads and (produces or bool(context.affects_production)),
            reversible=not lost and (reads or undone),
        )
