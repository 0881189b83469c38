# SPDX-License-Identifier: Apache-2.0
"""The token that a person's programs bear over HTTP: shown once, of which only a digest is kept.

INVARIANT (P8, "a token is not a person"): it says that whoever bears it was told it; whether that
is an agent's process is asked all the same (`visitors`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path

from sandbox.errors import BadInput
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs

_TOKEN_BYTES = 32
MOST_WRONG = 10
"""Wrong tokens of one process within `WINDOW_SECONDS`; then it is not listened to for as long."""
WINDOW_SECONDS = 60.0
_MOST_KNOWN = 1000
"""Processes of which wrong tokens are remembered."""


def token_digest(dirs: Dirs) -> Path:
    """Return the file that holds the digest of the token."""
    return dirs.state / "http.token"


def new_token(dirs: Dirs) -> str:
    """Make a token in place of an earlier one and return it: it is kept nowhere."""
    made = new_secret()
    own_files.write(token_digest(dirs), digest_of(made.encode()) + "\n")
    return made


def bears_token(dirs: Dirs, said: bytes) -> bool:
    """Whether a text is the token. Raises BadInput where others can read or write its digest."""
    path = token_digest(dirs)
    try:
        with own_files.opened(path) as file:
            if Path(path).stat().st_mode & 0o077:
                raise BadInput(f"`{path}` can be read by others; `lockgate serve --new-token`")
            kept = file.read(200).strip()
    except OSError:
        kept = b""
    return hmac.compare_digest(digest_of(said).encode(), kept or b"-")


def new_secret() -> str:
    """Return a text that nobody guesses, fit for addresses and cookies."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(secret: bytes | str) -> str:
    """Return that of a secret which is kept: it tells the secret from any other, and not what it
    is."""
    data = secret if isinstance(secret, bytes) else secret.encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest()


class WrongTries:
    """Counts wrong tokens by process, so that guessing ends and nobody else is locked out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def wait(self, who: Hashable) -> float:
        """Return for how many seconds a process is not listened to; 0: it is."""
        since, count = self._known.get(who, (0.0, 0))
        left = since + WINDOW_SECONDS - self._clock()
        return left if count >= MOST_WRONG and left > 0 else 0.0

    def note(self, who: Hashable) -> None:
        """Note a wrong token."""
        now = self._clock()
        since, count = self._known.pop(who, (now, 0))
        if now - since > WINDOW_SECONDS:
            since, count = now, 0
        self._known[who] = (since, count + 1)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
