# SPDX-License-Identifier: Apache-2.0
"""Reads the secret of a credential on the host, where a person said that it is. Blocking.

INVARIANT (P7, secrets): nothing that an agent can write decides what is read or run here: no file
of a workspace, no link, no program of one. No secret is in a message.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from policy.credentials import Credential, Form
from sandbox.network.login.uses import Secret

SECONDS = 20.0
"""How long a command may take to print a secret."""
MOST_BYTES = 16_384
SHORTEST = 8
"""Characters; a shorter secret could not be told from other text, and kept out of answers."""
_NO_QUESTIONS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
}


class NoSecret(Exception):
    """There is no secret to be had; the text says why, and holds nothing of it."""


class SecretReader:
    """Reads secrets for the gateways of one supervisor."""

    def __init__(
        self, workspaces: Callable[[], Iterable[str]], given: Mapping[str, str] | None = None
    ) -> None:
        """`workspaces` are where agents can write; `given` the variables, this process's own if
        nobody says."""
        self._workspaces = workspaces
        self._given = given

    def read(self, credential: Credential, host: str) -> Secret:
        """Return a credential's secret for a host (`name:port`). Raises NoSecret."""
        source, user = credential.secret, credential.user
        if source.variable:
            value = self._variables.get(source.variable, "")
            if not value:
                raise NoSecret(f"the supervisor was started without `{source.variable}`")
        elif source.file:
            value = self._file(source.file)
        elif source.command:
            value = self._printed(source.command, b"")
        else:
            user, value = self._from_git(host.removesuffix(":443"))
        return _checked(credential.form, user, value.strip("\r\n"))

    @property
    def _variables(self) -> Mapping[str, str]:
        return os.environ if self._given is None else self._given

    def _file(self, said: str) -> str:
        home = self._variables.get("HOME", "")
        path = f"{home}/{said[2:]}" if said.startswith("~/") else said
        path = os.path.normpath(path)
        real = os.path.realpath(path)
        if real != path:
            raise NoSecret(f"`{path}` goes over a link; name the place that it leads to")
        if self._in_workspace(path):
            raise NoSecret(f"`{path}` lies in a workspace, where an agent could write it")
        try:
            place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise NoSecret(f"`{path}` cannot be read: {(error.strerror or '').lower()}") from None
        with os.fdopen(place, "rb") as file:
            state = os.fstat(place)
            if not stat.S_ISREG(state.st_mode):
                raise NoSecret(f"`{path}` is no plain file")
            if state.st_uid not in (0, os.geteuid()) or state.st_mode & 0o022:
                raise NoSecret(f"`{path}` can be written by others than you: chmod go-w it")
            return _text(file.read(MOST_BYTES + 1))

    def _from_git(self, host: str) -> tuple[str, str]:
        """Ask the helpers of the user's own settings, as git would."""
        asked = f"protocol=https\nhost={host}\n\n".encode()
        printed = self._printed(("git", "-c", "core.askPass=", "credential", "fill"), asked)
        found = dict(line.partition("=")[::2] for line in printed.splitlines())
        if not found.get("username") or not found.get("password"):
            raise NoSecret(f"git's helpers know none for `{host}`")
        return found["username"], found["password"]

    def _printed(self, command: Sequence[str], stdin: bytes) -> str:
        """Run a command of a person's, without a shell, and return what it prints."""
        path = os.pathsep.join(
            folder
            for folder in self._variables.get("PATH", os.defpath).split(os.pathsep)
            if folder.startswith("/") and not self._in_workspace(folder)
        )
        program = shutil.which(command[0], path=path)
        if program is None or not program.startswith("/"):
            raise NoSecret(f"there is no program `{command[0]}` outside of the workspaces")
        if self._in_workspace(program):
            raise NoSecret(f"`{program}` lies in a workspace, where an agent could write it")
        shown = f"`{' '.join(command)}`"
        kept = {key: value for key, value in self._variables.items() if not key.startswith("GIT_")}
        with tempfile.TemporaryFile() as out:
            try:
                process = subprocess.Popen(
                    [program, *command[1:]],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={**kept, "PATH": path, **_NO_QUESTIONS},
                    start_new_session=True,
                )
            except OSError as error:
                raise NoSecret(f"{shown} cannot be started: {error.strerror}") from None
            try:
                process.communicate(stdin, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise NoSecret(f"{shown} took longer than {SECONDS:.0f} seconds") from None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if process.returncode != 0:
                raise NoSecret(f"{shown} ended with status {process.returncode}")
            out.seek(0)
            return _text(out.read(MOST_BYTES + 1))

    def _in_workspace(self, path: str) -> bool:
        """Whether a path lies in a workspace, by its words or by where it leads."""
        spelled = {PurePosixPath(os.path.normpath(path)), PurePosixPath(os.path.realpath(path))}
        for workspace in self._workspaces():
            roots = {PurePosixPath(workspace), PurePosixPath(os.path.realpath(workspace))}
            if any(place.is_relative_to(root) for place in spelled for root in roots):
                return True
        return False


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise NoSecret("it is too long for a secret")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NoSecret("it is no text") from None


def _checked(form: Form, user: str, value: str) -> Secret:
    """Return a secret that a header can carry. Raises NoSecret."""
    if len(value) < SHORTEST:
        raise NoSecret(f"its secret is empty, or shorter than {SHORTEST} characters")
    plain = value.isascii() or form is Form.BASIC  # in base64 any text can stand
    if not (value.isprintable() and plain and user.isprintable() and ":" not in user):
        raise NoSecret("its secret has a line end, or another sign that a header cannot carry")
    return Secret(value, user)
