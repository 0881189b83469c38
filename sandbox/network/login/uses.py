# SPDX-License-Identifier: Apache-2.0
"""What a credential may be added to: which requests, and which branches of a push. Pure.

INVARIANT (P4, credentials): only a request whose path cannot be read in two ways gets a secret, and
a push goes nowhere until every branch in it was compared.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from sandbox.network.login.spellings import joined

MOST_COMMANDS = 1 << 18
"""Bytes of a push before its pack: what it would change."""
MOST_NAME = 100
"""Characters of a branch's name in what is said of it."""
_FETCHES, _PUSHES = "git-upload-pack", "git-receive-pack"
_ENCODED_PLAIN = re.compile(r"%(?:2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aAeE])")
"""A percent sign before what needs none: letters, digits, `-`, `.`, `_`, `~`."""
_COMMAND = re.compile(rb"[0-9a-f]{40,64} [0-9a-f]{40,64} (refs/[^\x00-\x20\x7f]+)")


@dataclass(frozen=True, slots=True)
class Use:
    """A credential as a gateway knows it: without its secret."""

    id: str
    hosts: tuple[str, ...]
    """As `name:port`."""
    form: str
    header: str
    methods: tuple[str, ...]
    paths: tuple[str, ...]
    push: tuple[str, ...]
    """Patterns of whole names (`refs/heads/agent/*`)."""
    fetch: bool = False
    """Whether it is for what `git fetch` posts."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Use:
        """Return it out of what `as_json` made of it, or a policy's credential as plain data."""
        lists = {
            name: tuple(map(str, said[name])) for name in ("hosts", "methods", "paths", "push")
        }
        form, header = str(said["form"]), str(said["header"])
        return cls(str(said["id"]), form=form, header=header, fetch=said["fetch"] is True, **lists)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, and whose it is; a gateway's memory alone holds it, for one call."""

    value: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request, as far as it says which credential it gets."""

    method: str
    target: str
    kind: str = ""
    """Its `Content-Type`."""

    @property
    def pushes(self) -> bool:
        """Whether a server might take it for a part of `git push`."""
        told = unquote_to_bytes(unquote_to_bytes(self.target)).lower()
        return _PUSHES.encode() in told or _PUSHES in self.kind.lower()

    @property
    def path(self) -> str:
        """Its path; empty where a server could read it in another way."""
        path = self.target.partition("?")[0]
        told = unquote_to_bytes(path)
        if _ENCODED_PLAIN.search(path) or re.search(rb"[%\\;\x00-\x1f\x7f-\xff]", told):
            return ""
        first, *segments = told.split(b"/")
        if first or any(segment in (b".", b"..") for segment in segments) or b"" in segments[:-1]:
            return ""
        return path


def chosen(uses: Iterable[Use], asked: RequestLine) -> Use | None:
    """Return the first credential that is for a request; None where none is."""
    path = asked.path
    return next((use for use in uses if path and _covers(use, asked, path)), None)


def _covers(use: Use, asked: RequestLine, path: str) -> bool:
    if use.paths and not any(f"{path}/".startswith(prefix) for prefix in use.paths):
        return False
    query = asked.target.partition("?")[2]
    if asked.pushes:
        return bool(use.push) and _is_of_git(_PUSHES, asked, path, query)
    return asked.method in use.methods or (use.fetch and _is_of_git(_FETCHES, asked, path, query))


def _is_of_git(service: str, asked: RequestLine, path: str, query: str) -> bool:
    """Whether a request is one of the two that a fetch or push over HTTP consists of."""
    if asked.method == "GET":
        return path.endswith("/info/refs") and query == f"service={service}"
    posted = asked.kind.lower() == f"application/x-{service}-request"
    return asked.method == "POST" and path.endswith(f"/{service}") and posted and not query


def header_of(use: Use, secret: Secret) -> tuple[bytes, bytes]:
    """Return the header that shows a secret to its host."""
    if use.form == "basic":
        return b"Authorization", b"Basic " + joined(secret.user, secret.value)
    if use.form == "bearer":
        return b"Authorization", b"Bearer " + secret.value.encode()
    return use.header.encode(), secret.value.encode()


class BadPush(ValueError):
    """A push that may not go on; the text says why."""


class PushReader:
    """Reads what a push would change, from the beginning of its body."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._left = b""
        self._read = 0

    def feed(self, data: bytes) -> bool:
        """Take more of the body; return whether all that it would change is known, and may be
        changed. Raises BadPush."""
        self._left += data
        while len(self._left) >= 4:
            if re.fullmatch(rb"[0-9a-fA-F]{4}", self._left[:4]) is None:
                raise BadPush("what it would change cannot be read")
            length = int(self._left[:4], 16)
            if length == 0:
                return True
            if length < 5:
                raise BadPush("what it would change cannot be read")
            if len(self._left) < length:
                break
            self._take(self._left[4:length])
            self._left = self._left[length:]
            self._read += length
        if self._read + len(self._left) > MOST_COMMANDS:
            raise BadPush("it would change more than can be looked at")
        return False

    def _take(self, line: bytes) -> None:
        line = line.removesuffix(b"\n")
        if re.fullmatch(rb"shallow [0-9a-f]{40,64}", line):
            return
        match = _COMMAND.fullmatch(line.partition(b"\0")[0])
        if match is None:  # a signed push among them
            raise BadPush("what it would change cannot be read")
        name = match[1].decode("utf-8", "replace")
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns):
            shown = name if len(name) <= MOST_NAME else f"{name[:MOST_NAME]}..."
            raise BadPush(f"it would change `{shown}`, for which the credential is not")
