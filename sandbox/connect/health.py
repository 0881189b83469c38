# SPDX-License-Identifier: Apache-2.0
"""How the connected agents stand: is it written, trusted, does it work, did it ever fire."""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.connect import changes as changing
from sandbox.connect import json_edit as jsontext
from sandbox.connect import selftest
from sandbox.connect.agents import Mode, is_ours, wanted
from sandbox.connect.edits import JsonFile, Places, Wanted
from sandbox.connect.records import Connection, Connections
from sandbox.connect.selftest import Found
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.text.terminal import safe_line


def tried(agent: str, mode: Mode, places: Places, folder: Path) -> list[Found]:
    """Try a connection in a workspace: what is written, then both canaries."""
    want = wanted(agent, mode, places)
    try:
        missing = changing.stands(agent, want)
    except SandboxError as error:
        return [Found(ok=False, what=str(error))]
    if missing:
        names = ", ".join(safe_line(str(path)) for path in missing)
        return [Found(ok=False, what=f"entries are missing in {names}; connect again")]
    if off := switched_off(agent, want):
        return [Found(ok=False, what=off)]
    found = selftest.mcp(want, folder) if mode is Mode.MCP else []
    if mode is Mode.HOOKS or agent == "cursor":  # there, hooks judge the editor's own tools
        found += selftest.hooks(agent, want, folder)
    return found


def standing(dirs: Dirs, program: tuple[str, ...], folder: Path | None) -> Iterator[
    tuple[str, str, str, str]
]:  # fmt: skip
    """Yield (name, `ok`, `warn` or `fail`, detail, what to do) for each connection.

    `folder` is a workspace in which connections of the user are tried.
    """
    known = Connections(dirs)
    for connection in known.all():
        name = f"agent {connection.agent}"
        where = "yours" if connection.project is None else safe_line(str(connection.project))
        again = f"`lockgate connect {connection.agent}{'' if connection.project else ' --user'}`"
        place = connection.project or folder
        if place is None or not place.is_dir():
            fix = f"{again[:-1]} --remove`"
            yield name, "warn", f"{where}: there is no folder to try it in", fix
            continue
        home = Path("~").expanduser()
        places = Places(home, connection.project, program, dict(os.environ))
        found = tried(connection.agent, connection.mode, places, place)
        bad = next((step for step in found if not step.ok), None)
        if bad is not None:
            yield name, "fail", f"{where}: {bad.what}", again
            continue
        yield name, *_quiet(known, connection, places, where)


def _quiet(
    known: Connections, connection: Connection, places: Places, where: str
) -> tuple[str, str, str]:
    """Return what there is to say of a connection that works when it is called."""
    if connection.mode is Mode.MCP:
        return "ok", f"{where}: {connection.mode.value}, works", ""
    want = wanted(connection.agent, connection.mode, places)
    if connection.agent == "codex" and (untrusted := untrusted_hooks(want, places)):
        events = ", ".join(untrusted)
        detail = f"{where}: Codex skips its hooks, since they are not trusted: {events}"
        return "warn", detail, "in Codex, open `/hooks` and trust them"
    fired = known.fired(connection.agent)
    if fired is None or fired < connection.at:
        detail = f"{where}: works when called, but {connection.agent} has not called it yet"
        return "warn", detail, f"start {connection.agent} once; is the folder trusted in it?"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fired))
    return "ok", f"{where}: {connection.mode.value}, works; last called {when}", ""


def switched_off(agent: str, want: Wanted) -> str:
    """Return why an agent skips its hooks or the server as its own settings stand; empty: no."""
    for file in want.files:
        try:
            if not isinstance(file, JsonFile) or not file.path.exists():
                continue
            said = jsontext.parse(file.path.read_text("utf-8")).value
        except (OSError, ValueError):
            continue
        if not isinstance(said, Mapping):
            continue
        if agent in changing.PLAIN_JSON and (plain := _not_plain(file.path)):
            return plain
        for key in ("disableAllHooks", "allowManagedHooksOnly"):
            if agent == "claude-code" and said.get(key) is True:
                return f"`{key}` in {safe_line(str(file.path))} makes it skip hooks"
        config = said.get("hooksConfig")
        if agent == "gemini" and isinstance(config, Mapping):
            off = config.get("disabled")
            if config.get("enabled") is False or (isinstance(off, list) and "lockgate" in off):
                return f"`hooksConfig` in {safe_line(str(file.path))} makes it skip hooks"
    return ""


def _not_plain(path: Path) -> str:
    """Return why Claude Code takes no notice of a file that other agents would read; empty: no."""
    try:
        why = changing.not_plain(path.read_bytes())
    except OSError as error:
        why = str(error)
    said = f"{safe_line(str(path))} is skipped by Claude Code, which reads no comments: {why}"
    return said if why else ""


def untrusted_hooks(want: Wanted, places: Places) -> list[str]:
    """Return the events at which Codex skips our hook, since no trust in it is on record."""
    moved = places.environment.get("CODEX_HOME", "")
    folder = Path(moved) if moved.startswith("/") else places.home / ".codex"
    try:
        states = tomllib.loads((folder / "config.toml").read_text("utf-8"))["hooks"]["state"]
    except (OSError, ValueError, KeyError, TypeError):
        states = {}
    found = []
    for file in want.files:
        if isinstance(file, JsonFile):
            said = jsontext.parse(file.path.read_text("utf-8")).value
            for key, event in _keys(file.path, said):
                state = states.get(key) if isinstance(states, Mapping) else None
                given = state if isinstance(state, Mapping) else {}
                if not given.get("trusted_hash") or given.get("enabled") is False:
                    found.append(event)
    return found


def _keys(path: Path, said: Any) -> Iterator[tuple[str, str]]:
    """Yield the names under which Codex keeps its trust in our handlers, with their events."""
    hooks = said.get("hooks") if isinstance(said, Mapping) else None
    for event, groups in hooks.items() if isinstance(hooks, Mapping) else ():
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event).lower()
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, Mapping) else None
            for index, one in enumerate(inner if isinstance(inner, list) else ()):
                if is_ours("codex", one):
                    yield f"{path}:{snake}:{number}:{index}", event
