# SPDX-License-Identifier: Apache-2.0
"""Channels to people outside a terminal: a command that gets JSON on stdin, or a webhook.

A user's own settings name them (`channels`), since a channel runs a program or sends data away; no
workspace's file can. What cannot be delivered is said in the record; nothing else depends on it.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from policy.values.strict_yaml import line_of, parse
from sandbox.config.channels import Channel


def unknown(text: str, name: str, known: Collection[str]) -> Iterator[str]:
    """Say of each escalation channel that a valid policy file names, and that the settings do not
    have, where it stands: nobody would be told over it."""
    data = parse(text, name)
    for above in ((), ("levels",)):
        users: Any = data
        for key in (*above, "users"):
            users = users.get(key) if isinstance(users, Mapping) else None
        for who, said in users.items() if isinstance(users, Mapping) else ():
            channel = said.get("escalation_channel") if isinstance(said, Mapping) else None
            if isinstance(channel, str) and channel and channel not in known:
                line = line_of(text, (*above, "users", who, "escalation_channel"))
                yield f"{name}:{line}: there is no channel `{channel}`, so nobody is told over it"


async def deliver(channel: Channel, message: Mapping[str, Any]) -> str | None:
    """Send a message; return what went wrong, or None."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace")
    if channel.command:
        return await _run(channel, data)
    return await asyncio.to_thread(_post, channel, data)


async def _run(channel: Channel, data: bytes) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            *channel.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return f"`{channel.command[0]}`: {error.strerror}"
    try:
        async with asyncio.timeout(channel.seconds):
            _, err = await process.communicate(data + b"\n")
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"`{channel.command[0]}` took longer than {channel.seconds:.0f} s"
    if process.returncode == 0:
        return None
    last = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
    return f"`{channel.command[0]}` ended with {process.returncode}: {last[0]}"[:300]


def _post(channel: Channel, data: bytes) -> str | None:
    assert channel.url is not None
    request = urllib.request.Request(  # noqa: S310  (the pattern allows http and https alone)
        channel.url, data, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=channel.seconds):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        return f"the webhook answered {error.code}"
    except (OSError, ValueError) as error:
        return f"the webhook cannot be reached: {getattr(error, 'reason', error)}"
