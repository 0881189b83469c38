# SPDX-License-Identifier: Apache-2.0
"""Which paths of a workspace are protected, seen from the host. Pure.

The same patterns as gate 2's; the folders in which landings keep their own records are left out,
since every landing writes there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property, lru_cache

from policy.gate2.git import config as gitconfig
from policy.gate2.settings_files import settings_reason
from policy.model import Change, FileType, Kind
from policy.protected.formats import Form
from policy.protected.paths import PathPolicy
from policy.values.comparison import normal
from policy.values.filenames import compiled
from sandbox.cell.journal import own_edits
from sandbox.cell.overlay.addresses import condensed_text

GIT_SETTINGS = "git-settings"
"""The rule of git's own settings files: only keys that make git run or read something count."""
RECORDS = ".lockgate"
_OWN = frozenset((".gitignore", own_edits.FOLDER, "kept", "landing", "lock", "stamp", "undo"))
"""What landings, and the keeping of agents' own edits, write in `.lockgate`; anything else in it is
protected as any governance file."""
_CONFIGS = frozenset(("config", "config.worktree"))
_MODULES = ".gitmodules"


class Protected:
    """The rules by which paths are protected. Paths are relative and joined with `/`."""

    def __init__(self, paths: PathPolicy, ignore: Iterable[str] = ()) -> None:
        self._paths = paths
        self._ignore = compiled(tuple(ignore))
        self.rule_of = lru_cache(maxsize=65_536)(self._rule_of)
        """Return the id of the rule that protects a path, or None."""
        self.lies_above = lru_cache(maxsize=65_536)(self._lies_above)
        """Whether a folder of this path would hold protected files by a rule's own words."""

    def _rule_of(self, path: str) -> str | None:
        if own_records(path):
            return None
        if (governance := self._paths.governance_of(path)) is not None:
            return governance.id
        obeyed = self._paths.obeyed_of(path)
        rule = obeyed.id if obeyed is not None else _settings_rule(path)
        if rule is not None and self._ignore.fullmatch(normal(path)) is not None:
            return None
        return rule

    def _lies_above(self, path: str) -> bool:
        if path != RECORDS and own_records(path):
            return False
        return (
            self._paths.governance_below(path) is not None
            or self._paths.obeyed_below(path) is not None
        )

    def by_content(self, path: str) -> bool:
        """Whether a path is one of git's settings files, or another one that is judged so."""
        rule = self.rule_of(path)
        return rule == GIT_SETTINGS or (rule is not None and self._paths.reads(path))

    @cached_property
    def digest(self) -> str:
        """What tells these rules from others."""
        text = self._paths.model_dump_json() + self._ignore.pattern
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def obeys(self, path: str, before: str | None, after: str | None) -> bool:
        """Whether a change of a file with settings adds or removes one that counts."""
        rule = self._paths.obeyed_of(path)
        if rule is not None and rule.format is not None:
            kind = Kind.CREATED if before is None else Kind.MODIFIED
            kind = Kind.DELETED if after is None else kind
            if rule.format is Form.ADDRESSES:
                before, after = condensed_text(before), condensed_text(after)
            change = Change(path, kind, FileType.FILE, before_text=before, after_text=after)
            return settings_reason(rule, path, change) is not None
        patterns = self._paths.git_keys
        if normal(path).rpartition("/")[2] == _MODULES:
            patterns += self._paths.gitmodules_keys
        return bool(gitconfig.added(before, after, patterns))


def own_records(path: str) -> bool:
    """Whether landings write a path in their course."""
    first, _, rest = path.partition("/")
    return first == RECORDS and rest.partition("/")[0] in _OWN | {""}


def _settings_rule(path: str) -> str | None:
    parts = normal(path).split("/")
    if parts[-1] == _MODULES:
        return GIT_SETTINGS
    inside = any(part.endswith(".git") for part in parts[:-1])
    return GIT_SETTINGS if inside and parts[-1] in _CONFIGS else None


def printable(path: str) -> str:
    """Return a path as the record writes it: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
