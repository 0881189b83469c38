# SPDX-License-Identifier: Apache-2.0
"""The shapes of well-known issuers' keys and tokens, from `policy/defaults/secret_shapes.yaml`.

A shape is a row of fixed texts and of runs of characters. Where a run ends is never a question: the
text after it begins with a character that the run cannot hold. So no text takes long to look
through, whatever it holds. Pure but for reading that file once.
"""

from __future__ import annotations

import re
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policy.values import strict_yaml

FILE = "secret_shapes.yaml"
_CHARACTERS = re.compile(r"(?:A-Z|a-z|a-f|0-9|[A-Za-z0-9_/])+-?")
_SHORT = 32
"""Characters of a run with which a shape may begin: any word may be the beginning of such a one."""


class ShapeRun(BaseModel):
    """Characters of one set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str
    """The set, as `A-Za-z0-9_-`."""
    least: int = Field(ge=1)
    most: int = Field(le=8000)

    @model_validator(mode="after")
    def _check(self) -> ShapeRun:
        if not _CHARACTERS.fullmatch(self.of):
            raise ValueError(
                f"`{self.of}` is no set of letters, digits, `_`, `/` and `-` at its end"
            )
        if self.most < self.least:
            raise ValueError("`most` is less than `least`")
        return self

    def holds(self, character: str) -> bool:
        """Whether a character is in the set."""
        return re.fullmatch(f"[{self.of}]", character) is not None


class Shape(BaseModel):
    """What a secret of one issuer looks like."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str
    parts: tuple[tuple[str, ...] | ShapeRun, ...] = Field(min_length=1)
    """Texts, of which one stands there, and runs of characters."""
    after: str = ""
    """What stands before it, and stays; without it, it begins where a word begins."""
    whole_word: bool = False
    """Whether a word must end where it ends."""
    holds: tuple[str, ...] = ()
    """Words of which each text of this shape holds one; without it, those that it begins with."""

    @model_validator(mode="after")
    def _check(self) -> Shape:
        first, *_ = self.parts
        if isinstance(first, ShapeRun) and not self.after and first.most > _SHORT:
            raise ValueError(f"it begins with a run of more than {_SHORT} characters")
        for part, following in zip(self.parts, (*self.parts[1:], None), strict=True):
            if not isinstance(part, ShapeRun):
                if not part or not all(part):
                    raise ValueError("a text is empty")
            elif isinstance(following, ShapeRun):
                raise ValueError("a run follows a run; where one ends cannot be told")
            elif following and any(part.holds(text[0]) for text in following):
                raise ValueError("a run can hold the beginning of the text after it")
        if not self.words:
            raise ValueError("`holds` must say which word it holds")
        texts = [part for part in self.parts if not isinstance(part, ShapeRun)]
        told = [*([self.after] if self.after else []), *(texts[0] if texts else ())]
        for word in self.holds:
            if not any(word in text for text in told):
                raise ValueError(f"no text of it holds `{word}`")
        if self.holds and not all(any(word in text for word in self.holds) for text in told):
            raise ValueError("it may be without any word of `holds`")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """Words of which each text of this shape holds one."""
        if self.holds or self.after:
            return self.holds or (self.after,)
        first = self.parts[0]
        return () if isinstance(first, ShapeRun) else first

    def pattern(self) -> str:
        """Return it as a regular expression."""
        begin = f"(?<={re.escape(self.after)})" if self.after else r"\b"
        parts = (
            f"[{part.of}]{{{part.least},{part.most}}}"
            if isinstance(part, ShapeRun)
            else f"(?:{'|'.join(map(re.escape, part))})"
            for part in self.parts
        )
        return begin + "".join(parts) + (r"\b" if self.whole_word else "")


class _Shapes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    shapes: tuple[Shape, ...] = Field(min_length=1)


@cache
def shapes() -> tuple[Shape, ...]:
    """Return all shapes."""
    return strict_yaml.default(_Shapes, FILE).shapes


@cache
def pattern() -> re.Pattern[str]:
    """Return what finds a secret of any shape."""
    return re.compile("|".join(shape.pattern() for shape in shapes()))


@cache
def words() -> tuple[str, ...]:
    """Return words of which every secret of a shape holds one: to look for these costs little."""
    return tuple(dict.fromkeys(word for shape in shapes() for word in shape.words))
