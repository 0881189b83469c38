# SPDX-License-Identifier: Apache-2.0
"""Is a reflog, a FETCH_HEAD or a list for dumb servers such as git itself writes?

Each function returns why not, empty where it is. Git skips lines of a reflog that it cannot read,
and so would overlook what follows.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

import re

_OID = rb"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_LOGGED = re.compile(
    _OID + rb" " + _OID + rb" [^<>\n\0]*<[^<>\n\0]*> [0-9]{1,20} [+-][0-9]{4}(?:\t[^\n\0]*)?"
)
_FETCHED = re.compile(_OID + rb"\t(?:not-for-merge)?\t[^\n\0]*")
_SERVED = re.compile(_OID + rb"\trefs/[^\n\0]*|P pack-" + _OID + rb"\.pack|")


def odd_reflog(content: bytes, before: bytes | None) -> str:
    """Check a reflog; what stood in it before is not looked at again."""
    if before and content.startswith(before) and before.endswith(b"\n"):
        content = content[len(before) :]
    return _odd(content, _LOGGED, "a line of it is none that git writes to a reflog")


def odd_fetch_head(content: bytes) -> str:
    """Check what `git fetch` noted."""
    return _odd(content, _FETCHED, "a line of it is none that `git fetch` writes")


def odd_served(content: bytes) -> str:
    """Check `info/refs` or `objects/info/packs`, as git update-server-info writes them."""
    return _odd(content, _SERVED, "a line of it is none that git writes for servers")


def _odd(content: bytes, line: re.Pattern[bytes], why: str) -> str:
    if not content:
        return ""
    if not content.endswith(b"\n"):
        return "its last line does not end"
    fits = all(line.fullmatch(part) for part in content[:-1].split(b"\n"))
    return "" if fits else why
