# SPDX-License-Identifier: Apache-2.0
"""Rules on paths: what no call changes, what the host obeys, what cells do not see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from pydantic import ConfigDict, model_validator

from policy.model import Frozen
from policy.protected.formats import Form
from policy.protected.settings import Harmless
from policy.values import strict_yaml
from policy.values.comparison import normal
from policy.values.filenames import compiled, expressions, folders


class _Rule(Frozen):
    # Fields of the seed's rules may be added by users' files without meaning to gate 2.
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))

    id: str
    paths: tuple[str, ...]
    match: tuple[str, ...] = ()
    miss: tuple[str, ...] = ()

    @cached_property
    def _matcher(self) -> re.Pattern[str]:
        return compiled(self.paths)

    @cached_property
    def _above(self) -> re.Pattern[str]:
        return compiled(folders(self.paths))

    def covers(self, path: str) -> bool:
        """Whether the rule names a path (already `normal`)."""
        return self._matcher.fullmatch(path) is not None

    def lies_in(self, path: str) -> bool:
        """Whether the rule names something that lies in the folder `path` (already `normal`)."""
        return self._above.fullmatch(path) is not None

    @model_validator(mode="after")
    def _examples(self) -> _Rule:
        _check(self.id, self.covers, self.match, self.miss)
        return self


def _check(name: str, covers: object, match: Iterable[str], miss: Iterable[str]) -> None:
    assert callable(covers)
    for path in match:
        if not covers(normal(path)):
            raise ValueError(f"rule `{name}` does not match its example `{path}`")
    for path in miss:
        if covers(normal(path)):
            raise ValueError(f"rule `{name}` matches `{path}`, which it says it does not")


class GovernanceRule(_Rule):
    """Files that no call changes; names the way that is allowed (policy-check.md)."""

    name: str
    because: str = ""
    check_id: str | None = None
    denied_path: str = ""
    allowed_path: str


def _with_except(schema: dict[str, Any]) -> None:
    """Let the schema know the word that is written."""
    schema["properties"]["except"] = schema["properties"]["exceptions"]


class ObeyedRule(_Rule):
    """Files that something on the host executes or obeys: a person looks at changes first."""

    because: str
    source: str = ""
    """The documentation that says so."""
    exceptions: tuple[str, ...] = ()
    format: Form | None = None
    """How the file is written, where it is judged by content; else any change is held."""
    harmless: tuple[str, ...] = ()
    """Keys that may change (see policy/protected/settings)."""
    held: tuple[str, ...] = ()
    """Keys that may not, where all others may."""

    model_config = ConfigDict(json_schema_extra=_with_except)

    @model_validator(mode="before")
    @classmethod
    def _except(cls, data: object) -> object:
        # `except` reads well in YAML and is a keyword here
        if not isinstance(data, dict):
            return data
        return {("exceptions" if k == "except" else k): v for k, v in data.items()}

    def excepting(self, patterns: tuple[str, ...]) -> ObeyedRule:
        """Return the rule without some files. Its examples held for the rule as it was."""
        kept = {name: getattr(self, name) for name in ("id", "paths", "because", "source")}
        by_content = {name: getattr(self, name) for name in ("format", "harmless", "held")}
        return ObeyedRule(**kept, **by_content, exceptions=(*self.exceptions, *patterns))

    @cached_property
    def settings(self) -> Harmless:
        """What of its settings may change."""
        return Harmless(self.harmless, self.held)

    @cached_property
    def _excepted(self) -> re.Pattern[str]:
        return compiled(self.exceptions)

    def covers(self, path: str) -> bool:
        """Whether the rule names a path (already `normal`) and no exception does."""
        return super().covers(path) and self._excepted.fullmatch(path) is None

    @model_validator(mode="after")
    def _by_content(self) -> ObeyedRule:
        if (self.harmless or self.held) and self.format is None:
            raise ValueError(f"rule `{self.id}` says which keys count, and not its `format`")
        if self.format is not None and any(path.endswith("**") for path in self.paths):
            raise ValueError(f"rule `{self.id}` is judged by content: name files, not folders")
        return self


class ObeyedFile(Frozen):
    """The file `defaults/obeyed.yaml`: what programs other than git obey."""

    obeyed: tuple[ObeyedRule, ...]
    manifests: tuple[ObeyedRule, ...] = ()
    """What projects say of themselves, judged by content alone."""

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> ObeyedFile:
        """Return the table that comes with the package, for both gates."""
        return strict_yaml.default(ObeyedFile, "obeyed.yaml")


class SecretPaths(Frozen):
    """Files that a cell must not see, and those that look alike and may be seen."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))

    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    miss: tuple[str, ...] = ()
    later: tuple[SecretPaths, ...] = ()
    """What other files say, in order; the last one that names a path counts."""

    @cached_property
    def _hide(self) -> re.Pattern[str]:
        return compiled(self.hide)

    @cached_property
    def _show(self) -> re.Pattern[str]:
        return compiled(self.show)

    def covers(self, path: str) -> bool:
        """Whether a path (already `normal`) is hidden."""
        hidden = False
        for paths in (self, *self.later):
            if paths._show.fullmatch(path) is not None:
                hidden = False
            elif paths._hide.fullmatch(path) is not None:
                hidden = True
        return hidden

    def followed(self, later: SecretPaths) -> SecretPaths:
        """Return these paths, and what another file says after them."""
        # The examples held for these paths alone; another file may well say otherwise.
        return SecretPaths(hide=self.hide, show=self.show, later=(*self.later, later))

    def expressions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return regular expressions (hide, show); shown is what `show` fits, whatever hides it."""
        files = (self, *self.later)
        hide = tuple(e for file in files for e in expressions(file.hide))
        show = []
        for at, one in enumerate(files):
            after = "|".join(e for other in files[at + 1 :] for e in expressions(other.hide))
            unless = f"(?!(?:{after})\\Z)" if after else ""
            show += [unless + e for e in expressions(one.show)]
        return hide, tuple(show)

    @model_validator(mode="after")
    def _examples(self) -> SecretPaths:
        _check("secrets", self.covers, self.match, self.miss)
        return self


class AllowedLink(Frozen):
    """A link that may leave the workspace."""

    path: str
    target: str


class PathLimits(Frozen):
    """Bounds of one landing, whatever rights the call had."""

    changed_files: int
    changed_bytes: int
    replaced_files: int = 10
    """Files of somebody else's that a call may empty, or give wholly another content, unasked."""
    replaced_a_day: int = 30
    """The same of all calls of an agent in a workspace within a day."""
