# SPDX-License-Identifier: Apache-2.0
"""What agents' calls left in files of ignore rules and took from indexes, per workspace.

It stands in the state folder, which no cell reaches. INVARIANT (P2, "nobody excuses themselves"):
what a call is about to leave is noted before it lands, so that no crash makes an agent's rule look
like a person's. A rule counts as a person's again when a person landed it, or changed it by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.cell import fs
from sandbox.cell.git import index_format as gitformat
from sandbox.errors import Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.workspaces import ignore_sources as sources
from sandbox.workspaces.ignore_sources import Touched
from sandbox.workspaces.remote_notes import RemoteNotes

ABSENT = ""
"""The digest of a file that is not there."""
MOST_FILES = 2000
"""Files of rules of one workspace; with more, those that are not known count as an agent's."""
MOST_VERSIONS = 32
"""Contents of one file; after more, whatever it holds counts as an agent's."""
MOST_INDEX = 64 << 20
MOST_NOTES = 64 << 20
"""Bytes of the notes on one workspace."""
_HEAD = '{"workspace": '
_HEAD_BYTES = 1 << 16
"""More than the path of a workspace takes at the beginning of its notes."""
EVERYTHING = b"\0"
"""Stands in a list of names for an index that could not be read."""


@dataclass(slots=True)
class _File:
    """One file of rules."""

    before: str | None
    """What it held before the first call of an agent that changed it, or since a person did."""
    left: list[str] = field(default_factory=list)
    """Digests of what agents' calls left there."""
    always: bool = False
    """Whatever it holds may be an agent's."""

    def is_agents(self, digest: str) -> bool:
        """Whether a content may come from an agent."""
        return self.always or digest in self.left


@dataclass(slots=True)
class Known:
    """What is noted of one workspace."""

    files: dict[str, _File] = field(default_factory=dict)
    full: bool = False

    def trusted(self, path: str, content: bytes | None) -> bytes | None:
        """Return the rules of a file that a person made, given what it holds now."""
        file = self.files.get(path)
        if file is None:
            return None if self.full else content
        if not file.is_agents(digest_of(content)):
            return content
        return None if file.before is None else file.before.encode("latin-1")

    @property
    def plain(self) -> bool:
        """Whether no call has changed any rules."""
        return not self.files and not self.full


def digest_of(content: bytes | None) -> str:
    """Return what names a content."""
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()


class Ledger:
    """The notes on all workspaces of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.remotes = RemoteNotes(folder)
        """Remotes that calls added."""

    @classmethod
    def of(cls, dirs: Dirs) -> Ledger:
        """Return the notes of a state folder."""
        return cls(dirs.state / "ignoring")

    def known(self, workspace: str) -> Known:
        """Return what is noted of a workspace, and of others that hold it or lie in it.

        Workspaces may have been registered otherwise before. All rules are an agent's where a note
        cannot be read.
        """
        found = self._own(workspace)
        for other in self._others(workspace):
            more = self._own(other)
            found.full = found.full or more.full
            for path, one in more.files.items():
                there = os.path.relpath(f"{other}/{path}", workspace)
                if not there.startswith("../"):
                    found.files.setdefault(there, one)
        return found

    def _own(self, workspace: str) -> Known:
        try:
            with own_files.opened(self._file(workspace, "rules")) as opened:
                data = json.loads(opened.read(MOST_NOTES))
            files = {
                path: _File(one["before"], list(one["left"]), bool(one["always"]))
                for path, one in data["files"].items()
            }
            return Known(files, bool(data["full"]))
        except FileNotFoundError:
            return Known()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Known(full=True)

    def _others(self, workspace: str) -> Iterator[str]:
        """Give the workspaces with notes that hold this one, or lie in it."""
        here, own = Path(workspace), self._file(workspace, "rules")
        for file in sorted(self._folder.glob("*.rules")):
            if file == own:
                continue
            try:
                with own_files.opened(file) as opened:
                    head = opened.read(_HEAD_BYTES).decode("ascii")
                other = json.JSONDecoder().raw_decode(head.removeprefix(_HEAD))[0]
            except (OSError, ValueError):
                continue  # what is not readable here is not readable there either
            if isinstance(other, str) and (
                here.is_relative_to(other) or Path(other).is_relative_to(here)
            ):
                yield other

    def names(self, git_dir: str) -> frozenset[bytes]:
        """Return what was in an index before agents' calls replaced it, in whichever workspace.

        `git_dir` is absolute.
        """
        found: frozenset[bytes] = frozenset()
        for file in sorted(self._folder.glob(f"*-{_short(git_dir)}.names")):
            try:
                found |= _listed(file)
            except (OSError, ValueError):
                found |= {EVERYTHING}
        return found

    def about_to_land(
        self, workspace: str, touched: Touched, digests: Mapping[str, str], *, person: bool
    ) -> None:
        """Note what is about to land, with the digests of what it leaves. Raises Unavailable.

        `person`: a person lands it, so that its rules are theirs.
        """
        if touched.remotes:
            self.remotes.about_to_land(workspace, touched.remotes, person=person)
        with own_files.locked(self._file(workspace, "lock"), self._folder):
            if touched.written or touched.gone:
                self._note_rules(workspace, touched, digests, person=person)
            if touched.indexes and not person:
                self._note_indexes(workspace, touched.indexes)

    def _note_rules(
        self, workspace: str, touched: Touched, digests: Mapping[str, str], *, person: bool
    ) -> None:
        known = self._own(workspace)
        left = {**dict.fromkeys(touched.gone, ABSENT), **dict.fromkeys(touched.written, None)}
        root = fs.open_directory(workspace)
        try:
            for path, gone in left.items():
                digest = digests.get(path) if gone is None else gone
                if person:
                    _forget(known, path, digest)
                else:
                    _note(known, path, digest, sources.read(root, path))
        except OSError as error:
            raise Unavailable(f"`{workspace}`: {error.strerror}") from None
        finally:
            os.close(root)
        files: dict[str, Any] = {
            path: {"before": one.before, "left": one.left, "always": one.always}
            for path, one in known.files.items()
        }
        text = json.dumps({"workspace": workspace, "full": known.full, "files": files})
        own_files.write(self._file(workspace, "rules"), text)

    def _note_indexes(self, workspace: str, indexes: Sequence[str]) -> None:
        root = fs.open_directory(workspace)
        try:
            for path in dict.fromkeys(indexes):
                git_dir = f"{workspace}/{path.rpartition('/')[0]}"
                names = names_in(sources.read(root, path, MOST_INDEX))
                if names is not None:
                    self._add_names(self._names(workspace, git_dir), names)
        finally:
            os.close(root)

    def _add_names(self, file: Path, names: frozenset[bytes]) -> None:
        try:
            before = _listed(file)
        except FileNotFoundError:
            before = frozenset()
        except OSError as error:
            raise Unavailable(f"`{file}`: {error.strerror}") from None
        if EVERYTHING in names and before:
            return  # an index that an agent spoilt; what it held is noted
        if not names <= before:
            joined = b"\n".join(sorted(before | names))
            whole = joined if len(joined) <= MOST_INDEX else EVERYTHING
            own_files.write(file, whole.decode("latin-1"))

    def _file(self, workspace: str, what: str) -> Path:
        return self._folder / f"{_short(workspace)}.{what}"

    def _names(self, workspace: str, git_dir: str) -> Path:
        return self._folder / f"{_short(workspace)}-{_short(git_dir)}.names"


def names_in(content: bytes | None) -> frozenset[bytes] | None:
    """Return the names in an index; `EVERYTHING` for one that cannot be read, None for none.

    A folder that a sparse index lists ends with `/`. A name with a line's end is cut there.
    """
    if content is None:
        return None
    index = gitformat.parse(content)
    if index is None:
        return frozenset((EVERYTHING,))
    return frozenset(entry.path.partition(b"\n")[0] for entry in index.entries)


def _note(known: Known, path: str, digest: str | None, now: bytes | None) -> None:
    """Note that a call leaves a content in a file that holds `now`."""
    file = known.files.get(path)
    if file is None and len(known.files) >= MOST_FILES:
        known.full = True
        return
    if file is None or not file.is_agents(digest_of(now)):
        before = None if now is None else now.decode("latin-1")
        if file is None:
            file = known.files[path] = _File(before)
        file.before = before
    if digest is None or (digest not in file.left and len(file.left) >= MOST_VERSIONS):
        file.always = True
    elif digest not in file.left:
        file.left.append(digest)


def _forget(known: Known, path: str, digest: str | None) -> None:
    """Take what a person lands for theirs."""
    file = known.files.get(path)
    if file is None and known.full:
        known.files[path] = _File(None)
    if file is None or digest is None:
        return
    file.always = False
    file.left = [one for one in file.left if one != digest]


def _listed(file: Path) -> frozenset[bytes]:
    """Return the names in a file of ours, which holds each byte as a character."""
    with own_files.opened(file) as opened:
        content = opened.read(2 * MOST_INDEX + 1)
    return frozenset(content.decode("utf-8").encode("latin-1").split(b"\n"))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
