# SPDX-License-Identifier: Apache-2.0
"""What each setting of git makes git do: the table `defaults/git_settings.yaml`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from pydantic import Field

from policy.model import Frozen, Tier
from policy.values import strict_yaml


class Does(str, Enum):
    """What a setting makes git do."""

    RUNS = "runs"
    READS = "reads"
    REDIRECTS = "redirects"
    """Where pushes and pulls go."""
    WEAKENS = "weakens"
    """A check, or where git works."""
    NOTHING = "nothing"


class GitSetting(Frozen):
    """Settings that do the same."""

    keys: tuple[str, ...] = Field(min_length=1)
    tier: Tier
    does: Does
    because: str
    value: Literal["text", "shell", "alias"] = "text"
    harmless: tuple[str, ...] = ()
    always: bool = False
    """Gate 2 holds it wherever it stands."""


class GitSettings(Frozen):
    """The table."""

    settings: tuple[GitSetting, ...] = Field(min_length=1)

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> GitSettings:
        """Return the table that comes with the package."""
        return strict_yaml.default(GitSettings, "git_settings.yaml")

    def of(self, key: str) -> GitSetting | None:
        """Return what is known of a setting: `section.key` or `section.name.key`."""
        wanted = key.lower()
        return next((one for name, one in self._keys() if fnmatchcase(wanted, name)), None)

    def is_harmless(self, key: str) -> bool:
        """Whether a setting is known to do nothing that anybody must look at."""
        known = self.of(key)
        return known is not None and known.does is Does.NOTHING

    @property
    def always(self) -> tuple[str, ...]:
        """Patterns of the settings that gate 2 holds wherever they stand."""
        return tuple(key for key, one in self._keys() if one.always)

    @property
    def redirecting(self) -> tuple[str, ...]:
        """Patterns of the settings that say where pushes and pulls go."""
        return tuple(key for key, one in self._keys() if one.does is Does.REDIRECTS)

    def _keys(self) -> Iterator[tuple[str, GitSetting]]:
        return ((key, setting) for setting in self.settings for key in setting.keys)
