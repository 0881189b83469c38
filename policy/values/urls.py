# SPDX-License-Identifier: Apache-2.0
"""Whether an address is one of the public web ("read public web pages", safety-guardrails.md).

Pure: no name is resolved. It is for an agent's own fetching tool, which no cell holds back.
"""

from __future__ import annotations

import ipaddress
import re
from enum import Enum

_PRIVATE_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "test")
_METADATA = frozenset(("169.254.169.254", "fd00:ec2::254", "metadata.google.internal",
                       "metadata.goog", "100.100.100.200", "169.254.170.2"))  # fmt: skip
_ADDRESS = re.compile(
    r"https?://(?:\[(?P<six>[^\[\]/?#@\s\\]+)\]|(?P<host>[^\[\]/?#@:\s\\]+))(?::[0-9]*)?"
    r"(?:[/?#][^\s\\]*)?",
    re.IGNORECASE,
)
_KNOWN = (
    *("github.com", "githubusercontent.com", "gitlab.com", "bitbucket.org", "codeberg.org"),
    *("pypi.org", "python.org", "readthedocs.org", "npmjs.com", "nodejs.org"),
    *("crates.io", "docs.rs", "rust-lang.org", "go.dev", "golang.org", "rubygems.org"),
    *("packagist.org", "maven.org", "nuget.org", "mozilla.org", "w3.org", "ietf.org"),
    *("rfc-editor.org", "wikipedia.org", "stackoverflow.com", "stackexchange.com"),
    *("microsoft.com", "kernel.org", "debian.org", "ubuntu.com", "archlinux.org"),
    *("postgresql.org", "sqlite.org", "djangoproject.com", "react.dev", "arxiv.org"),
)
"""Where programmers read, and where nobody sees what others ask for."""
MOST_QUERY = 80
"""Characters of a query that a page is asked for with."""
MOST_WORD = 32
"""Letters and digits in a row, as no page's name has them."""
MOST_PATH = 400
_WORD = re.compile(rf"[A-Za-z0-9+_=%-]{{{MOST_WORD + 1},}}")
_MIXED = (re.compile(r"[0-9]"), re.compile(r"[A-Za-z]"))
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE)


class Web(str, Enum):
    """What an address is."""

    PUBLIC = "a public page"
    PRIVATE = "not a public page"
    METADATA = "an address that hands out credentials"
    FILE = "a file"
    UNKNOWN = "an address that cannot be read"


def web(address: str) -> Web:
    """Return what an address is."""
    plain = address.strip()
    if plain[:5].casefold() == "file:":
        return Web.FILE
    match = _ADDRESS.fullmatch(plain)
    if match is None:  # a password, a backslash, a blank: programs differ in what they take it for
        return Web.UNKNOWN
    host = (match["six"] or match["host"]).rstrip(".").casefold()
    number = _number(host)
    if host in _METADATA or (number is not None and str(number) in _METADATA):
        return Web.METADATA
    if number is not None:
        mapped = getattr(number, "ipv4_mapped", None)
        if mapped is not None and str(mapped) in _METADATA:
            return Web.METADATA
        return Web.PUBLIC if (mapped or number).is_global else Web.PRIVATE
    if match["six"] or "." not in host or host.rsplit(".", 1)[-1] in _PRIVATE_NAMES:
        return Web.PRIVATE
    return Web.PUBLIC


def carries_data(address: str) -> bool:
    """Whether an address could tell its host more than which page is wanted.

    That is a long query, a long path, or a long word of letters and digits in a row anywhere in it;
    never of a host where programmers read.
    """
    match = _ADDRESS.fullmatch(address.strip())
    if match is None or match["host"] is None:
        return False
    host = match["host"].rstrip(".").casefold()
    if any(host == one or host.endswith("." + one) for one in _KNOWN):
        return False
    rest = address.strip()[match.end("host") :]
    path, _, query = rest.partition("?")
    return (
        len(query) > MOST_QUERY
        or len(path) > MOST_PATH
        or any(_is_data(word) for word in _WORD.findall(f"{host} {rest}"))
    )


def _is_data(word: str) -> bool:
    """Whether a long word is none that people write: letters with digits, without words in it."""
    if any(pattern.search(word) is None for pattern in _MIXED):
        return False
    return max(len(part) for part in word.replace("_", "-").split("-")) > MOST_WORD // 2


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host spells as a number, in any form that programs take."""
    try:
        return ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        pass
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        values = [int(part, _base(part)) if part.casefold() != "0x" else 0 for part in parts]
    except ValueError:
        return None
    whole = 0
    for value in values[:-1]:
        whole = whole * 256 + min(value, 255)
    whole = whole * 256 ** (5 - len(values)) + values[-1]
    return ipaddress.IPv4Address(whole) if whole < 2**32 else None


def _base(digits: str) -> int:
    if digits[:2] in ("0x", "0X"):
        return 16
    return 8 if len(digits) > 1 and digits[0] == "0" else 10
