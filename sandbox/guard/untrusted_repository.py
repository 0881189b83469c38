# SPDX-License-Identifier: Apache-2.0
"""Ask git about a repository that is not trusted: nothing that it holds is run or fetched.

Only commands that read objects are used; no setting of the user's, the system's or the repository's
own makes them run a program, follow a replaced object, or reach a network. Names are bytes that
need not be UTF-8 (surrogateescape).
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sandbox.cell import fs
from sandbox.errors import Unavailable
from sandbox.text.terminal import safe_line

SECONDS = 120.0
"""How long one git command may take."""
DEFAULTS = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where the default branch is looked for, in this order."""
_REFS = {name: f"refs/remotes/{name}" for name in DEFAULTS[:3]} | {
    name: f"refs/heads/{name}" for name in DEFAULTS[3:]
}
_SAFE = (
    # the owner of the folder does not matter, since nothing in it is obeyed
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.alternateRefsCommand=false", "-c", "safe.directory=*"),
    *("--no-pager", "--no-optional-locks", "--literal-pathspecs"),
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "false",
}
_LINK = "120000"
SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Blob:
    """What a commit, or the work tree, holds at a path."""

    mode: str
    id: str
    data: bytes | None = field(default=None, compare=False)
    """The content, where it was read from the work tree."""

    @property
    def type(self) -> str:
        """Return its type as the record writes it."""
        return {_LINK: "symlink", SUBMODULE: "directory"}.get(self.mode, "file")


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs."""

    path: str
    before: Blob | None
    after: Blob | None


class Repository:
    """A git repository on this host."""

    def __init__(self, path: Path) -> None:
        """Raises Unavailable when there is none at `path` or above it, or no git."""
        if not path.is_dir():
            raise Unavailable(f"`{safe_line(str(path))}` is not a folder")
        self._at = path
        shown = f"`{safe_line(str(path))}`"
        top = self._git("rev-parse", "--show-toplevel", missing_ok=True)
        if not top:
            raise Unavailable(f"{shown} is in no git repository with a work tree")
        self.top = Path(os.path.realpath(os.fsdecode(top).removesuffix("\n")))
        if not Path(os.path.realpath(path)).is_relative_to(self.top):
            raise Unavailable(f"the work tree of {shown} lies elsewhere, in `{self.top}`")
        self._at = self.top

    def _git(self, *words: str, missing_ok: bool = False) -> bytes:
        command = ("git", *_SAFE, *words)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        try:
            done = subprocess.run(
                command,
                cwd=self._at,
                env={**kept, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise Unavailable("git is not installed; `apt-get install git` installs it") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"git {words[0]}: took more than {SECONDS:.0f} s") from None
        except OSError as error:
            raise Unavailable(f"git {words[0]}: {error.strerror}") from None
        if done.returncode and not missing_ok:
            said = safe_line(done.stderr.strip().split(b"\n")[0]).removeprefix("fatal: ")
            raise Unavailable(f"git {words[0]}: {said or 'it failed'}")
        return b"" if done.returncode else done.stdout

    def commit(self, revision: str) -> str:
        """Return the id of a commit. Raises Unavailable for a revision that there is not."""
        if "\0" not in revision and (found := self._resolve(revision)):
            return found
        raise Unavailable(
            f"`{safe_line(revision)}` is no revision of `{safe_line(str(self.top))}`; "
            "a shallow clone may lack it"
        )

    def _resolve(self, revision: str) -> str:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return self._git("rev-parse", *words, missing_ok=True).decode("ascii").strip()

    def default_base(self, tip: str) -> tuple[str, str]:
        """Return where `tip` left the default branch, and that branch's name.

        That is `tip` itself where the branch holds all of it. Raises Unavailable when no default
        branch is found.
        """
        for name in DEFAULTS:
            if found := self._resolve(_REFS[name]):
                break
        else:
            raise Unavailable(
                f"no default branch: looked for {', '.join(f'`{name}`' for name in DEFAULTS)}; "
                "name the base with `--base REV`"
            )
        base = self._git("merge-base", found, tip, missing_ok=True).decode("ascii").strip()
        if not base:
            raise Unavailable(
                f"no common ancestor with `{name}`: a shallow clone lacks it; fetch all of the "
                "history, or name the base with `--base REV`"
            )
        return base, name

    def changes(self, base: str, tip: str) -> list[Difference]:
        """Return the paths that differ between two commits; a rename is two of them."""
        words = ("-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff")
        more = ("--no-textconv", "--no-color", "--ignore-submodules=none", "--full-index")
        out = self._git("diff-tree", *words, *more, base, tip).split(b"\0")
        differences = []
        for head, name in zip(out[::2], out[1::2], strict=False):
            old_mode, new_mode, old, new, _ = head.decode("ascii").lstrip(":").split(" ")
            differences.append(
                Difference(os.fsdecode(name), _blob(old_mode, old), _blob(new_mode, new))
            )
        return differences

    def count(self, base: str, tip: str) -> int:
        """Return how many commits `tip` has that `base` has not; both are ids of commits."""
        return int(self._git("rev-list", "--count", f"{base}..{tip}"))

    def content(self, blob: Blob | None) -> bytes | None:
        """Return what a blob holds (a link: its target); None for none and for a submodule."""
        if blob is None or blob.mode == SUBMODULE:
            return None
        if blob.data is not None:
            return blob.data
        return self._git("cat-file", "blob", blob.id)

    # The work tree

    def names(self, tip: str) -> Iterator[str]:
        """Yield the names of the work tree and of a commit, each once, without ignored ones."""
        seen: set[bytes] = set()
        for words in (
            ("ls-tree", "-r", "-z", "--name-only", "--full-tree", tip),
            ("ls-files", "-z"),
            ("ls-files", "-z", "--others", "--exclude-standard"),
        ):
            for name in self._git(*words).split(b"\0"):
                if name and name not in seen:
                    seen.add(name)
                    yield os.fsdecode(name)

    def committed(self, tip: str, path: str) -> Blob | None:
        """Return what a commit holds at a path."""
        out = self._git("ls-tree", "-z", "--full-tree", tip, "--", path)
        if not out:
            return None
        mode, kind, name = out.split(b"\t")[0].decode("ascii").split(" ")
        return Blob(mode, name) if kind != "tree" else None

    def in_worktree(self, path: str) -> Blob | None:
        """Return what stands in the work tree at a path, read without git's filters."""
        top = fs.open_directory(str(self.top))
        try:
            status = fs.lstat(top, path)
            if status is None:
                return None
            mode = status.st_mode
            if stat.S_ISLNK(mode):
                data = os.fsencode(fs.readlink(top, path))
                return Blob(_LINK, self._blob_id(data), data)
            if not stat.S_ISREG(mode):
                return None
            descriptor = fs.open_beneath(top, path, os.O_RDONLY | os.O_NONBLOCK)
            with fs.reading(descriptor) as file:
                data = file.read()
            return Blob("100755" if mode & 0o100 else "100644", self._blob_id(data), data)
        except OSError as error:
            raise Unavailable(f"`{safe_line(path)}`: cannot be read: {error.strerror}") from None
        finally:
            os.close(top)

    def _blob_id(self, data: bytes) -> str:
        return hashlib.new(self._format, b"blob %d\0" % len(data) + data).hexdigest()

    @cached_property
    def _format(self) -> str:
        return self._git("rev-parse", "--show-object-format").decode("ascii").strip()


def _blob(mode: str, name: str) -> Blob | None:
    return None if mode == "000000" else Blob(mode, name)
