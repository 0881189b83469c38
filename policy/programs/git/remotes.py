# SPDX-License-Identifier: Apache-2.0
"""Which host a command of git asks that names a remote, or none, as the repository's settings say.

A person is shown that host, and their yes opens it. What is read here grants nothing by itself, so
settings that another reading could take for more than these simple lines are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from policy.hosts import of_address
from policy.shell.interpreter import Shell
from policy.values.partial import unknown

REMOTE = "git-remote"
"""The rule of what a remote is asked for, where its host is known."""
MOST_ABOVE = 8
"""Folders that are looked through for the repository, from where the command stands."""
_SECTION = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)(?:\s+\"([^\"\\]*)\")?\s*\]\s*")
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^\"\\#;]*?)\s*")
_ELSEWHERE = re.compile(r"insteadof|\[\s*include", re.IGNORECASE)
_USUAL = "origin"


def note_remote(shell: Shell, name: str, operands: Sequence[str]) -> bool:
    """Note the host that `git NAME OPERANDS` asks, if it can be known; return whether it is."""
    found = _address(shell, operands[0] if operands else "", push=name == "push")
    host = of_address(found) if found else None
    if host is None:
        return False
    shell.facts.hosts[host] = None
    return host[1] != 22  # a cell has no key, so that no yes would make that work


def _address(shell: Shell, remote: str, *, push: bool) -> str:
    if unknown(remote) or "/" in remote or ":" in remote or len(shell.state.places) != 1:
        return ""
    folder = shell.state.place
    for _ in range(MOST_ABOVE):
        if unknown(folder) or folder in ("", "/"):
            return ""
        path = f"{folder}/.git/config"
        seen = shell.disk.get(path)
        if seen is not None:
            return _named(seen.text or "", remote, push=push)
        shell.facts.wanted[path] = None
        folder = folder.rpartition("/")[0]
    return ""


def _named(text: str, remote: str, *, push: bool) -> str:
    """Return the one address of a remote; nothing where it has several, or none."""
    if _ELSEWHERE.search(text):
        return ""
    addresses: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (section := _SECTION.fullmatch(line)) is not None:
            named = section[1].lower() == "remote" and section[2] is not None
            current = addresses.setdefault(section[2], {}) if named else {}
        elif (key := _KEY.fullmatch(line)) is not None:
            current.setdefault(key[1].lower(), []).append(key[2])
    name = remote or (next(iter(addresses)) if len(addresses) == 1 else _USUAL)
    own = addresses.get(name, {})
    found = (own.get("pushurl") if push else None) or own.get("url") or []
    return found[0] if len(found) == 1 else ""
