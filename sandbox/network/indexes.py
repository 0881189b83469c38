# SPDX-License-Identifier: Apache-2.0
"""Which package indexes the clients of this host are configured for: a person's settings alone.

Read from the user's and the machine's files and variables, never from a workspace, and no program
of the host is started for it. Where they say nothing, the client in the cell's image says what its
own default is (`DEFAULTS`). No password goes into a cell: what stands in an address is left out.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from policy.hosts import host_name
from sandbox.network.book import Reach

MOST_BYTES = 1 << 20
DEFAULTS = {
    "pip": ("python3", "-I", "-c", "from pip._internal.models.index import PyPI as index\n"
            "print(index.simple_url, 'https://' + index.file_storage_domain)"),
    "npm": ("npm", "config", "get", "registry", "--no-workspaces"),
}  # fmt: skip
"""Prints a client's own index, and where that keeps files, separated by blanks."""
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?:[^/?#@\s]*@)?(?P<host>[A-Za-z0-9._-]{1,253})(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/[\x21-\x7e]*)?"
)
_VALUE = re.compile(r"\s*([^=;#\s]+)\s*=\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Index:
    """Where a client gets packages from."""

    main: str = ""
    """Its address, without a password; empty: the client's own default."""
    more: tuple[str, ...] = ()
    """Further ones."""
    problem: str = ""
    """Why a cell cannot use what the host is configured for; then nothing else counts."""


class Place(NamedTuple):
    """One address of an index."""

    address: str
    reach: Reach

    @property
    def origin(self) -> str:
        """Its scheme, host and port, as far as the address names one."""
        return "/".join(self.address.split("/", 3)[:3])


def place(address: str, *, private: bool) -> Place | None:
    """Return an index's address without its password, and the host that it needs; None where it
    has no name (a folder, a number, this host itself).

    `private`: a person's settings name it, so that it may lead into a network of theirs.
    """
    match = _ADDRESS.fullmatch(address.strip())
    name = host_name(match["host"]) if match is not None else None
    if match is None or name is None:
        return None
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else {"http": 80, "https": 443}[scheme]
    if not 0 < port < 65_536:
        return None
    where = f":{match['port']}" if match["port"] else ""
    return Place(
        f"{scheme}://{name}{where}{match['path'] or '/'}",
        Reach(name, (port,), (port,) if private else ()),
    )


def configured(client: str, given: Mapping[str, str], home: Path) -> Index:
    """Return the indexes that the host's own files and variables name for a client."""
    try:
        main, more = _READERS[client](given, home)
    except _Beyond as error:
        return Index(problem=f"this host's settings of `{client}` {error}")
    first = place(main, private=True) if main else None
    if main and first is None:  # another index in its place could hold another package
        return Index(problem=f"this host's index for `{client}` has no host's name in its address")
    places = [found for one in more if (found := place(one, private=True)) is not None]
    return Index(
        first.address if first is not None else "",
        tuple(dict.fromkeys(one.address for one in places)),
    )


def variables(client: str, index: Index) -> dict[str, str]:
    """Return the variables that tell a client in a cell of its indexes."""
    main, more = (
        ("npm_config_registry", "") if client == "npm" else ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
    )
    said = {main: index.main, more: " ".join(index.more)}
    return {name: value for name, value in said.items() if name and value}


class _Beyond(Exception):
    """Settings say something of indexes that a cell cannot be told."""


def _pip(given: Mapping[str, str], home: Path) -> tuple[str, list[str]]:
    config = Path(given.get("XDG_CONFIG_HOME") or home / ".config")
    machine = [Path(part) / "pip/pip.conf" for part in
               (given.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if part]  # fmt: skip
    files = [*machine, Path("/etc/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    if own := given.get("PIP_CONFIG_FILE"):
        files = [] if own == os.devnull else [*files, Path(own)]
    values: dict[str, str] = {}
    for path in files:
        for section in ("global", "install"):
            values.update(_ini(path, section))
    apart = {"no-index": given.get("PIP_NO_INDEX"), "find-links": given.get("PIP_FIND_LINKS")}
    for key, said in apart.items():
        if said or values.get(key):
            raise _Beyond(f"say `{key}`, which a cell cannot heed")
    main = given.get("PIP_INDEX_URL") or values.get("index-url", "")
    more = given.get("PIP_EXTRA_INDEX_URL") or values.get("extra-index-url", "")
    return main, more.split()


def _npm(given: Mapping[str, str], home: Path) -> tuple[str, list[str]]:
    folded = {name.lower(): value for name, value in given.items()}
    if said := folded.get("npm_config_registry"):
        return said, []
    own = folded.get("npm_config_userconfig")
    machine = folded.get("npm_config_globalconfig")
    registry = ""
    for path in (Path(own) if own else home / ".npmrc", Path(machine or "/etc/npmrc"),
                 Path("/usr/local/etc/npmrc"), Path("/usr/etc/npmrc")):  # fmt: skip
        for line in _text(path).splitlines():
            match = _VALUE.fullmatch(line)
            if match is None or not match[2]:
                continue
            if match[1] == "registry":
                registry = registry or match[2].strip("\"'")
            elif match[1].startswith("@") and match[1].endswith(":registry"):
                raise _Beyond(f"give `{match[1].partition(':')[0]}` a registry of its own")
    return registry, []


_READERS: dict[str, Callable[[Mapping[str, str], Path], tuple[str, list[str]]]] = {
    "pip": _pip,
    "npm": _npm,
}


def _ini(path: Path, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_text(path))
        found = parser.items(section) if parser.has_section(section) else []
    except configparser.Error:
        raise _Beyond(f"in `{path}` cannot be read") from None
    return {name.replace("_", "-"): value for name, value in found}


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return ""
