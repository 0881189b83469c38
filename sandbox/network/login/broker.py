# SPDX-License-Identifier: Apache-2.0
"""Which hosts of one call get a credential: certificates, secrets and exchanges for them.

A secret is asked of the supervisor when a request needs it first, and stays in this memory.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sandbox.network.ends import Refused
from sandbox.network.login.uses import Secret, Use

if TYPE_CHECKING:  # a gateway without credentials is without their libraries
    from sandbox.network.login.exchange import FarSide, LoginExchange, Side

SECRET_SECONDS = 60.0
"""How long a request waits for its secret."""


class Broker:
    """Stands for the hosts that get a credential."""

    def __init__(
        self,
        uses: Iterable[Use],
        contexts: Mapping[str, ssl.SSLContext],
        far: ssl.SSLContext,
        make: Callable[..., LoginExchange],
        say: Callable[..., None],
    ) -> None:
        """`make` makes an exchange; `say` tells the supervisor what is wanted and used."""
        self._uses = tuple(uses)
        self._contexts = dict(contexts)
        self.far = far
        """How the true hosts are looked at."""
        self._make = make
        self._say = say
        self._secrets: dict[tuple[str, str], asyncio.Future[Secret]] = {}

    def knows(self, name: str, port: int) -> bool:
        """Whether a host gets a credential."""
        return any(f"{name}:{port}" in use.hosts for use in self._uses)

    def near(self, name: str) -> ssl.SSLContext:
        """Return how the gateway stands for a host."""
        return self._contexts[name]

    def exchange(
        self, place: tuple[str, int], near: Side, connect: Callable[[], Awaitable[FarSide]]
    ) -> LoginExchange:
        """Return what carries the requests of one connection."""
        name, port = place
        uses = [use for use in self._uses if f"{name}:{port}" in use.hosts]
        return self._make(
            place,
            uses,
            near,
            connect,
            lambda use: self._secret(use, f"{name}:{port}"),
            lambda used: self._say(used=used),
        )

    async def _secret(self, use: Use, name: str) -> Secret:
        key = (use.id, name)  # `name:port`
        if key not in self._secrets:
            self._secrets[key] = asyncio.get_running_loop().create_future()
            self._say(wants={"id": use.id, "host": name})
        try:
            async with asyncio.timeout(SECRET_SECONDS):
                return await asyncio.shield(self._secrets[key])
        except TimeoutError:
            raise Refused(f"the credential `{use.id}` cannot be read in time") from None

    def hear(self, told: Mapping[str, Any]) -> None:
        """Take a secret from the supervisor, or that there is none."""
        waiting = self._secrets.get((str(told["id"]), str(told["host"])))
        if waiting is None or waiting.done():
            return
        if told.get("problem"):
            waiting.set_exception(Refused(f"the credential `{told['id']}` cannot be read"))
        else:
            waiting.set_result(Secret(str(told["value"]), str(told["user"])))
