# SPDX-License-Identifier: Apache-2.0
"""One request of a browser: asks entries of the table of resources, and shows what came of it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from policy.values.validation_text import first, worded
from sandbox.page.entrance import login_of
from sandbox.text.terminal import safe_line
from sandbox.web.app import checked_name
from sandbox.web.doorway import admitted
from sandbox.web.problems import HttpRefusal
from sandbox.web.resources import Resource, Site, Visit
from sandbox.web.table import RESOURCES

_BY_NAME: Mapping[str, Resource] = {resource.name: resource for resource in RESOURCES}
_DIGEST_CHARS = 16
CHANGED = "nothing was done: it is another by now than what you were shown; this is how it stands"

Fields = list[tuple[str, str]]
"""What a form bears, in its order."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a browser that was let in."""

    site: Site
    templates: Environment
    request: Request

    def named(self, what: str) -> str:
        """Return a name that stands in the address. Raises HttpRefusal."""
        return checked_name(what, str(self.request.path_params[what]))

    def given(self, *names: str) -> dict[str, str]:
        """Return those parameters of the address that are given and not empty."""
        parameters = self.request.query_params
        return {name: parameters[name] for name in names if parameters.get(name)}

    async def ask(
        self,
        name: str,
        *,
        named: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask an entry of the table, as far as whoever's process this is may ask it.

        INVARIANT (P8, "one table"): the same check as over HTTP, and no other way to a supervisor.
        What a person asks for is done to its end, even if the browser goes away.
        """
        resource = _BY_NAME[name]
        visitor = await admitted(resource, self.request.scope)
        try:
            asked = resource.query and resource.query.model_validate_strings(dict(query or {}))
            content = resource.body and resource.body.model_validate(dict(body or {}))
        except ValidationError as error:
            raise HttpRefusal(
                400, "BadInput", safe_line(worded(first(error))), "go back and correct it"
            ) from None
        visit = Visit(self.site, visitor, dict(named or {}), asked, content, {})
        return await asyncio.shield(asyncio.ensure_future(resource.handler(visit)))

    def show(self, template: str, **values: Any) -> Response:
        """Return a whole page."""
        return HTMLResponse(self._text(template, values))

    def show_live(self, name: str, **values: Any) -> Response:
        """Return a page, or the part of it that the browser renews while it stands.

        Where the part is what the browser has already, nothing is sent, so that nothing moves
        under a person's hands.
        """
        text = self._text(f"parts/{name}.html", values)
        digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
        parameters = self.request.query_params
        if parameters.get("part") == name and parameters.get("seen") == digest:
            return Response(status_code=204)
        rest = [pair for pair in parameters.multi_items() if pair[0] not in ("part", "seen")]
        address = f"{self.request.url.path}?{urlencode([*rest, ('part', name), ('seen', digest)])}"
        whole = {**values, "part": Markup(text), "renew": address, "part_name": name}  # noqa: S704
        if parameters.get("part") == name:
            return HTMLResponse(self._text("part.html", whole))
        return HTMLResponse(self._text(f"{name}.html", whole))

    def go(self, path: str, news: str = "") -> Response:
        """Send the browser on, and tell what became of what it asked for."""
        if news:
            login_of(self.request).news.append(news)
        return RedirectResponse(path, 303)

    def _text(self, template: str, values: Mapping[str, Any]) -> str:
        login = login_of(self.request)
        made = self.templates.get_template(template)
        news = () if template.startswith("part") else login.news
        text = made.render(
            word=login.form_word, news=tuple(news), path=self.request.url.path, **values
        )
        if news:
            login.news.clear()
        return text


def shown_digest(value: Any) -> str:
    """Return what tells whether a thing is still what a person was shown."""
    return hashlib.sha256(repr(value).encode("utf-8", "backslashreplace")).hexdigest()
