# SPDX-License-Identifier: Apache-2.0
"""Reads the secret of a credential on the host, where a person said that it is. Blocking.

INVARIANT (P7, secrets): nothing that an agent can write decides what is read or run here: no file
of a workspace, no link, no program of one, no variable or setting that leads there. No secret is in
a message.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from policy.credentials import Credential, Form
from sandbox.network.login.commands import CannotRun, run
from sandbox.network.login.reaches import Ground
from sandbox.network.login.uses import Secret

MOST_BYTES = 16_384
MOST_SETTINGS = 1 << 20
"""Bytes of git's settings."""
SHORTEST = 8
"""Characters; a shorter secret could not be told from other text, and kept out of answers."""
_NO_QUESTIONS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
}


_PASSED = frozenset(
    ("USER", "LOGNAME", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME",
     "SSH_AUTH_SOCK", "DISPLAY")
)  # fmt: skip
"""Variables that a command gets, beside `LC_*` and those that its credential names."""


class NoSecret(Exception):
    """There is no secret to be had; the text says why, and holds nothing of it."""


class SecretReader:
    """Reads secrets for the gateways of one supervisor."""

    def __init__(
        self,
        workspaces: Callable[[], Iterable[str]],
        given: Mapping[str, str] | None = None,
        home: str | None = None,
    ) -> None:
        """`workspaces` are where agents can write; `given` the variables, this process's own if
        nobody says; `home` the person's, that of the password database if nobody says."""
        self._workspaces = workspaces
        self._given = given
        self._own_home = home

    def read(self, credential: Credential, host: str) -> Secret:
        """Return a credential's secret for a host (`name:port`). Raises NoSecret."""
        source, user = credential.secret, credential.user
        ground = Ground(self._workspaces(), self._home())
        if source.variable:
            value = self._variables.get(source.variable, "")
            if not value:
                raise NoSecret(f"the supervisor was started without `{source.variable}`")
        elif source.file:
            value = self._file(ground, source.file)
        elif source.command:
            value = _text(self._printed(ground, source.command, source.env, b"", MOST_BYTES))
        else:
            user, value = self._from_git(ground, host.removesuffix(":443"), source.env)
        return _checked(credential.form, user, value.strip("\r\n"))

    @property
    def _variables(self) -> Mapping[str, str]:
        return os.environ if self._given is None else self._given

    def _home(self) -> str:
        if self._own_home is not None:
            return self._own_home
        try:
            return pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            raise NoSecret("the account that runs Lockgate has no home") from None

    @staticmethod
    def _file(ground: Ground, said: str) -> str:
        path = f"{ground.home}/{said[2:]}" if said.startswith("~/") else said
        path = os.path.normpath(path)
        real = os.path.realpath(path)
        if real != path:
            raise NoSecret(f"`{path}` goes over a link; name the place that it leads to")
        if ground.holds(path):
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

    def _from_git(self, ground: Ground, host: str, env: Sequence[str]) -> tuple[str, str]:
        """Ask the helpers of the user's own settings, as git would."""
        listed = ("git", "config", "--list", "--show-origin", "-z")
        self._check_settings(ground, self._printed(ground, listed, env, b"", MOST_SETTINGS))
        asked = f"protocol=https\nhost={host}\n\n".encode()
        fill = ("git", "-c", "core.askPass=", "credential", "fill")
        printed = _text(self._printed(ground, fill, env, asked, MOST_BYTES))
        found = dict(line.partition("=")[::2] for line in printed.splitlines())
        if not found.get("username") or not found.get("password"):
            raise NoSecret(f"git's helpers know none for `{host}`")
        return found["username"], found["password"]

    @staticmethod
    def _check_settings(ground: Ground, listed: bytes) -> None:
        """Raise NoSecret where settings of git, or what they run or read, lie in a workspace."""
        words = iter(os.fsdecode(listed).split("\0"))
        for origin, setting in zip(words, words, strict=False):
            kind, _, place = origin.partition(":")
            if kind == "file" and ground.holds(place):
                raise NoSecret(f"`{place}`, whose settings git obeys, lies in a workspace")
            name, _, value = setting.partition("\n")
            section = name.partition(".")[0].lower()
            if section == "include" or section == "includeif":
                beside = os.path.join(os.path.dirname(place), value)  # noqa: PTH118, PTH120
                if ground.holds(beside) or ground.mentions(value):
                    raise NoSecret(f"git's setting `{name}` leads into a workspace")
            elif section == "credential" and ground.mentions(value):
                raise NoSecret(f"git's setting `{name}` leads into a workspace")

    def _printed(
        self,
        ground: Ground,
        command: Sequence[str],
        env: Sequence[str],
        stdin: bytes,
        most: int,
    ) -> bytes:
        """Run a command of a person's, without a shell, and return what it prints."""
        if ground.holds(ground.home):
            raise NoSecret("your home lies in a workspace, where an agent could write it")
        given = self._variables
        path = ground.search_path(given.get("PATH", os.defpath))
        program = ground.program(command[0], path)
        if program is None:
            raise NoSecret(f"there is no program `{command[0]}` outside of the workspaces")
        if way := ground.way_in(program, path):
            raise NoSecret(f"`{command[0]}` runs `{way}`, which lies in a workspace")
        if any(ground.mentions(word) for word in command[1:]):
            raise NoSecret(f"a word of the command `{command[0]}` leads into a workspace")
        kept = {
            name: value
            for name, value in given.items()
            if (name in _PASSED or name in env or name.startswith("LC_"))
            and not ground.mentions(value)
        }
        variables = {**kept, "HOME": ground.home, "PATH": path, **_NO_QUESTIONS}
        try:
            return run((program, *command[1:]), variables, stdin, most)
        except CannotRun as error:
            raise NoSecret(f"`{command[0]}` {error}") from None


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
