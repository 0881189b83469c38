# SPDX-License-Identifier: Apache-2.0
"""Before-images of what agents' own tools edit, as they lie in a workspace until a keeper comes.

    .lockgate/edits/lock       held while one of the following changes
    .lockgate/edits/CALL.new/  copies that are being made; what is left of it means nothing
    .lockgate/edits/CALL/      the copies `o0`, `o1`, ... and `note`: the tool may run now
    .lockgate/edits/CALL.done/ also `after`: what stood there when the tool came back

The supervisor writes them on the host, as the person whose files they are; the next keeper takes
those that are done into the records of landings (`landing.adopt`). Standard library only, Python
3.9. What is read here is checked: whoever owns the workspace can write it.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from .. import fs
from .format import Identity

FOLDER = "edits"
NOTE, AFTER = "note", "after"
NEW, DONE = ".new", ".done"
VERSION = 1
MAX_NOTE = 16 << 20
"""Bytes of a note that are read."""


class Damaged(ValueError):
    """A note does not say what a note says."""


class Before(NamedTuple):
    """What stood at one path before a tool ran."""

    path: str
    """Relative to the workspace."""
    was: Identity | None
    """None: nothing stood there."""
    sha256: str = ""
    folder: str = ""
    """Where nothing stood: the outermost folder above the path that was not there either."""
    expected: str = ""
    """The SHA-256 of what the tool was going to leave, where that could be told."""


class After(NamedTuple):
    """What stands at one path after it."""

    path: str
    now: Identity | None
    sha256: str = ""
    folders: list[list[Any]] = []  # noqa: RUF012
    """Of folders that were made on the way, outermost first: path and identity."""
    beside: str = ""
    """Another call that began to edit the same file before this one came back."""
    settings: list[int] = []  # noqa: RUF012
    """Mode, uid and gid of a file; older notes do not say."""


class Kept(NamedTuple):
    """The before-images of one call in one workspace."""

    call: str
    sign: str
    """Stands for the agent (see `marks`)."""
    session: str
    use: str
    """What tells the tool's call from others of its session."""
    time: float
    size: int
    """Bytes of the copies."""
    files: list[Before]


def slot(number: int) -> str:
    """Return the name of the copy of the file with this number."""
    return f"o{number}"


def note(kept: Kept) -> bytes:
    """Return the text of a note."""
    row = kept._asdict()
    return json.dumps({"v": VERSION, **row, "files": [list(file) for file in kept.files]}).encode()


def read_note(folder: int) -> Kept:
    """Return the note in an open folder. Raises OSError, and Damaged."""
    text = _text(folder, NOTE)
    try:
        found = json.loads(text)
        if found.pop("v") != VERSION:
            raise Damaged("its note is of another version")
        files = [Before(*one) for one in found.pop("files")]
        kept = Kept(files=files, **found)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise Damaged("its note cannot be read") from None
    good = all(_is_path(file.path) and _is_identity(file.was) for file in kept.files)
    good = good and all(file.folder == "" or _is_path(file.folder) for file in kept.files)
    texts = (kept.call, kept.sign, kept.session, kept.use)
    if not good or not all(isinstance(one, str) for one in texts):
        raise Damaged("its note cannot be read")
    if not isinstance(kept.time, (int, float)) or not isinstance(kept.size, int):
        raise Damaged("its note cannot be read")
    return kept


def note_of(edits: int, name: str) -> Kept | None:
    """Return the note of one edit in the open folder of edits; None where none can be read."""
    try:
        folder = fs.open_directory(name, edits)
    except OSError:
        return None
    try:
        return read_note(folder)
    except (OSError, Damaged):
        return None
    finally:
        os.close(folder)


def names(edits: int) -> list[str]:
    """Return the names of the edits in an open folder, but for copies that are being made."""
    with os.scandir(edits) as entries:
        found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [name for name in found if not name.endswith(NEW)]


def waiting(edits: int) -> int:
    """Return the bytes of the copies that no keeper took over yet, of tools that run still too."""
    notes = {name[: -len(DONE)] if name.endswith(DONE) else name: name for name in names(edits)}
    return sum(kept.size for name in notes.values() if (kept := note_of(edits, name)))


def after(found: list[After], when: float) -> bytes:
    """Return the text of what stands there after a call."""
    return json.dumps({"v": VERSION, "time": when, "files": [list(one) for one in found]}).encode()


def read_after(folder: int) -> tuple[list[After], float]:
    """Return what stood there after a call, and when; nothing where it did not come back yet.

    Raises OSError, and Damaged.
    """
    try:
        text = _text(folder, AFTER)
    except FileNotFoundError:
        return [], 0.0
    try:
        found = json.loads(text)
        files, when = [After(*one) for one in found["files"]], float(found["time"])
        good = all(_is_path(file.path) and _is_identity(file.now) for file in files)
        good = good and all(_are_folders(file.folders) for file in files)
        good = good and all(_are_settings(file.settings) for file in files)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damaged("what it left cannot be read") from None
    if not good:
        raise Damaged("what it left cannot be read")
    return files, when


def _text(folder: int, name: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with fs.reading(os.open(name, flags, dir_fd=folder)) as file:
        return file.read(MAX_NOTE)


def _is_path(path: object) -> bool:
    """Whether it is a path below a workspace, and not among its records."""
    if not isinstance(path, str) or not path:
        return False
    parts = path.split("/")
    return not {"", ".", ".."} & set(parts) and parts[0].casefold() != ".lockgate"


def _are_folders(rows: list[list[Any]]) -> bool:
    return all(_is_path(path) and what is not None and _is_identity(what) for path, what in rows)


def _are_settings(found: object) -> bool:
    if not isinstance(found, list) or len(found) not in (0, 3):
        return False
    return all(isinstance(one, int) for one in found)


def _is_identity(identity: object) -> bool:
    if identity is None:
        return True
    if not isinstance(identity, list) or len(identity) != 5:
        return False
    return all(isinstance(one, int) for one in identity)
