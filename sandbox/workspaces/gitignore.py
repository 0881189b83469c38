# SPDX-License-Identifier: Apache-2.0
"""Which paths git ignores by rules that a person made: such a file counts as rebuildable.

INVARIANT (P2, "nobody excuses themselves"): a path is ignored only where the rules as they stand
now and the rules without those that agents' calls left both say so, and where no repository that
it lies in tracks it, be it one above the workspace. Rules that cannot be read ignore nothing, and
so does all that takes more steps than `MOST_STEPS`.

A nested repository has rules of its own alone, as git has it. The user's own settings
(`core.excludesFile`) are not asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from policy.gate2.ignore_rules import Rules
from policy.gate2.wildmatch import Budget, TooMuchWork
from sandbox.cell import fs
from sandbox.workspaces import ignore_sources as sources
from sandbox.workspaces.git_obeyed import work_trees_set
from sandbox.workspaces.git_places import above, is_repository, otherwise_named
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.tracked import Repository

MOST_STEPS = 2_000_000
"""Steps (see `policy.gate2.wildmatch`) that one judgement may take; some seconds."""
MOST_RULES = 16 << 20
"""Bytes of rules that one judgement reads."""
REBUILDABLE = (
    b"__pycache__/\n*.py[co]\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n.tox/\n.nox/\n.venv/\nvenv/\n"
    b"*.egg-info/\n.eggs/\nnode_modules/\n.parcel-cache/\n.turbo/\n.nyc_output/\n.gradle/\n"
)
"""Folders that tools make and own. Many tools put a file of rules there (`*`) that ignores all of
it; it is as good as a person's there, and there alone."""


class Ignored:
    """The ignore rules of one workspace; use as `with`."""

    def __init__(self, root: Path, ledger: Ledger) -> None:
        self._workspace = str(root)
        self._ledger = ledger
        self._root = fs.open_directory(self._workspace)
        self._budget = Budget(MOST_STEPS)
        self._apart = Budget(MOST_STEPS)
        """For what agents' rules, which may be made to take long, have no part in."""
        self._later: dict[str, _Reading] = {}
        self._bytes = 0
        self._repositories: dict[str, Repository | None] = {}
        self._above: list[tuple[bytes, Repository]] | None = None
        """Repositories above or apart, with the path of the workspace in each; once asked for."""
        self._readings: dict[str, tuple[_Reading, ...]] = {}
        self._known = ledger.known(self._workspace)

    def __enter__(self) -> Ignored:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def hides(self, path: str, before: str = "") -> bool:
        """Whether a file that is moved to a path may go from there as ignored, now or later.

        What agents' calls left in files of rules is for them to change: the rules without it count
        alone, and so do folders that may ignore themselves. A file that was in such a place
        `before` is no worse off. What takes too long to say counts as hidden.
        """
        try:
            later = self._may_ignore(path) and not (before and self._may_ignore(before))
        except TooMuchWork:
            return True
        return later or path in self

    def _may_ignore(self, path: str) -> bool:
        around = self._around(path)
        folder = around[-1] if around else ""
        if folder not in self._later:
            repository = self._repositories.get(folder)
            exclude = self._exclude(repository) if repository is not None else None
            usual = Rules(REBUILDABLE)
            self._later[folder] = _Reading(folder, exclude, self._trusted, self._apart, usual)
        return self._later[folder].ignores(path)

    def close(self) -> None:
        """Close what was opened."""
        for one in self._repositories.values():
            if one is not None:
                one.close()
        for _, one in self._above or ():
            one.close()
        os.close(self._root)

    def __contains__(self, path: str) -> bool:
        """Whether a path (relative to the workspace, joined with `/`) may go as ignored."""
        try:
            around = self._around(path)
            readings = self._read_by(around[-1] if around else "")
            if not all(reading.ignores(path) for reading in readings):
                return False
        except TooMuchWork:
            return False
        return not self.tracks(path)

    def tracks(self, path: str) -> bool:
        """Whether a repository around a path, or above the workspace, has it, or may have it."""
        try:
            around = self._around(path)
        except TooMuchWork:
            return True
        name = os.fsencode(path)
        return any(
            repository.tracks(name[len(os.fsencode(folder)) + 1 if folder else 0 :])
            for folder in around
            if (repository := self._repositories[folder]) is not None
        ) or any(outer.tracks(prefix + name) for prefix, outer in self._outer())

    def _outer(self) -> list[tuple[bytes, Repository]]:
        if self._above is None:
            self._above = []
            for folder in filter(is_repository, above(self._workspace)):
                for root in dict.fromkeys((self._workspace, os.path.realpath(self._workspace))):
                    if Path(root).is_relative_to(folder):
                        prefix = os.fsencode(os.path.relpath(root, folder)) + b"/"
                        outer = Repository(Path(folder), self._ledger)
                        self._above.append((prefix, outer))
            for own in otherwise_named(self._workspace):
                for tree in work_trees_set((own, own, own)):
                    if Path(self._workspace).is_relative_to(tree):
                        prefix = os.fsencode(os.path.relpath(self._workspace, tree)) + b"/"
                        apart = Repository(Path(tree), self._ledger, Path(own))
                        self._above.append((prefix.removeprefix(b"./"), apart))
        return self._above

    def _around(self, path: str) -> list[str]:
        """Return the folders with a repository that a path lies in, outermost first."""
        found = []
        parts = path.split("/")
        for depth in range(len(parts)):
            folder = "/".join(parts[:depth])
            if folder not in self._repositories:
                self._budget.take(depth + 1)
                self._repositories[folder] = self._repository(folder)
            if self._repositories[folder] is not None:
                found.append(folder)
        return found

    def _repository(self, folder: str) -> Repository | None:
        if fs.lstat(self._root, f"{folder}/.git" if folder else ".git") is None:
            return None
        return Repository(Path(self._workspace, folder), self._ledger)

    def _read_by(self, folder: str) -> tuple[_Reading, ...]:
        """Return the readings of the rules of the repository in a folder."""
        if folder not in self._readings:
            repository = self._repositories.get(folder)
            exclude = self._exclude(repository) if repository is not None else None
            now = _Reading(folder, exclude, self._now, self._budget)
            trusted = _Reading(folder, exclude, self._trusted, self._budget, Rules(REBUILDABLE))
            self._readings[folder] = (now,) if self._known.plain else (now, trusted)
        return self._readings[folder]

    def _exclude(self, repository: Repository) -> str | None:
        """Return the path of a repository's own rules; None where it lies elsewhere."""
        own = os.path.relpath(repository.common_dir / sources.EXCLUDE, self._workspace)
        return None if own.startswith("../") else own

    def _now(self, path: str) -> bytes | None:
        content = sources.read(self._root, path)
        self._bytes += len(content or b"")
        if self._bytes > MOST_RULES:
            raise TooMuchWork
        return content

    def _trusted(self, path: str) -> bytes | None:
        return self._known.trusted(path, self._now(path))


class _Reading:
    """What one repository's rules say of paths, from one source of their texts."""

    def __init__(
        self,
        top: str,
        exclude: str | None,
        text: Callable[[str], bytes | None],
        budget: Budget,
        usual: Rules | None = None,
    ) -> None:
        self._top = top
        self._exclude = exclude
        self._text = text
        self._budget = budget
        self._usual = usual
        self._rules: dict[str, Rules | None] = {}
        self._folders: dict[str, bool] = {}

    def ignores(self, path: str) -> bool:
        """Whether a file is ignored, or a folder that it lies in. Raises TooMuchWork."""
        parts = path.split("/")
        for depth in range(self._top.count("/") + 1 if self._top else 0, len(parts) - 1):
            folder = "/".join(parts[: depth + 1])
            if folder == self._top:
                continue
            if folder not in self._folders:
                self._folders[folder] = self._says(folder, is_folder=True)
            if self._folders[folder]:
                return True
        return self._says(path, is_folder=False)

    def _says(self, path: str, *, is_folder: bool) -> bool:
        """Say what the rules nearest to a path say of it."""
        folder = path.rpartition("/")[0]
        while True:
            name = f"{folder}/{sources.RULES}" if folder else sources.RULES
            answer = self._of(name, path[len(folder) + 1 if folder else 0 :], is_folder)
            if answer is not None:
                return answer
            if folder == self._top:
                break
            folder = folder.rpartition("/")[0]
        below = path[len(self._top) + 1 if self._top else 0 :]
        if self._exclude is not None:
            answer = self._of(self._exclude, below, is_folder)
            if answer is not None:
                return answer
        if self._usual is None:
            return False
        found = self._usual.answer(os.fsencode(below), is_folder=is_folder, budget=self._budget)
        return bool(found)

    def _of(self, file: str, path: str, is_folder: bool) -> bool | None:
        self._budget.take(1)
        if file not in self._rules:
            content = self._text(file)
            self._rules[file] = Rules(content) if content else None
        rules = self._rules[file]
        if rules is None:
            return None
        return rules.answer(os.fsencode(path), is_folder=is_folder, budget=self._budget)
