# SPDX-License-Identifier: Apache-2.0
"""The page as a browser meets it, and a browser that does as it is told."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx2

from sandbox.approvals.pregrant import of_command
from sandbox.approvals.store.request import Request
from sandbox.page.links import new_link
from sandbox.workspaces.registry import Registry
from tests.fakes import WAIT_SECONDS
from tests.http_served import HttpServed

_WORD = re.compile(r'name="word" value="([^"]+)"')


@dataclass(frozen=True)
class PageClient:
    """A browser that was let in."""

    http: HttpServed
    client: httpx2.Client

    @property
    def word(self) -> str:
        """Return the word that the forms of this browser bear."""
        found = _WORD.search(self.client.get("/approvals").text)
        assert found is not None
        return found[1]

    def post(self, address: str, /, word: str | None = None, **fields: str) -> httpx2.Response:
        """Send a form as a page of the server does."""
        said = {"word": self.word if word is None else word, **fields}
        return self.client.post(address, data=said, headers={"origin": self.http.url})


def link_of(http: HttpServed) -> str:
    """Make a link, without the address of the server."""
    return new_link(http.dirs, int(http.url.rpartition(":")[2])).removeprefix(http.url)


def stranger(http: HttpServed) -> httpx2.Client:
    """Return a browser that was not let in."""
    return httpx2.Client(base_url=http.url, timeout=WAIT_SECONDS)


def let_in(http: HttpServed) -> PageClient:
    """Return a browser that opened a link."""
    client = stranger(http)
    assert client.get(link_of(http)).status_code == 303
    return PageClient(http, client)


def question(http: HttpServed, command: str) -> Request:
    """Put a question."""
    place = Registry(http.dirs).list()[0].path
    return of_command(
        http.dirs, [command], workspace=place, agent="main", role=None, cwd=None, here=None
    )
