# SPDX-License-Identifier: Apache-2.0
"""The HTTP door in a thread, and a client of it."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from sandbox.host.dirs import Dirs
from sandbox.page.pages import page_application
from sandbox.web.serving import serve_http
from sandbox.web.tokens import new_token
from tests.fakes import WAIT_SECONDS


@dataclass(frozen=True)
class HttpServed:
    """What is served, and where."""

    dirs: Dirs
    url: str
    token: str

    def over_loopback(self, **headers: str) -> httpx2.Client:
        """Return a client over loopback that bears the token."""
        said = {"authorization": f"Bearer {self.token}", **headers}
        return httpx2.Client(base_url=self.url, headers=said, timeout=WAIT_SECONDS)

    def on_socket(self, *, token: bool = True) -> httpx2.Client:
        """Return a client on the socket."""
        said = {"authorization": f"Bearer {self.token}"} if token else {}
        way = httpx2.HTTPTransport(uds=str(self.dirs.web_socket))
        return httpx2.Client(
            base_url="http://lockgate", headers=said, transport=way, timeout=WAIT_SECONDS
        )

    def ask(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        """Make one request over loopback, with the token."""
        with self.over_loopback() as client:
            return client.request(method, path, json=json)


@contextmanager
def http_served(dirs: Dirs) -> Iterator[HttpServed]:
    """Serve HTTP while the block runs."""
    dirs.create()
    token = new_token(dirs)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def serve() -> None:
        task = asyncio.ensure_future(serve_http(dirs, port=0, say=said.put, page=page_application))
        tasks.append((asyncio.get_running_loop(), task))
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        said.get(timeout=WAIT_SECONDS)
        url = re.search(r"http://[\d.:]+", said.get(timeout=WAIT_SECONDS))
        assert url is not None
        yield HttpServed(dirs, url[0], token)
    finally:
        for loop, task in tasks:
            loop.call_soon_threadsafe(task.cancel)
        thread.join(WAIT_SECONDS)
