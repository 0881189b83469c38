# SPDX-License-Identifier: Apache-2.0
"""Browsers that were let in: kept in the server's memory alone, so they end with it.

INVARIANT (P8, "a form of ours"): what a form asks for counts only with the word that was put into
the forms of the same browser.
"""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sandbox.web.tokens import digest_of, new_secret

IDLE_SECONDS = 12 * 3600.0
"""A browser that asks for nothing for so long is let in no more."""
MOST_LOGINS = 32
"""Browsers that are let in at once; the one that has been quiet longest makes room."""


@dataclass(slots=True)
class Login:
    """One browser that was let in."""

    form_word: str
    """What its forms bear."""
    until: float
    news: list[str] = field(default_factory=list)
    """What became of what it asked for, until it is shown."""

    def is_form_word(self, said: str) -> bool:
        """Whether a form bears what forms of this browser bear."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self.form_word.encode())


class Logins:
    """The browsers of one server; of their cookies only digests are kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Login] = OrderedDict()

    def begin(self) -> str:
        """Let a browser in and return its cookie."""
        cookie = new_secret()
        self._known[digest_of(cookie)] = Login(new_secret(), self._clock() + IDLE_SECONDS)
        if len(self._known) > MOST_LOGINS:
            self._known.popitem(last=False)
        return cookie

    def find(self, cookie: str | None) -> Login | None:
        """Return the browser with that cookie, if it is let in."""
        if cookie is None:
            return None
        name = digest_of(cookie)
        found = self._known.get(name)
        if found is None:
            return None
        now = self._clock()
        if now >= found.until:
            del self._known[name]
            return None
        found.until = now + IDLE_SECONDS
        self._known.move_to_end(name)
        return found

    def end(self, cookie: str | None) -> None:
        """Let a browser in no more."""
        if cookie is not None:
            self._known.pop(digest_of(cookie), None)
