# SPDX-License-Identifier: Apache-2.0
"""Which paths are protected, obeyed by the host, or secret, and how names are compared.

Pure: patterns come from `defaults/paths.yaml` or a user's file; no file system is looked at.

INVARIANT (P3, normal): two names that any common file system could take for the same one are
compared as equal: case, Unicode form, invisible characters, trailing dots and spaces and NTFS
stream suffixes do not count. A governance pattern counts at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from pydantic import ConfigDict, model_validator

from policy.model import Frozen
from policy.protected.formats import Form
from policy.protected.git_settings import GitSettings
from policy.protected.settings import Harmless
from policy.values import strict_yaml as load
from policy.values.comparison import normal
from policy.values.filenames import (
    Anchors,
    alternatives,
    compiled,
    expression,
    expressions,
    folders,
)

__all__ = [
    "AllowedLink",
    "GovernanceRule",
    "ObeyedRule",
    "PathLimits",
    "PathPolicy",
    "SecretPaths",
    "compiled",
    "expression",
    "expressions",
    "normal",
]


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
        return load.default(ObeyedFile, "obeyed.yaml")


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


class PathPolicy(Frozen):
    """All that gate 2 knows of paths."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))

    governance: tuple[GovernanceRule, ...]
    obeyed: tuple[ObeyedRule, ...]
    manifests: tuple[ObeyedRule, ...] = ()
    git_keys: tuple[str, ...] = ()
    """Settings of git that are held wherever they stand: those of the table, and users' own."""
    gitmodules_keys: tuple[str, ...]
    git_remote_keys: tuple[str, ...] = ()
    secrets: SecretPaths
    links: tuple[AllowedLink, ...] = ()
    deletable: tuple[str, ...] = ()
    """Files that a call may delete without naming them."""
    limits: PathLimits

    @classmethod
    def default(cls) -> PathPolicy:
        """Return the policy that ships with Lockgate."""
        own = load.default(cls, "paths.yaml")
        more = ObeyedFile.default()
        table = GitSettings.default()
        return own.model_copy(
            update={
                "obeyed": (*own.obeyed, *more.obeyed),
                "manifests": more.manifests,
                "git_keys": (*own.git_keys, *table.always),
                "git_remote_keys": table.redirecting,
            }
        )

    def governance_of(self, path: str) -> GovernanceRule | None:
        """Return the rule by which a path is a governance file."""
        name = normal(path)
        if not self._any_governance.fullmatch(name):
            return None
        return next(rule for rule in self.governance if rule.covers(name))

    def governance_below(self, path: str) -> GovernanceRule | None:
        """Return the rule that names something in the folder `path`, if that were a link."""
        name = normal(path)
        return next((rule for rule in self.governance if rule.lies_in(name)), None)

    def obeyed_of(self, path: str) -> ObeyedRule | None:
        """Return the rule by which something on the host executes or obeys a file."""
        name = normal(path)
        if not self._obeyed_names.may_name(name):
            return None
        return next((rule for rule in self.obeyed if rule.covers(name)), None)

    def obeyed_below(self, path: str) -> ObeyedRule | None:
        """Return the rule that names something in the folder `path`, if that were a link."""
        name = normal(path)
        return next((rule for rule in self.obeyed if rule.lies_in(name)), None)

    def read_patterns(self) -> dict[str, list[str]]:
        """Return for which files their texts are needed: their names, and whole paths.

        `names` are plain names, `like` expressions for other ones, `paths` expressions for paths,
        `condensed` those of them of which the places that they name are enough.
        """
        rules = (*self.obeyed, *self.manifests)
        patterns = [p for rule in rules if rule.format for p in rule.paths]
        names = [one.rpartition("/")[2] for several in patterns for one in alternatives(several)]
        plain = {normal(name) for name in names if "*" not in name}
        like = set(expressions(name for name in names if "*" in name))
        return {
            "names": sorted(plain),
            "like": sorted(one.removeprefix("(?:.*/)?") for one in like),
            "paths": list(expressions(patterns)),
            "condensed": list(expressions(self._condensed)),
        }

    def condenses(self, path: str) -> bool:
        """Whether of a file that is judged by what it holds the places that it names count."""
        return self._condensed_paths.fullmatch(normal(path)) is not None

    def manifest_of(self, path: str) -> ObeyedRule | None:
        """Return the rule by which a file is a project's description of itself."""
        name = normal(path)
        if not self._manifest_names.may_name(name):
            return None
        return next((rule for rule in self.manifests if rule.covers(name)), None)

    def reads(self, path: str) -> bool:
        """Whether a file is judged by what it holds."""
        rule = self.obeyed_of(path) or self.manifest_of(path)
        return rule is not None and rule.format is not None

    def may_go(self, path: str) -> bool:
        """Whether a call may delete a file without naming it."""
        return bool(self.deletable) and self._deletable.fullmatch(normal(path)) is not None

    def is_secret(self, path: str) -> bool:
        """Whether a cell must not see a path."""
        return self.secrets.covers(normal(path))

    def allows_link(self, path: str, target: str) -> bool:
        """Whether a link at `path` may point at `target` outside the workspace."""
        return any(
            matcher.fullmatch(normal(path)) and aim.fullmatch(target.lstrip("/"))
            for matcher, aim in self._links
            if target.startswith("/")
        )

    def mask_expressions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return regular expressions (hide, show) for whole NFC, case-folded relative paths."""
        return self.secrets.expressions()

    def pin_expressions(self) -> tuple[str, ...]:
        """Return regular expressions for what is made read-only in a cell where it exists."""
        return tuple(e for rule in self.governance for e in expressions(rule.paths))

    def obey_expressions(self) -> tuple[str, ...]:
        """Return regular expressions for what the host obeys, exceptions not considered.

        Compiled Python is among it: a commit that holds some is told of.
        """
        compiled_python = expressions(("__pycache__/**", "*.py{c,o}"))
        return (*compiled_python, *(e for rule in self.obeyed for e in expressions(rule.paths)))

    def pin_folder_expressions(self) -> tuple[str, ...]:
        """Return regular expressions for the folders in which governance files are named."""
        return tuple(e for rule in self.governance for e in expressions(folders(rule.paths)))

    @cached_property
    def _deletable(self) -> re.Pattern[str]:
        return compiled(self.deletable)

    @cached_property
    def _any_governance(self) -> re.Pattern[str]:
        return compiled(pattern for rule in self.governance for pattern in rule.paths)

    @cached_property
    def _obeyed_names(self) -> Anchors:
        return Anchors(pattern for rule in self.obeyed for pattern in rule.paths)

    @cached_property
    def _manifest_names(self) -> Anchors:
        return Anchors(pattern for rule in self.manifests for pattern in rule.paths)

    @cached_property
    def _condensed(self) -> tuple[str, ...]:
        rules = (*self.obeyed, *self.manifests)
        return tuple(p for rule in rules if rule.format is Form.ADDRESSES for p in rule.paths)

    @cached_property
    def _condensed_paths(self) -> re.Pattern[str]:
        return compiled(self._condensed)

    @cached_property
    def _links(self) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
        return tuple(
            (
                compiled([link.path]),
                compiled(
                    ["/" + alternative.lstrip("/") for alternative in alternatives(link.target)]
                ),
            )
            for link in self.links
        )
