# SPDX-License-Identifier: Apache-2.0
"""The time zone of this host, by its name in the IANA database."""

from __future__ import annotations

import os
import re
import zoneinfo
from pathlib import Path

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}\Z")
_FOLDER = "/zoneinfo/"
_SAME_AS_NONE = frozenset(("UTC", "Etc/UTC", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Universal"))


def find_time_zone(local_time: Path = Path("/etc/localtime")) -> str | None:
    """Return the zone of this host, such as `Europe/Berlin`; None where it is UTC or has no name.

    `TZ` comes first, as in the C library (tzset(3)); then where `local_time` leads to.
    """
    named = os.environ.get("TZ")
    name = _read_link(local_time) if named is None else named.removeprefix(":")
    _, inside, rest = name.partition(_FOLDER)
    name = rest if inside else name
    if name in _SAME_AS_NONE or not _NAME.match(name):
        return None
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return name


def _read_link(path: Path) -> str:
    try:
        return str(path.resolve(strict=True))
    except (OSError, RuntimeError):
        return ""
