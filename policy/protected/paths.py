# SPDX-License-Identifier: Apache-2.0
"""Which paths are protected, obeyed by the host, or secret, and how names are compared.

Pure: patterns come from `defaults/paths.yaml` or a user's file; no file system is looked at.

INVARIANT (P3, normal): two names that any common file system could take for the same one are
compared as equal: case, Unicode form, invisible characters, trailing dots and spaces and NTFS
stream suffixes do not count. A governance pattern counts at any depth.
"""

from __future__ import annotations

import re
from functools import cached_property

from pydantic import ConfigDict

from policy.model import Frozen
from policy.protected.formats import Form
from policy.protected.git_settings import GitSettings
from policy.protected.path_rules import (
    AllowedLink,
    GovernanceRule,
    ObeyedFile,
    ObeyedRule,
    PathLimits,
    SecretPaths,
)
from policy.values import strict_yaml
from policy.values.comparison import normal
from policy.values.filenames import Anchors, alternatives, compiled, expressions, folders


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
        own = strict_yaml.default(cls, "paths.yaml")
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
        names = [
            alternative.rpartition("/")[2]
            for several in patterns
            for alternative in alternatives(several)
        ]
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
