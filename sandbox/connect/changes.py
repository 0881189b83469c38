# SPDX-License-Identifier: Apache-2.0
"""Work out what a connection, or its end, changes in which files, and carry it out.

Working it out writes nothing. Each file is exchanged in one step, and only if it is still what it
was when the change was worked out.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.connect.edits import File, JsonFile, Wanted
from sandbox.connect.records import Connection, Kept, sha256
from sandbox.connect.texts import Added, BadFile, with_ours, without_ours
from sandbox.errors import BadInput
from sandbox.host import files as own_files
from sandbox.text.terminal import safe_line
from sandbox.text.unified import unified

PLAIN_JSON = ("claude-code",)
"""Agents that skip a file with comments."""
REPEATED = 6
"""So many added lines in a row that stood above already are not shown again."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file."""

    path: Path
    now: bytes | None
    """What stands there; None: nothing."""
    new: bytes | None
    without: bytes | None
    """What stands there without Lockgate."""
    added: Added

    @property
    def changes(self) -> bool:
        """Whether anything is to be written."""
        return self.now != self.new


def connecting(
    agent: str, wanted: Wanted, old: Connection | None, others: Sequence[Wanted]
) -> list[Change]:
    """Return what connecting an agent changes; `others` are what its other modes would have
    written. Raises BadInput for a file that cannot be edited."""
    known = {kept.path: kept for kept in old.files} if old else {}
    files = _by_path((*others, wanted))
    mine = {file.path: file for file in wanted.files}
    changes = []
    for path in dict.fromkeys((*files, *known)):
        kept, now = known.get(path), _read(path)
        file = files[path]
        if path in mine and kept is not None and _stands(agent, mine[path], now):
            changes.append(Change(path, now, now, kept.before, kept.added))
            continue
        without = _without(agent, file, now, kept)
        if path not in mine:
            if without != now:
                changes.append(Change(path, now, without, without, Added()))
            continue
        new, added = _with(agent, mine[path], without)
        _check_read(agent, mine[path], new)
        changes.append(Change(path, now, new, without, added))
    return changes


def _check_read(agent: str, file: File, new: bytes) -> None:
    """Raise BadInput where an agent would skip what is about to be written."""
    if agent in PLAIN_JSON and isinstance(file, JsonFile) and (why := not_plain(new)):
        raise BadInput(
            f"{safe_line(str(file.path))}: {agent} reads no comments, and "
            f"skips the whole file, so nothing is written: {why}; take them out, then connect again"
        )


def not_plain(data: bytes) -> str:
    """Return why a file is no JSON as the standard has it; empty: it is."""
    try:
        json.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        return str(error)[:1].lower() + str(error)[1:]
    return ""


def ending(agent: str, old: Connection | None, written: Sequence[Wanted]) -> list[Change]:
    """Return what taking an agent's connection back changes. Raises BadInput."""
    known = {kept.path: kept for kept in old.files} if old else {}
    files = _by_path(written)
    changes = []
    for path, file in files.items():
        if old is not None and path not in known:
            continue
        now = _read(path)
        without = _without(agent, file, now, known.get(path))
        if without != now:
            changes.append(Change(path, now, without, without, Added()))
    return changes


def stands(agent: str, wanted: Wanted) -> list[Path]:
    """Return the files in which something of what is wanted is missing. Raises BadInput."""
    return [file.path for file in wanted.files if not _stands(agent, file, _read(file.path))]


def kept(change: Change, folders: Sequence[str], old: Kept | None) -> Kept:
    """Return what is to be remembered of a change that was carried out."""
    made = tuple(dict.fromkeys((*folders, *(old.folders if old else ()))))
    return Kept(change.path, change.without, sha256(change.new), change.added, made)


def diff(change: Change) -> str:
    """Return a unified diff, safe for a terminal; lines that stood there already are counted."""
    return "\n".join(
        _without_repeats(unified(str(change.path), change.now, change.new).split("\n"))
    )


def _without_repeats(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines; of several that stood in a row above already, how many they are."""
    first: dict[tuple[str, ...], int] = {}
    at = 0
    while at < len(lines):
        run = tuple(lines[at : at + REPEATED])
        before = first.setdefault(run, at)
        if before + len(run) > at or len(run) < REPEATED or not all(_is_added(one) for one in run):
            yield lines[at]
            at += 1
            continue
        same = 0
        while at + same < len(lines) and before + same < at:
            if lines[at + same] != lines[before + same]:
                break
            same += 1
        yield f"... the same {same} lines as above"
        at += same


def _is_added(line: str) -> bool:
    return line.startswith("+")


def carry_out(change: Change, *, within: Path | None) -> tuple[str, ...]:
    """Exchange a file; return the folders that were made, the innermost first.

    A link is followed, but not out of `within`. Raises BadInput.
    """
    real = Path(os.path.realpath(change.path))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise BadInput(f"`{safe_line(str(change.path))}` is a link out of the project; remove it")
    if _read(change.path) != change.now:
        raise BadInput(f"`{safe_line(str(change.path))}` was changed meanwhile; run it again")
    if change.new is None:
        real.unlink(missing_ok=True)
        return ()
    made = _folders(real.parent)
    fd, draft = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(change.new)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                old = real.stat()
                os.fchmod(file.fileno(), old.st_mode & 0o7777)
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            if change.now is None:
                os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        Path(draft).replace(real)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return made


def drop_folders(folders: Sequence[str]) -> None:
    """Remove the folders that were made, as far as they are empty."""
    for folder in folders:
        try:
            Path(folder).rmdir()
        except OSError:
            return


def _by_path(written: Sequence[Wanted]) -> dict[Path, File]:
    """Return each file once, with what any mode writes into it."""
    found: dict[Path, File] = {}
    for file in (file for wanted in written for file in wanted.files):
        there = found.get(file.path)
        if isinstance(there, JsonFile) and isinstance(file, JsonFile):
            file = JsonFile(file.path, (*there.edits, *file.edits))
        found[file.path] = file
    return found


def _without(agent: str, file: File, now: bytes | None, kept: Kept | None) -> bytes | None:
    if now is None:
        return None
    if kept is not None and sha256(now) == kept.after:
        return kept.before
    try:
        text = without_ours(agent, file, _text(file, now), kept.added if kept else None)
    except BadFile as error:
        raise _bad(file, error) from None
    return None if text is None else text.encode()


def _with(agent: str, file: File, now: bytes | None) -> tuple[bytes, Added]:
    try:
        text, added = with_ours(agent, file, _text(file, now or b""))
    except BadFile as error:
        raise _bad(file, error) from None
    return text.encode(), added


def _stands(agent: str, file: File, now: bytes | None) -> bool:
    return now is not None and _with(agent, file, now)[0] == now


def _text(file: File, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"`{safe_line(str(file.path))}` is no UTF-8 text; mend it first") from None


def _bad(file: File, error: BadFile) -> BadInput:
    return BadInput(f"`{safe_line(str(file.path))}`: {error}; mend it first")


def _read(path: Path) -> bytes | None:
    try:
        with own_files.opened(path) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except own_files.NoFile:
        raise BadInput(f"`{safe_line(str(path))}` is no regular file; remove it") from None
    except OSError as error:
        raise BadInput(f"`{safe_line(str(path))}` cannot be read: {error.strerror}") from None


def _folders(folder: Path) -> tuple[str, ...]:
    missing = []
    at = folder
    while not at.exists():
        missing.append(str(at))
        at = at.parent
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(missing)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
