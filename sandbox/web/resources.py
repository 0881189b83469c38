# SPDX-License-Identifier: Apache-2.0
"""What stands behind an address: its method, what it takes, who may ask, what comes back.

The table itself is `table`; the application and the OpenAPI document are made from it. What a
supervisor is asked for comes from the table of operations (`of_operation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from sandbox.audit.store import Store
from sandbox.client.async_client import Client
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.operations.requests import May, Request
from sandbox.web.problems import HttpRefusal, missing
from sandbox.web.visitors import Visitor

if TYPE_CHECKING:
    from sandbox.web.feed import Feed

NAME = r"[A-Za-z0-9_.:-]{1,128}"
"""What stands for a name in an address."""


class Taken(BaseModel):
    """What a resource takes; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Site:
    """What the resources of one server share."""

    dirs: Dirs
    feed: Feed


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, read and let in."""

    site: Site
    visitor: Visitor
    named: Mapping[str, str]
    """The names in its address."""
    query: Any
    body: Any
    headers: Mapping[str, str]

    @property
    def dirs(self) -> Dirs:
        """Return the folders of the Lockgate that is asked."""
        return self.site.dirs


Handler = Callable[[Visit], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Resource:
    """One method of one address."""

    method: str
    path: str
    name: str
    """What it is called in the OpenAPI document."""
    summary: str
    handler: Handler
    answer: Any = None
    """The type of what comes back; None: nothing does."""
    may: May = May.ANYBODY
    deed: str = ""
    """What it is, for whoever may not do it."""
    as_caller: bool = False
    """It is done in the name of whoever asks, so that must be known."""
    query: type[Taken] | None = None
    body: type[Taken] | None = None
    ends_with_client: bool = False
    """Whether it is cancelled when the client goes away."""
    streams: bool = False
    """Whether it answers with events."""

    @property
    def asks_whose(self) -> bool:
        """Whether it is not for anybody to ask for."""
        return self.as_caller or self.may is not May.ANYBODY

    def check(self, visitor: Visitor) -> None:
        """Raise HttpRefusal where the visitor may not ask for it.

        INVARIANT (P8, "what a person decides"): only a process that belongs to no agent, and bears
        the token. What an agent may do with its own calls, the supervisor knows.
        """
        if self.asks_whose and not visitor.known:
            raise nobodys(visitor)
        if self.may is not May.PERSON:
            return
        deed = self.deed or self.summary
        if not visitor.is_person:
            assert visitor.agent is not None  # it is known
            raise HttpRefusal(
                403, "PersonsDecision",
                f"{deed} is a person's decision; this is agent `{visitor.agent.id}`",
                "a person does it at a terminal, or from a program of theirs",
            )  # fmt: skip
        if not visitor.token:
            raise HttpRefusal(
                403, "PersonsDecision", f"{deed} is a person's decision and needs the token",
                "send `Authorization: Bearer TOKEN`; `lockgate serve` showed it",
            )  # fmt: skip


def nobodys(visitor: Visitor) -> HttpRefusal:
    """Return the refusal of one whose process is not known."""
    if visitor.unseen:
        return HttpRefusal(
            403, "NobodysProcess",
            f"{visitor.unseen} does not show which connections it holds; this may be one of them",
            "end that process, or decide at a terminal",
        )  # fmt: skip
    return HttpRefusal(
        403, "NobodysProcess", "the process that asks is not known, or is an agent's",
        "ask from a process of yours that goes on until it has the answer",
    )  # fmt: skip


def of_operation(
    method: str,
    path: str,
    kind: Callable[..., Request[Any]],
    answer: Any,
    *,
    may: May | None = None,
    needs: Sequence[str] = (),
) -> Resource:
    """Return the resource that an entry of the table of operations is.

    The names in the address and the fields of the body (or query) are the fields of the request;
    `needs` are those that must be given here, though not everywhere.
    """
    request = cast(Any, kind)
    own: May = may or request.may
    at = [each.name for each in fields(request) if f"{{{each.name}}}" in path]
    taken = _taken(request, [each for each in fields(request) if each.name not in at], needs)
    name = "".join(part.capitalize() for part in str(request.op).split("-"))
    summary = str(request.__doc__).split("\n")[0].rstrip(".")

    async def ask(visit: Visit) -> Any:
        if "call" in visit.named:
            await asyncio.to_thread(known_call, visit.dirs, visit.named["call"])
        given = visit.query if method == "GET" else visit.body
        said = given.model_dump(exclude_unset=True) if given is not None else {}
        async with Client(visit.dirs) as client:
            made = request(**visit.named, **said)
            return await client.request(made, speaks_for=visit.visitor.speaks_for)

    where: dict[str, Any] = {"query" if method == "GET" else "body": taken} if taken else {}
    return Resource(
        method, path, name, summary, ask, answer, may=own, deed=str(request.deed), **where
    )


def known_call(dirs: Dirs, call: str) -> None:
    """Raise HttpRefusal where no call has this very id: nobody decides about a beginning of one."""
    try:
        found = Store(dirs).call(call).id
    except BadInput:
        found = ""
    if found != call:
        raise missing(f"call `{call}`")


MOST_COUNT = 65_535
"""The highest number that a field of a request may have: a port, or how many calls."""
_TYPES: Mapping[str, Any] = {
    "str": str,
    "str | None": str | None,
    "Sequence[str]": tuple[str, ...],
    "Mapping[str, str]": dict[str, str],
    "int": Annotated[int, Field(ge=1, le=MOST_COUNT)],
    "int | None": Annotated[int, Field(ge=1, le=MOST_COUNT)] | None,
    "float | None": float | None,
    "bool": bool,
}
"""What a field of a request is in JSON, by its type."""


def _taken(request: Any, some: Sequence[Any], needs: Sequence[str]) -> type[Taken] | None:
    if not some:
        return None
    given: dict[str, Any] = {}
    for each in some:
        default = ... if each.default is MISSING and each.default_factory is MISSING else (
            each.default if each.default is not MISSING else each.default_factory()
        )  # fmt: skip
        kind = str(each.type)
        if each.name in needs:
            kind, default = kind.removesuffix(" | None"), ...
        given[each.name] = (_TYPES[kind], default)
    return create_model(
        f"{request.__name__.removesuffix('Request')}Fields", __base__=Taken, **given
    )
