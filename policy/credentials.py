# SPDX-License-Identifier: Apache-2.0
"""Named credentials, which a gateway adds to requests so that no cell has to hold them. Pure.

What is said here is where a secret comes from and what it may be used for, never the secret itself.
INVARIANT (P4, credentials): what a credential does not say that it is for, it is not for: by
default it reads, and a push needs branches that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from policy import hosts as names

DEFAULT_PORT = 443
MOST_WORDS = 32
"""Words of a command that prints a secret."""
_ID = r"[a-z0-9][a-z0-9_-]{0,39}"
_HOST = re.compile(r"([^:\s]+)(?::(\d{1,5}))?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHOD = re.compile(r"[A-Z]{3,16}")
_PREFIX = re.compile(r"/[A-Za-z0-9._~@/-]*")
_BRANCH = re.compile(r"[A-Za-z0-9._/@#+-]*(?:\*[A-Za-z0-9._/@#+-]*){0,3}")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_FRAMING = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
     "expect", "keep-alive", "proxy-connection", "cookie", "accept-encoding", "range")
)  # fmt: skip
"""Headers that a secret cannot stand in."""

Word = Annotated[str, Field(min_length=1, max_length=4096)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Form(str, Enum):
    """How a secret is shown to the host."""

    BEARER = "bearer"
    """`Authorization: Bearer SECRET`."""
    BASIC = "basic"
    """`Authorization: Basic`, with `user` before the secret."""
    HEADER = "header"
    """A header of its own, named by `header`."""


class SecretSource(_Part):
    """Where a secret comes from; exactly one of these."""

    variable: str = ""
    """A variable of the supervisor."""
    file: str = ""
    """A file of the person's alone: absolute, or below `~/`."""
    command: Annotated[tuple[Word, ...], Field(max_length=MOST_WORDS)] = ()
    """A command that prints it, run without a shell."""
    git: bool = False
    """The user's own credential helpers of git, asked for the host."""
    env: Annotated[tuple[Word, ...], Field(max_length=MOST_WORDS)] = ()
    """Further variables of the supervisor that the command, or git's helpers, get."""

    @model_validator(mode="after")
    def _one(self) -> SecretSource:
        if sum(map(bool, (self.variable, self.file, self.command, self.git))) != 1:
            raise ValueError("a secret comes from one of `variable`, `file`, `command` and `git`")
        if self.env and not (self.command or self.git):
            raise ValueError("`env` goes with `command` or `git`")
        for name in (self.variable, *self.env):
            if name and _VARIABLE.fullmatch(name) is None:
                raise ValueError(f"`{name}` is no name of a variable")
        if self.file and not self.file.startswith(("/", "~/")):
            raise ValueError(f"`{self.file}` is no absolute path")
        if any("\0" in word for word in (self.file, *self.command)):
            raise ValueError("no path and no word of a command has a NUL")
        return self

    def words(self) -> str:
        """Say where it comes from, for people."""
        if self.variable:
            return f"the variable `{self.variable}`"
        if self.file:
            return f"the file `{self.file}`"
        return f"the command `{' '.join(self.command)}`" if self.command else "git's helpers"


class Credential(_Part):
    """A secret that a gateway adds to requests to hosts; programs in a cell never see it."""

    id: Annotated[str, Field(pattern=_ID)]
    """Its name in cards and in the record."""
    hosts: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
    """`NAME` (port 443) or `NAME:PORT`, over TLS; no patterns."""
    secret: SecretSource
    form: Form
    because: Annotated[str, Field(min_length=1)]
    user: str = ""
    """Of form `basic`; git's helpers say it themselves."""
    header: str = ""
    """Of form `header`."""
    methods: tuple[str, ...] = ("GET", "HEAD")
    """Requests that get it."""
    fetch: bool = False
    """Whether what `git fetch` posts gets it too; unless said, where `push` or `programs` show that
    it is for git."""
    paths: tuple[str, ...] = ()
    """Where they go, by the beginning of their path (`/team`); none: anywhere on the host."""
    push: tuple[str, ...] = ()
    """Branches that `git push` may change with it (`agent/*`); others: `refs/...`."""
    programs: tuple[str, ...] = ()
    """Only for calls of these programs, with nothing else beside; an install needs its client."""

    @model_validator(mode="before")
    @classmethod
    def _for_git(cls, said: Any) -> Any:
        if not isinstance(said, dict) or "fetch" in said:
            return said
        programs = said.get("programs") or ()
        named = isinstance(programs, list | tuple) and any(
            str(program).split(" ")[0] == "git" for program in programs
        )
        return {**said, "fetch": named or bool(said.get("push"))}

    @field_validator("hosts")
    @classmethod
    def _plain(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_place(host) for host in said)

    @field_validator("methods")
    @classmethod
    def _methods(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        for method in said:
            if _METHOD.fullmatch(method) is None or method == "CONNECT":
                raise ValueError(f"`{method}` is no method, such as `GET` or `POST`")
        return said

    @field_validator("paths")
    @classmethod
    def _paths(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in said:
            if _PREFIX.fullmatch(prefix) is None or {".", ".."} & set(prefix.split("/")):
                raise ValueError(f"`{prefix}` is no beginning of a path, such as `/team`")
        return tuple(prefix.rstrip("/") + "/" for prefix in said)

    @field_validator("push")
    @classmethod
    def _branches(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        for branch in said:
            if not branch or _BRANCH.fullmatch(branch) is None:
                raise ValueError(f"`{branch}` is no branch, such as `main` or `agent/*`")
        return tuple(
            branch if branch.startswith("refs/") else f"refs/heads/{branch}" for branch in said
        )

    @model_validator(mode="after")
    def _formed(self) -> Credential:
        if (self.form is Form.HEADER) != bool(self.header):
            raise ValueError("`header` names the header of form `header`")
        if self.header and (
            _HEADER.fullmatch(self.header) is None or self.header.lower() in _FRAMING
        ):
            raise ValueError(f"`{self.header}` is no header that a secret can stand in")
        named = self.secret.git or bool(self.user)
        if (self.form is Form.BASIC) != named or (self.secret.git and self.user):
            raise ValueError("`user` goes with form `basic`, where git's helpers do not say it")
        if ":" in self.user or not self.user.isprintable():
            raise ValueError("`user` holds a sign that no name has")
        return self

    def within(self, places: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Return its hosts that these names, or patterns, and ports stand for."""
        reached = tuple(places)
        return tuple(
            host
            for host in self.hosts
            for name, _, port in (host.rpartition(":"),)
            if any(int(port) == at and names.covers(one, name) for one, at in reached)
        )

    def words(self) -> str:
        """Say what it may be used for, for people."""
        what = ", ".join((*self.methods, *(["git fetch"] if self.fetch else [])))
        where = f" below {', '.join(self.paths)}" if self.paths else ""
        branches = ", ".join(branch.removeprefix("refs/heads/") for branch in self.push)
        return f"`{self.id}` ({what}{where}{f'; push to {branches}' if branches else ''})"


def _place(text: str) -> str:
    match = _HOST.fullmatch(text)
    name = names.host_name(match[1]) if match is not None else None
    port = int(match[2] or DEFAULT_PORT) if match is not None else 0
    if name is None or not 0 < port <= names.MOST_PORT:
        raise ValueError(f"`{text}` is no host of a credential: write `NAME` or `NAME:PORT`")
    return f"{name}:{port}"
