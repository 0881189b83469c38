# SPDX-License-Identifier: Apache-2.0
"""The names that one call may reach, and the address of the cell's loopback that stands for each.

Pure. A name that a pattern covers gets one of the pattern's addresses when it is asked for first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from policy import hosts

PATTERN_NAMES = 16
"""Names that one pattern can stand for in one call."""
MOST_NAMES = 64
"""Names and patterns of one call."""
MOST_LISTENERS = 1000
"""Addresses with their ports, of one call."""
RESOLVER_PORT = 53
ASKED_NAMES = 16
"""Names without right of one call about which a person can be asked."""
ASKED_PORTS = (443, 80)
"""Where a connection to such a name is held while they are."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A name or pattern (`*` is one label), the ports of it, and where it may lead."""

    name: str
    ports: tuple[int, ...]
    private: tuple[int, ...] = ()
    """Those of the ports at which it may lead into a private network."""
    address: str = ""
    """Where it leads, whatever resolvers say; empty: where they say."""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Reach:
        """Return it out of what `as_json` made of it."""
        return cls(
            str(said["name"]),
            tuple(int(one) for one in said["ports"]),
            tuple(int(one) for one in said["private"]),
            str(said["address"]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "ports": list(self.ports),
            "private": list(self.private),
            "address": self.address,
        }

    def covers(self, name: str) -> bool:
        """Whether it is a name's, or a pattern that stands for it."""
        return hosts.covers(self.name, name)


class Book:
    """Gives each name its address. The same reaches give the same addresses, in every process.

    Names without right get one of the `spare` addresses where a person can be asked about them: on
    which nothing is carried before they said yes.
    """

    def __init__(
        self, reaches: Iterable[Reach], *, spare: int = 0, ports: tuple[int, ...] = ASKED_PORTS
    ) -> None:
        """`spare`: how many names without right there can be; `ports` are theirs."""
        self._reaches = tuple(reaches)
        self._ports = ports
        self._names: dict[str, str] = {}
        self._places: dict[str, tuple[str, Reach | None]] = {}
        self._free: dict[int, list[str]] = {}
        number = 0
        for at, reach in enumerate(self._reaches):
            count = PATTERN_NAMES if "*" in reach.name else 1
            self._free[at] = [_address(number + one) for one in range(count)]
            number += count
        self._spare = [_address(number + one) for one in range(spare)]
        self._without: dict[str, str] = {}

    def listeners(self) -> list[tuple[str, str, int]]:
        """Return what to listen on in the cell: (kind, address, port), the resolver first."""
        out = [("udp", "127.0.0.1", RESOLVER_PORT)]
        number = 0
        for reach in self._reaches:
            for _ in range(PATTERN_NAMES if "*" in reach.name else 1):
                out += [("tcp", _address(number), port) for port in reach.ports]
                number += 1
        out += [("tcp", address, port) for address in self._spare for port in self._ports]
        return out

    def address(self, name: str) -> str | None:
        """Return the address that stands for a name; None where the call has no right to it and
        nobody is asked about it, or the pattern has no address left."""
        known = self._names.get(name) or self._without.get(name)
        if known is not None:
            return known
        for at, reach in enumerate(self._reaches):
            if reach.covers(name):
                if "*" in reach.name and _carries(reach.name, name):
                    return None
                if not self._free[at]:
                    return None
                address = self._names[name] = self._free[at].pop(0)
                self._places[address] = name, reach
                return address
        if len(self._without) == len(self._spare) or not hosts.askable(name):
            return None
        address = self._without[name] = self._spare[len(self._without)]
        self._places[address] = name, None
        return address

    def behind(self, address: str) -> tuple[str, Reach | None] | None:
        """Return the name that an address stands for, once somebody asked for it, and where it may
        lead; None there: a person has to be asked."""
        return self._places.get(address)

    def without_right(self) -> tuple[str, ...]:
        """Return the names without right that somebody asked for and that got an address."""
        return tuple(self._without)


def merged(reaches: Iterable[Reach]) -> tuple[Reach, ...]:
    """Return reaches with each name once, with all its ports; of two addresses the first counts."""
    found: dict[str, Reach] = {}
    for one in reaches:
        old = found.get(one.name)
        if old is None:
            found[one.name] = one
        elif old.address == one.address:
            ports = tuple(dict.fromkeys((*old.ports, *one.ports)))
            private = tuple(dict.fromkeys((*old.private, *one.private)))
            found[one.name] = Reach(one.name, ports, private, old.address)
    return tuple(sorted(found.values(), key=lambda one: ("*" in one.name, one.name)))


def _carries(pattern: str, name: str) -> bool:
    """Whether the labels that a pattern leaves open could carry something out: whoever answers for
    them reads them."""
    open_labels = zip(pattern.split("."), name.split("."), strict=True)
    return any(one == "*" and hosts.looks_random(label) for one, label in open_labels)


def _address(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"
