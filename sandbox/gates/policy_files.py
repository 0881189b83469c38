# SPDX-License-Identifier: Apache-2.0
"""Which policy files count for a call, and whether a workspace's own file is trusted.

In this order, the later with the stronger word: the built-in rules; the user's files in the
configuration folder; the workspace's `.lockgate/policy.yaml`; an administrator's file. Files are
read again when they change. INVARIANT (P7, broken files): a file that cannot be read or is wrong
raises PolicyError for every call, so that none runs on the rest of the rules.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from policy.autonomy.roles import Roles
from policy.gate1.decide import Policy
from policy.protected.paths import PathPolicy
from policy.sources import examples
from policy.sources import precedence as layers
from policy.sources.document import Document, read_document
from policy.sources.precedence import Effective, Layer, Source
from policy.values.strict_yaml import PolicyError
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.text_files import read_text
from sandbox.host.xdg import POLICY_FILES

ADMINISTRATOR_FILE = Path("/etc/lockgate/policy.yaml")
FOLDER, FILE = ".lockgate", POLICY_FILES[0]
MOST_REMEMBERED = 256

Identity = tuple[int, ...] | None
"""What tells that a file changed; None: there is no file."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What files amounted to when they had these identities."""

    watched: tuple[str, ...]
    seen: tuple[Identity, ...]
    effective: Effective | None
    problem: PolicyError | None


class Policies:
    """The policy that counts for each workspace. One per process; not for several threads."""

    def __init__(
        self,
        dirs: Dirs,
        *,
        base: Policy | None = None,
        paths: PathPolicy | None = None,
        administrator: Path = ADMINISTRATOR_FILE,
    ) -> None:
        """Read nothing yet. `base` and `paths` replace the built-in rules; `administrator` is for
        tests alone, since nobody else may choose that file."""
        self._dirs = dirs
        self._base = base or Policy.default()
        self._paths = paths or PathPolicy.default()
        self._administrator = administrator
        self._user = dirs.config / FILE
        self._standing = [dirs.config / name for name in POLICY_FILES[1:]]
        self.trusted = TrustedFiles(dirs)
        self._kept: dict[tuple[str, ...], _Kept] = {}
        self._documents: dict[Path, tuple[Identity, Document]] = {}

    def of(self, workspaces: tuple[str, ...]) -> Effective:
        """Return the policy for a call that sees these workspaces. Raises PolicyError."""
        kept = self._kept.get(workspaces)
        watched = self._watched(workspaces) if kept is None else kept.watched
        seen = tuple(map(identity, watched))
        if kept is None or kept.seen != seen:
            try:
                kept = _Kept(watched, seen, self._combined(workspaces), None)
            except PolicyError as error:
                kept = _Kept(watched, seen, None, error)
            if len(self._kept) >= MOST_REMEMBERED:
                self._kept.clear()
            self._kept[workspaces] = kept
        if kept.problem is not None:
            raise kept.problem
        assert kept.effective is not None
        return kept.effective

    def paths(self, workspaces: tuple[str, ...]) -> PathPolicy:
        """Return gate 2's part of the policy for these workspaces. Raises BadInput."""
        try:
            return self.of(workspaces).paths
        except PolicyError as error:
            raise BadInput(str(error)) from None

    def files(self, workspaces: tuple[str, ...]) -> tuple[tuple[Layer, Path], ...]:
        """Return the policy files that count where they exist."""
        return (
            (Layer.USER, self._user),
            *((Layer.WORKSPACE, workspace_file(workspace)) for workspace in workspaces),
            (Layer.ADMINISTRATOR, self._administrator),
        )

    def parts(self) -> tuple[tuple[Path, str], ...]:
        """Return the user's files on levels, modes, trust and roles that are there, with the digest
        of each. Raises PolicyError for one that cannot be read."""
        texts = ((path, read_text(path)) for path in self._standing)
        return tuple(
            (path, hashlib.sha256(text.encode()).hexdigest())
            for path, text in texts
            if text is not None
        )

    def document(self, layer: Layer, path: Path) -> Document | None:
        """Return a policy file, its examples run, or None if there is none. Raises PolicyError."""
        now = identity(path)
        kept = self._documents.get(path)
        if kept is not None and kept[0] == now:
            return kept[1]
        text = read_text(path, follow=layer is not Layer.WORKSPACE)
        if text is None:
            return None
        document = read_document(text, str(path))
        examples.check(document, self._base)
        if len(self._documents) >= MOST_REMEMBERED:
            self._documents.clear()
        self._documents[path] = (now, document)
        return document

    def _watched(self, workspaces: tuple[str, ...]) -> tuple[str, ...]:
        files = (path for _, path in self.files(workspaces))
        return tuple(map(os.fspath, (*files, *self._standing, self.trusted.file)))

    def base(self) -> Policy:
        """Return the built-in policy with the user's files on levels, modes, trust and roles.

        Raises PolicyError.
        """
        base = self._base
        if any(identity(path) for path in self._standing):
            digest = layers.extended_digest(base.digest, map(read_text, self._standing))
            autonomy = base.autonomy.with_folder(self._dirs.config)
            base = replace(base, autonomy=autonomy, digest=digest)
        return base

    def _combined(self, workspaces: tuple[str, ...]) -> Effective:
        base = self.base()
        known = self.trusted.all()
        sources = []
        for layer, path in self.files(workspaces):
            document = self.document(layer, path)
            if document is not None:
                own = layer is not Layer.WORKSPACE
                sources.append(
                    Source(layer, document, own or known.get(str(path)) == document.digest)
                )
        return layers.combine(base, self._paths, sources)


class BuiltIn:
    """The built-in rules alone, whatever files there are."""

    def of(self, workspaces: tuple[str, ...]) -> Effective:
        """Return the built-in policy."""
        return Effective(Policy.default(), PathPolicy.default())


class TrustedFiles:
    """Which workspaces' policy files their owner has trusted, by digest, in the state folder."""

    def __init__(self, dirs: Dirs) -> None:
        self.file = dirs.state / "trusted.json"
        self._lock = dirs.state / "trusted.lock"

    def all(self) -> Mapping[str, str]:
        """Return digests by the path of the policy file. Raises PolicyError."""
        try:
            found = json.loads(self.file.read_text("utf-8"))["files"]
            return {str(path): str(one["digest"]) for path, one in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise PolicyError(
                f"{self.file}: it cannot be read; remove it, and trust the files again"
            ) from None

    def add(self, document: Document) -> None:
        """Trust a file as it is now; any change of it ends that."""
        with self._locked():
            known = dict(self.all())
            known[document.name] = document.digest
            self._write(known)

    def remove(self, path: Path) -> bool:
        """Trust a file no more. False if it was not trusted."""
        with self._locked():
            known = dict(self.all())
            if known.pop(str(path), None) is None:
                return False
            self._write(known)
        return True

    def _write(self, known: Mapping[str, str]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        files = {path: {"digest": digest, "written": now} for path, digest in known.items()}
        draft = self.file.with_suffix(".new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"files": files}, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def workspace_file(workspace: str) -> Path:
    """Return where a workspace's own policy file is."""
    return Path(workspace) / FOLDER / FILE


def identity(path: str | Path) -> Identity:
    """Return what changes whenever a file does, or None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called for each call; half the time
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def user_roles(dirs: Dirs) -> Roles:
    """Return the roles with the user's own. Raises BadInput where their file is wrong."""
    try:
        return Policies(dirs).of(()).policy.autonomy.roles
    except PolicyError as error:
        raise BadInput(str(error)) from None
