# SPDX-License-Identifier: Apache-2.0
"""Names of hosts, and patterns of them, in which `*` stands for one label. Pure.

A number in any notation is no name: an address is reached under a name that a person gives it.
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.){{0,30}}[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
_OWN = frozenset(("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"))
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,20})://(?:[^/?#@\s\\]*@)?"
    r"(?P<host>[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?(?:[/?#][^\s\\]*)?",
    re.IGNORECASE,
)
_SECURE_COPY = re.compile(
    r"(?:[\w.-]{1,64}@)(?P<host>[a-z0-9._-]{1,253}):(?!/?/)\S*", re.IGNORECASE
)
PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "git+ssh": 22, "ssh+git": 22}
"""By the scheme of an address."""
MOST_PORT = 65_535
_WRITTEN = re.compile(r"\bhttps?://[^\s'\"`<>()\[\]{},;\\|]{1,2000}", re.IGNORECASE)
MOST_WRITTEN = 16
"""Hosts of one program text."""


def host_name(text: str) -> str | None:
    """Return a host's name in its plain spelling; None for what is none, or is this very host."""
    name = text.lower().removesuffix(".")
    if len(name) > 253 or _NAME.fullmatch(name) is None:
        return None
    return None if name in _OWN or name.endswith(".localhost") else name


def host_pattern(text: str) -> str | None:
    """Return a name or a pattern in its plain spelling; None for what is neither.

    The last two labels are always said.
    """
    labels = text.lower().removesuffix(".").split(".")
    if "*" in labels[-2:]:
        return None
    stand = ".".join("x" if label == "*" else label for label in labels)
    return ".".join(labels) if host_name(stand) == stand else None


def covers(pattern: str, name: str) -> bool:
    """Whether a pattern stands for a name."""
    own, other = pattern.split("."), name.split(".")
    return len(own) == len(other) and all(
        one == label or (one == "*" and label) for one, label in zip(own, other, strict=True)
    )


def looks_random(label: str) -> bool:
    """Whether a label could carry something out in itself: it is long, or has a long run of signs
    that no word has."""
    runs = [len(part) for part in re.split(r"[-_]", label)]
    digits = sum(one.isdigit() for one in label)
    return len(label) > MOST_LABEL or max(runs) > MOST_RUN or (digits > MOST_DIGITS)


_NOWHERE = frozenset(
    ("alt", "arpa", "internal", "invalid", "lan", "local", "localhost", "onion", "test")
)
"""Last labels of names that no resolver of the outside has an address for."""
MOST_ASKED = 100
"""Characters of a name that a person is asked about: they must see all of it."""


def askable(name: str) -> bool:
    """Whether a person can be asked whether a call may reach a name: it is one in its plain
    spelling that could lead outside, and carries nothing out by itself."""
    labels = name.split(".")
    return (
        host_name(name) == name
        and len(labels) > 1
        and len(name) <= MOST_ASKED
        and labels[-1] not in _NOWHERE
        and not any(map(looks_random, labels))
    )


MOST_LABEL = 40
"""Characters of a label that `*` stands for."""
MOST_RUN = 20
"""... without a `-` or `_`."""
MOST_DIGITS = 10
"""... that are digits."""


def common(one: str, other: str) -> str | None:
    """Return the pattern of what two patterns both stand for; None where there is nothing."""
    labels = list(zip(one.split("."), other.split("."), strict=False))
    if one.count(".") != other.count(".") or any(
        left != right and "*" not in (left, right) for left, right in labels
    ):
        return None
    return ".".join(right if left == "*" else left for left, right in labels)


def of_address(text: str, otherwise: str = "") -> tuple[str, int] | None:
    """Return name and port of an address (`https://NAME:PORT/...`, `USER@NAME:PATH`).

    `otherwise` is the scheme of what names none. None where it has no name that can be read.
    """
    found = _URL.fullmatch(text) or (_URL.fullmatch(f"{otherwise}://{text}") if otherwise else None)
    if found is not None:
        port = int(found["port"]) if found["port"] else PORTS.get(found["scheme"].lower(), 0)
    elif (found := _SECURE_COPY.fullmatch(text)) is not None:
        port = PORTS["ssh"]
    else:
        return None
    name = host_name(found["host"])
    return (name, port) if name is not None and "." in name and 0 < port <= MOST_PORT else None


def written_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the names and ports of the addresses (`https://NAME/...`) that a text spells out."""
    found: dict[tuple[str, int], None] = {}
    for match in _WRITTEN.finditer(text):
        host = of_address(match[0])
        if host is not None and host not in found:
            found[host] = None
            if len(found) == MOST_WRITTEN:
                break
    return tuple(found)
