# SPDX-License-Identifier: Apache-2.0
"""A browser for tests: one for a whole module, logged in to the page of a real Lockgate."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.http_served import HttpServed
from tests.page_served import link_of
from tests.sandbox.shells import ROOT, Shell

PICTURES = ROOT / "docs" / "pictures"
WIDE = {"width": 1100, "height": 760}
PHONE = {"width": 390, "height": 844}
_WAIT_MS = 60_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Browsing:
    """A browser that is logged in, and what it met."""

    shell: Shell
    http: HttpServed
    browser: Browser
    state: Any = None
    elsewhere: list[str] = field(default_factory=list)
    """Requests to another place than the page's own."""
    errors: list[str] = field(default_factory=list)
    """What went wrong in a page: scripts, answers of a broken server, what its policy forbids."""

    @contextmanager
    def page(self, path: str = "/", **options: Any) -> Iterator[Page]:
        """Open a page in a window of its own."""
        context = self.browser.new_context(
            base_url=self.http.url, storage_state=self.state, **{"viewport": WIDE, **options}
        )
        context.set_default_timeout(_WAIT_MS)
        try:
            page = context.new_page()
            page.on("request", self._note)
            page.on("pageerror", lambda error: self.errors.append(str(error)))
            page.on("dialog", lambda dialog: self.errors.append(f"a dialog: {dialog.message}"))
            page.on(
                "console",
                lambda said: self.errors.append(said.text) if said.type == "error" else None,
            )
            page.on("response", self._note_failure)
            page.goto(path if self.state is not None else link_of(self.http))
            yield page
        finally:
            if self.state is None:
                self.state = context.storage_state()
            context.close()

    def _note_failure(self, response: Any) -> None:
        if response.status >= 500:
            self.errors.append(f"{response.status} {response.url}")

    def _note(self, request: Any) -> None:
        if not request.url.startswith(f"{self.http.url}/"):
            self.elsewhere.append(request.url)


def chromium() -> str:
    """Return the browser of this host; without one the test fails where it must run."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    missing = "there is no Chromium; `apt-get install chromium` installs it"
    if os.environ.get("LOCKGATE_TESTS_MUST_RUN") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


@contextmanager
def browsing(shell: Shell, http: HttpServed) -> Iterator[Browsing]:
    """Start a browser and log it in."""
    path = chromium()
    expect.set_options(timeout=_WAIT_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path)
        made = Browsing(shell, http, browser)
        with made.page():
            pass
        try:
            yield made
        finally:
            browser.close()


def picture(page: Page, name: str) -> None:
    """Keep a picture for the documents, where that is asked for (`make pictures`)."""
    if os.environ.get("LOCKGATE_PICTURES") == "1":
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=Path(PICTURES) / f"{name}.png")
