# SPDX-License-Identifier: Apache-2.0
"""What the guard keeps of one workspace, in the state folder `guard/DIGEST/`, closed to others.

lock              held by the one guard that watches the workspace
known.json        how each protected path stood at the last look
contents/SHA256   the content of each of them
tampered/SHA256   what was found instead: nothing that the guard replaces is lost
tampered/NAME     the same for whole folders
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from sandbox.errors import Unavailable
from sandbox.guard.fingerprint import Entry
from sandbox.host.dirs import Dirs

VERSION = 1
MOST_TAMPERED_BYTES = 1 << 30
"""Beyond this the guard restores nothing more, since it could not keep what it replaces."""


class Full(Exception):
    """What was found instead can no longer be kept."""


class Occupied(Unavailable):
    """Another guard watches the workspace."""


class Place:
    """The guard's folder of one workspace; used by one guard at a time."""

    def __init__(self, dirs: Dirs, workspace: str) -> None:
        """Raises Unavailable when another guard has it, or when it cannot be made."""
        digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
        self.workspace = workspace
        self.path = dirs.state / "guard" / digest
        self._contents = self.path / "contents"
        self.tampered = self.path / "tampered"
        self._file = self.path / "known.json"
        dirs.create()
        try:
            for folder in (self.path.parent, self.path, self._contents, self.tampered):
                folder.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(self.path / "lock", flags, 0o600)
        except OSError as error:
            raise Unavailable(f"`{self.path}` cannot be made: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise Occupied(
                f"another guard watches `{workspace}`; end it, or name other workspaces"
            ) from None

    def close(self) -> None:
        """Let another guard have it."""
        os.close(self._lock)

    def load(self) -> tuple[dict[str, Entry], float, str | None] | None:
        """Return what was known, when (seconds since 1970), and by which rules (their digest).

        None at the first start.

        Raises Unavailable when the file is damaged.
        """
        try:
            data = json.loads(self._file.read_text("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise Unavailable(self._damaged()) from None
        try:
            if data["version"] != VERSION or data["workspace"] != self.workspace:
                raise ValueError
            known = {path: Entry.from_json(row) for path, row in data["known"].items()}
            return known, float(data["at"]), data.get("rules")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Unavailable(self._damaged()) from None

    def _damaged(self) -> str:
        return (
            f"`{self._file}` cannot be read, so that changes made since cannot be told; look at "
            "the protected files, then remove it"
        )

    def save(self, known: Mapping[str, Entry], rules: str) -> float:
        """Write down what is known; return the time that stands in it."""
        now = time.time()
        rows = {path: entry.as_json() for path, entry in sorted(known.items())}
        data = {"version": VERSION, "workspace": self.workspace, "at": now, "known": rows}
        data["rules"] = rules
        _write(self._file, json.dumps(data, separators=(",", ":")).encode("ascii"))
        self._forget({entry.sha256 for entry in known.values()})
        return now

    def _forget(self, wanted: set[str | None]) -> None:
        for path in self._contents.iterdir():
            if path.name not in wanted:
                with contextlib.suppress(OSError):
                    path.unlink()

    def keep(self, sha256: str, content: bytes) -> None:
        """Keep the content of a protected file."""
        target = self._contents / sha256
        try:
            whole = target.stat().st_size == len(content)
        except FileNotFoundError:
            whole = False
        if not whole:
            _write(target, content, durable=False)  # whoever reads it compares its hash

    def content(self, sha256: str) -> bytes | None:
        """Return a content that was kept, if it is still what it was."""
        for folder in (self._contents, self.tampered):
            try:
                data = (folder / sha256).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == sha256:
                return data
        return None

    def keep_tampered(self, sha256: str) -> Path:
        """Keep for good what was found in the place of a protected file, or what was known of it.

        Raises Full, or OSError when it was never kept.
        """
        target = self.tampered / sha256
        if not target.exists():
            self._room()
            source = self._contents / sha256
            try:
                os.link(source, target)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                    raise
                shutil.copyfile(source, target)
        return target

    def take_away(self, folder: int, name: str) -> Path:
        """Move `name` out of an open folder to what is kept; it may be a whole folder."""
        self._room()
        target = self.tampered / f"{int(time.time())}-{secrets.token_hex(4)}"
        state = os.open(self.tampered, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.rename(name, target.name, src_dir_fd=folder, dst_dir_fd=state)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_away(folder, name, target)
        finally:
            os.close(state)
        return target

    def _room(self) -> None:
        total = 0
        for folder, _, names in os.walk(self.tampered):
            for name in names:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
        if total > MOST_TAMPERED_BYTES:
            raise Full(f"`{self.tampered}` is full; look at it and empty it")


def _copy_away(folder: int, name: str, target: Path) -> None:
    """Move `name` to another file system. What holds no content is only removed."""
    source = f"/proc/self/fd/{folder}/{name}"
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        shutil.copytree(source, target, symlinks=True, ignore=_special)
        shutil.rmtree(name, dir_fd=folder)
        return
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        shutil.copy2(source, target, follow_symlinks=False)
    os.unlink(name, dir_fd=folder)


def _special(folder: str, names: list[str]) -> list[str]:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [
        name
        for name in names
        if not any(kind(os.lstat(os.path.join(folder, name)).st_mode) for kind in kinds)  # noqa: PTH118
    ]


def _write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
