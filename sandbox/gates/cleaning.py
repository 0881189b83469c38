# SPDX-License-Identifier: Apache-2.0
"""Move a folder that git ignores out of a workspace, so that it can come back: `lockgate clean`.

A person's own act; no agent reaches it. The folder is renamed, not copied, where the state folder
lies on the same file system.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from policy.protected.paths import PathPolicy
from policy.values.comparison import normal
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput
from sandbox.gates.gate2 import all_ignored
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.protected_paths import Protected

MOST_FILES = 500_000
"""Files of one folder; a larger one is not looked through."""
_ABOUT, _CONTENT = "about.json", "content"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A folder that was moved away."""

    id: str
    path: str
    files: int


class Cleaning:
    """The folders that were moved away, below the state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._ledger = Ledger.of(dirs)
        self._folder = dirs.state / "cleaned"

    def check(self, path: str, workspace: str, paths: PathPolicy) -> int:
        """Return how many files the folder holds. Raises BadInput unless git ignores all of them,
        and nothing protected or hidden is among them."""
        real = os.path.realpath(path)
        if not Path(path).is_dir() or Path(path).is_symlink():
            raise BadInput(f"`{path}` is no folder; a person removes a single file with `rm`")
        if not real.startswith(os.path.realpath(workspace) + "/"):
            raise BadInput(f"`{path}` does not lie in the workspace `{workspace}`")
        names = _files_of(real, os.path.realpath(workspace))
        protected = Protected(paths)
        for name in names:
            if protected.rule_of(name) is not None or paths.secrets.covers(normal(name)):
                raise BadInput(f"`{path}` holds `{name}`, which is protected or hidden from agents")
        if names and not all_ignored(names, [workspace], self._ledger):
            raise BadInput(f"`{path}` holds files that git does not ignore; name them one by one")
        return len(names)

    def move_away(self, path: str, files: int) -> Cleaned:
        """Move a folder that was checked."""
        cleaned = Cleaned(secrets.token_hex(4), os.path.realpath(path), files)
        place = self._folder / cleaned.id
        place.mkdir(mode=0o700, parents=True)
        (place / _ABOUT).write_text(json.dumps(asdict(cleaned)), "utf-8")
        shutil.move(cleaned.path, place / _CONTENT)
        return cleaned

    def put_back(self, name: str) -> Cleaned:
        """Move a folder back to where it was. Raises BadInput where something is there by now."""
        cleaned = self._one(name)
        if os.path.lexists(cleaned.path):
            raise BadInput(f"`{cleaned.path}` is there by now; move it away first")
        shutil.move(self._folder / name / _CONTENT, cleaned.path)
        self.forget(name)
        return cleaned

    def forget(self, name: str) -> Cleaned:
        """Delete for good what was moved away."""
        cleaned = self._one(name)
        shutil.rmtree(self._folder / name)
        return cleaned

    def listed(self) -> list[Cleaned]:
        """Return what was moved away and is kept."""
        if not self._folder.is_dir():
            return []
        return [self._one(path.name) for path in sorted(self._folder.iterdir())]

    def _one(self, name: str) -> Cleaned:
        try:
            if not name.isalnum():
                raise ValueError(name)
            about = json.loads((self._folder / name / _ABOUT).read_text("utf-8"))
            return Cleaned(name, str(about["path"]), int(about["files"]))
        except (OSError, ValueError, KeyError):
            raise BadInput(f"nothing was moved away as `{name}`; see `lockgate clean`") from None


def _files_of(folder: str, workspace: str) -> list[str]:
    """Return the files and links below a folder, from the workspace's top."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        links = [one for one in folders if os.path.islink(f"{place}/{one}")]  # noqa: PTH114
        found += [f"{place}/{file}"[len(workspace) + 1 :] for file in (*files, *links)]
        if len(found) > MOST_FILES:
            raise BadInput(f"`{folder}` holds more than {MOST_FILES} files")
    return found
