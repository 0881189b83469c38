# SPDX-License-Identifier: Apache-2.0
"""The three folders of one user's Lockgate: state, configuration and the socket's.

Standard library only: the thin client needs these before anything else is imported.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import BadInput, Unavailable
from sandbox.host import xdg

SOCKET_PATH_BYTES = 107
"""What the kernel takes as the path of a unix socket."""


@dataclass(frozen=True, slots=True)
class Dirs:
    """Where one user's state, configuration and socket are."""

    state: Path
    """Audit, calls, registered workspaces, the stop latch, logs."""
    config: Path
    """config.yaml and policy files. Read, never written."""
    runtime: Path
    """The supervisor's socket."""

    @classmethod
    def default(cls) -> Dirs:
        """Return the folders that the XDG variables name, or their defaults.

        Variables that hold no absolute path are ignored, as the XDG specification asks; without a
        usable XDG_RUNTIME_DIR the socket lies in the state folder.
        """
        return cls(Path(xdg.state()), Path(xdg.config()), Path(xdg.runtime()))

    @classmethod
    def under(cls, root: Path) -> Dirs:
        """Return folders that all lie below `root` (tests, examples, a second Lockgate)."""
        return cls(root / "state", root / "config", root / "run")

    def create(self) -> Dirs:
        """Make the state and runtime folders, closed to everybody else. Returns itself.

        Raises Unavailable when one cannot be made or belongs to another user.
        """
        for folder in (self.state, self.runtime):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = folder.stat()
                if found.st_uid != os.geteuid():
                    raise Unavailable(
                        f"`{folder}` belongs to uid {found.st_uid}; give it to uid {os.geteuid()}"
                    )
                if found.st_mode & 0o077:
                    folder.chmod(0o700)
            except OSError as error:
                raise Unavailable(f"`{folder}` cannot be made: {error.strerror}") from None
        return self

    @property
    def folders(self) -> tuple[str, ...]:
        """Return all of them, as gate 1 knows them: no call writes there."""
        return tuple(str(path) for path in (self.state, self.config, self.runtime))

    @property
    def socket(self) -> Path:
        """Return the path of the supervisor's socket. Raises BadInput when it is too long."""
        return self._socket(xdg.SOCKET)

    @property
    def web_socket(self) -> Path:
        """Return the path of the socket that HTTP is served on. Raises BadInput, as above."""
        return self._socket(xdg.WEB_SOCKET)

    def _socket(self, name: str) -> Path:
        path = self.runtime / name
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
            raise BadInput(
                f"`{path}` is longer than {SOCKET_PATH_BYTES} bytes, which no socket's path may "
                "be; set XDG_RUNTIME_DIR to a shorter folder"
            )
        return path

    @property
    def lock(self) -> Path:
        """Return the file whose lock makes one supervisor the only one of this state folder."""
        return self.state / "supervisor.lock"

    @property
    def log(self) -> Path:
        """Return the file that the supervisor's own messages go to."""
        return self.state / "supervisor.log"

    @property
    def settings(self) -> Path:
        """Return the user's settings file."""
        return self.config / "config.yaml"
