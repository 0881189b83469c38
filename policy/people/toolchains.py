# SPDX-License-Identifier: Apache-2.0
"""Which folders of a host hold a language's programs, so that cells may see them. Pure.

The table is `defaults/toolchains.yaml`. INVARIANT (P5, toolchains): a path that no entry fits is
never shown to a cell, whoever wrote it wherever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, model_validator

from policy.model import Frozen
from policy.values import strict_yaml
from policy.values.filenames import alternatives, expressions

Language = Literal["python", "node", "rust", "go"]
_SIGNS = {"*": r"[^/\x00-\x1f\x7f]*", "[0-9]": "[0-9]"}


class Toolchain(Frozen):
    """Folders of one manager of versions."""

    id: str
    language: Language
    folders: tuple[str, ...] = Field(min_length=1)
    program: str
    """What such a folder holds, relative to it."""
    leads: bool = False
    """Whether its programs stand before the image's in PATH."""
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _examples_hold(self) -> Toolchain:
        for path in self.match:
            if not self.fits(path, "~"):
                raise ValueError(f"`match`: `{path}` is none of `{self.id}`")
        for path in self.miss:
            if self.fits(path, "~"):
                raise ValueError(f"`miss`: `{path}` is one of `{self.id}`")
        return self

    def fits(self, path: str, home: str) -> bool:
        """Whether an absolute path is a folder of this kind for the person with that home."""
        return any(
            expression.fullmatch(path) is not None
            for pattern in self.folders
            for expression in _expressions(pattern, home)
        )

    def globs(self, home: str) -> Iterator[str]:
        """Give the patterns of its folders as glob patterns below the host's root."""
        for pattern in self.folders:
            for alternative in alternatives(pattern):
                yield _at_home(alternative, home)


class Toolchains(Frozen):
    """The table."""

    hide: tuple[str, ...] = Field(min_length=1)
    """Globs of files, relative to a folder of a toolchain, that no cell may see."""
    toolchains: tuple[Toolchain, ...] = Field(min_length=1)

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> Toolchains:
        """Return the table that comes with the package."""
        return strict_yaml.default(Toolchains, "toolchains.yaml")

    def hide_expressions(self) -> tuple[str, ...]:
        """Return regular expressions for what is hidden in every toolchain."""
        return expressions(self.hide)

    def of(self, path: str, home: str) -> Toolchain | None:
        """Return what kind of toolchain lies at exactly this path, or None."""
        return next(
            (toolchain for toolchain in self.toolchains if toolchain.fits(path, home)), None
        )

    def holding(self, path: str, home: str) -> str | None:
        """Return the innermost folder of a toolchain that holds a path, or None."""
        for folder in (path, *map(str, PurePosixPath(path).parents)):
            if self.of(folder, home) is not None:
                return folder
        return None

    def speaking(self, language: Language) -> Iterator[Toolchain]:
        """Give the entries of a language."""
        return (toolchain for toolchain in self.toolchains if toolchain.language == language)


@lru_cache(maxsize=512)
def _expressions(pattern: str, home: str) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile("/".join(_component(part) for part in _at_home(alternative, home).split("/")))
        for alternative in alternatives(pattern)
    )


def _component(part: str) -> str:
    pieces = re.split(r"(\*|\[0-9\])", part)
    text = "".join(_SIGNS.get(piece) or re.escape(piece) for piece in pieces)
    return rf"(?!\.){text}" if part.startswith("*") else text


def _at_home(pattern: str, home: str) -> str:
    return home + pattern[1:] if pattern.startswith("~/") else pattern
