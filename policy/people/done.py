# SPDX-License-Identifier: Apache-2.0
"""What a YELLOW action did, in the words of autonomy-levels.md ("Report Format"). Pure.

    say_done(category, tool, params, command, output) -> str       empty: no format fits

Everything is read off what the call was given and what it printed; it is told, and nothing is
decided by it. The caller masks and bounds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PUSHED = re.compile(
    r"(?m)^ [ +*] +(?:(?P<old>[0-9a-f]{7,40})\.{2,3}(?P<new>[0-9a-f]{7,40})|\[new (?:branch|tag)\])"
    r" +\S{1,200} -> (?P<to>\S{1,200})"
)
_COMMITTED = re.compile(
    r"(?m)^\[(?P<on>[^\]\n]{1,200}) (?P<id>[0-9a-f]{7,40})\] (?P<what>.{1,200})"
)
_PIP = re.compile(r"(?m)^Successfully installed (?P<all>.{1,4000})")
_VERSION = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-\s]*)")
_NPM_VERBS = frozenset(("install", "i", "add", "ci"))
_NPM = frozenset(("npm", "pnpm", "yarn", "bun"))
_MOST = 8
"""Packages that one report names."""
_TAIL = 20_000


def pushed(output: str) -> tuple[str, str, str] | None:
    """Return old and new commit (both empty for a new branch) and where `git push` put them."""
    match = _PUSHED.search(output[-_TAIL:])
    return None if match is None else (match["old"] or "", match["new"] or "", match["to"])


def say_done(
    category: str,
    tool: str,
    params: Mapping[str, Any],
    command: str | None,
    output: str,
    *,
    commits: int | None = None,
) -> str:
    """Return what was done, as the table of YELLOW actions writes it; nothing where no row fits.

    `commits`: how many a push took along, where that is known.
    """
    text = output[-_TAIL:]
    if command is not None:
        return _of_command(command, text, commits)
    match category:
        case "Sending Messages":
            to = _first(params, "to", "user", "recipient")
            channel = _first(params, "channel", "chat", "room")
            return f"Replied{f' to {to}' if to else ''} in {channel}" if channel else ""
        case "External API Calls":
            api = _first(params, "url", "api", "endpoint")
            return f"Called {api} with {', '.join(sorted(params))}" if api else ""
        case "Cron Scheduling":
            what = _first(params, "description", "name", "prompt", "command")
            at = _first(params, "time", "at", "schedule", "cron", "expression")
            return f"Scheduled: {what} at {at}" if what and at else ""
        case "Notifications":
            topic = _first(params, "topic", "title", "subject")
            return f"Notified you about {topic}" if topic else ""
    return ""


def _of_command(command: str, output: str, commits: int | None) -> str:
    if (push := pushed(output)) is not None and "push" in command:
        if not push[0]:
            return f"Pushed the new {push[2]}"
        count = "commits" if commits is None else f"{commits} commit{'' if commits == 1 else 's'}"
        return f"Pushed {count} to {push[2]}"
    if (made := _COMMITTED.search(output)) is not None and "commit" in command:
        return f"Committed {made['id']} on {made['on']}: {made['what']}"
    if (found := _PIP.search(output)) is not None:
        return f"Installed {_some([_at(part) for part in found['all'].split()])}"
    words = command.split()
    if (
        words
        and words[0] in _NPM
        and len(words) > 1
        and words[1] in _NPM_VERBS
        and "added " in output
    ):
        named = [word for word in words[2:] if not word.startswith("-")]
        return f"Installed {_some(named) or 'what the lock file names'}"
    return ""


def _at(installed: str) -> str:
    match = _VERSION.fullmatch(installed)
    return f"{match['name']}@{match['version']}" if match else installed


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _first(params: Mapping[str, Any], *names: str) -> str:
    return next((str(params[name]) for name in names if params.get(name)), "")
