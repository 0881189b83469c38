# SPDX-License-Identifier: Apache-2.0
"""The network of one call: the hosts of its rights, a cell of its own, and the gateway between.

INVARIANT (P4, alone): a call that may reach a host runs in a cell that nobody else uses, and the
gateway ends with its command: no other call, and nothing that it left behind, has its names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from policy.credentials import Credential
from policy.model import Network
from sandbox.cells.cell import Cell
from sandbox.cells.pool import CellPool
from sandbox.config.settings import NetworkSettings
from sandbox.containers.plan import HOME
from sandbox.errors import Unavailable
from sandbox.network import trust
from sandbox.network.book import Reach, merged
from sandbox.network.carrier import Limits
from sandbox.network.gateway import AskHost, Gateway, check_size
from sandbox.network.indexes import DEFAULTS, configured, place, variables
from sandbox.network.login.host_secrets import SecretReader
from sandbox.network.login.uses import Use
from sandbox.network.traffic import Traffic

Tell = Callable[[str, Traffic], Awaitable[None]]
MIB = 1 << 20
TIMES = 100
"""Connections altogether, for each that may be open at once."""
ASK_SECONDS = 60.0
MOST_ANSWER = 10_000
OVER = "traffic"
"""How a command ends that sent or received more than it may."""
SHOWN = 5
"""Refused names in a call's answer."""
_ASKING = {"HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Outlet:
    """The way out of one call."""

    def __init__(
        self,
        call: str,
        cell: Cell,
        variables: dict[str, str],
        indexes: frozenset[str],
        gateway: Gateway,
        tell: Tell,
    ) -> None:
        self.cell = cell
        """Where it leads out of."""
        self.variables = variables
        """What tells the programs there of indexes and certificates."""
        self.indexes = indexes
        """Package indexes that it leads to, as `scheme://host` or `scheme://host:port`: the host's
        own, or those of the image's clients."""
        self._call = call
        self._gateway = gateway
        self._tell: Tell | None = tell

    @property
    def traffic(self) -> Traffic:
        """What went through it."""
        return self._gateway.traffic

    async def end(self) -> None:
        """End every connection and name of it, and record what went through it; only once."""
        await self._gateway.end()
        tell, self._tell = self._tell, None
        if tell is not None:
            await tell(self._call, self.traffic)

    def notes(self, opener: Callable[[Sequence[str]], str]) -> list[str]:
        """Say what its call wanted and did not get; `opener` says what opens names for it."""
        traffic, out = self.traffic, []
        if traffic.lost:
            out.append(f"it lost its network: {traffic.lost}")
        if traffic.refused:
            names = ", ".join(f"`{one}`" for one in traffic.refused[:SHOWN])
            more = len(traffic.refused) - SHOWN
            names += f" and {more} more" if more > 0 else ""
            out.append(
                f"it asked for {names}, which it may not reach; {opener(traffic.refused[:SHOWN])}"
            )
        if traffic.over:
            out.append(f"it was ended: {traffic.over}")
        elif traffic.stopped:
            out.append(f"a connection led nowhere: {traffic.stopped}")
        return out


class Outlets:
    """Gives calls that may reach a host their cell and their gateway."""

    def __init__(self, settings: NetworkSettings, tell: Tell, secrets: SecretReader) -> None:
        """`tell` records what went through one, by the id of its call; `secrets` reads those of
        credentials."""
        self._settings = settings
        self._secrets = secrets
        self._tell = tell
        self._defaults: dict[tuple[str, str], tuple[str, ...]] = {}

    @contextlib.asynccontextmanager
    async def open(
        self,
        pool: CellPool,
        call: str,
        agent: str,
        workspaces: tuple[str, ...],
        network: Network,
        ask_host: AskHost | None = None,
    ) -> AsyncIterator[Outlet]:
        """Give a call a cell of its own with a gateway; `ask_host` asks a person about further
        hosts. Raises SandboxError."""
        certificates = await asyncio.to_thread(trust.certificates)
        home = {trust.FILE: certificates} if certificates else {}
        async with pool.apart(agent, workspaces, home) as cell:
            reaches, told, indexes = await self._reaches(cell, network)
            check_size(reaches)
            added = _added(network.credentials, reaches)
            if added and not certificates:
                raise Unavailable(
                    "the certificates that this host trusts are not in one file, so that no "
                    "credential can be used: name one by `SSL_CERT_FILE`"
                )
            gateway = Gateway(
                reaches,
                self._limits(),
                lambda: cell.end_running(OVER),
                [Use.of(credential.model_dump(mode="json")) for credential in added],
                lambda id, host: self._secrets.read(_by_id(added, id), host),
                ask_host,
            )
            if home:
                told |= dict.fromkeys(trust.VARIABLES, f"{HOME}/{trust.FILE}")
            outlet = Outlet(call, cell, told, indexes, gateway, self._tell)
            await gateway.start(await cell.sockets.listen(gateway.listeners), certificates)
            if gateway.certificate:
                cell.furnish({trust.FILE: f"{certificates}{gateway.certificate}"})
            try:
                yield outlet
            finally:
                await outlet.end()

    def _limits(self) -> Limits:
        network_settings = self._settings
        return Limits(
            open=network_settings.connections,
            total=network_settings.connections * TIMES,
            sent=network_settings.upload_mib * MIB,
            received=network_settings.download_mib * MIB,
        )

    async def _reaches(
        self, cell: Cell, network: Network
    ) -> tuple[tuple[Reach, ...], dict[str, str], frozenset[str]]:
        """Return what a call may reach, the variables that tell its programs of it, and what of it
        are package indexes."""
        found = [
            Reach(host.name, (host.port,), (host.port,) if host.private else (), host.address)
            for host in network.hosts
        ]
        told: dict[str, str] = {}
        indexes: set[str] = set()
        home = Path.home()
        for client in network.packages:
            index = await asyncio.to_thread(configured, client, os.environ, home)
            if index.problem:
                raise Unavailable(f"{index.problem}, so that a cell cannot install from it")
            # the client's own default is nobody's word here: it leads into no private network
            usual = () if index.main else await self._default(cell, client)
            own = (index.main, *index.more) if index.main else index.more
            places = [place(one, private=True) for one in own]
            places += [place(one, private=False) for one in usual]
            found += [one.reach for one in places if one is not None]
            indexes |= {one.origin for one in places if one is not None}
            told |= variables(client, index)
        return merged(found), told, frozenset(indexes)

    async def _default(self, cell: Cell, client: str) -> tuple[str, ...]:
        """Return where the client in the cell's image gets packages from, if nobody says."""
        key = (cell.spec.cell().image, client)
        if key not in self._defaults:
            answer = bytearray()

            def take(channel: int, data: bytes) -> None:
                if channel == 1 and len(answer) < MOST_ANSWER:
                    answer.extend(data)

            request = {"argv": list(DEFAULTS[client]), "cwd": "/", "env": _ASKING,
                       "exclusive": False}  # fmt: skip
            done = await cell.run(
                request, on_output=take, seconds=ASK_SECONDS, most_bytes=MOST_ANSWER
            )
            words = answer.decode("ascii", "replace").split()
            places = [found for word in words if (found := place(word, private=False)) is not None]
            if done.status != 0 or not places:
                raise Unavailable(
                    f"`{client}` in the cell's image does not say which index it uses; configure "
                    "one on this host"
                )
            self._defaults[key] = tuple(one.address for one in places)
        return self._defaults[key]


def _added(credentials: Sequence[Credential], reaches: Sequence[Reach]) -> tuple[Credential, ...]:
    """Return the credentials for what a call may reach, each with those of its hosts alone."""
    out = []
    for credential in credentials:
        hosts = tuple(
            host
            for host in credential.hosts
            for name, _, port in (host.rpartition(":"),)
            if any(reach.covers(name) and int(port) in reach.ports for reach in reaches)
        )
        if hosts:
            out.append(credential.model_copy(update={"hosts": hosts}))
    return tuple(out)


def _by_id(credentials: Sequence[Credential], id: str) -> Credential:
    return next(credential for credential in credentials if credential.id == id)
