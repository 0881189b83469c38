# SPDX-License-Identifier: Apache-2.0
"""The text of a configuration file with Lockgate's entries, and without them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.connect import json_edit as jsontext
from sandbox.connect import toml_edit as tomltext
from sandbox.connect.agents import is_ours
from sandbox.connect.edits import Append, File, JsonFile, OwnFile, Put, TomlFile


class BadFile(ValueError):
    """A file that cannot be edited; the message says why and where."""


@dataclass(frozen=True, slots=True)
class Added:
    """What was put into a file, so that just that can be taken out."""

    edits: tuple[Put | Append, ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    """Objects and lists that were not there before; they go when they are empty again."""


def with_ours(agent: str, file: File, text: str) -> tuple[str, Added]:
    """Return the text with Lockgate's entries, and what of them was not there.

    Raises BadFile.
    """
    try:
        match file:
            case OwnFile():
                return file.text, Added()
            case TomlFile():
                return _toml(file, text), Added()
            case JsonFile():
                return _json(agent, file.edits, text)
    except (jsontext.BadJson, tomltext.BadToml) as error:
        raise BadFile(str(error)) from None


def without_ours(agent: str, file: File, text: str, added: Added | None) -> str | None:
    """Return the text without Lockgate's entries; None: the file goes as a whole.

    `added` is what was put in; without it, what can only be Lockgate's. Raises BadFile.
    """
    try:
        match file:
            case OwnFile():
                return None if text == file.text else text
            case TomlFile():
                return tomltext.without(text)
            case JsonFile():
                return _json_without(agent, added or _recognised(agent, file, text), text)
    except (jsontext.BadJson, tomltext.BadToml) as error:
        raise BadFile(str(error)) from None


def _toml(file: TomlFile, text: str) -> str:
    return tomltext.with_values(text, file.values)


def _json(agent: str, edits: Sequence[Put | Append], text: str) -> tuple[str, Added]:
    made: list[tuple[str, ...]] = []
    done: list[Put | Append] = []
    for edit in edits:
        node = jsontext.find(text, edit.path)
        if isinstance(edit, Put):
            if node is not None and (node.value == edit.value or edit.path == ("version",)):
                continue
            if node is not None:  # ours were taken out before: it is a person's
                name = ".".join(edit.path)
                raise BadFile(f"`{name}` is there already; take it out, then connect again")
        elif node is not None and isinstance(node.value, list) and edit.value in node.value:
            continue
        depth = len(edit.path) + isinstance(edit, Append)
        for length in range(1, depth):
            path = edit.path[:length]
            if jsontext.find(text, path) is None and path not in made:
                made.append(path)
        put = jsontext.put if isinstance(edit, Put) else jsontext.append
        text = put(text, edit.path, edit.value)
        done.append(edit)
    jsontext.parse(text)
    return text, Added(tuple(done), tuple(made))


def _json_without(agent: str, added: Added, text: str) -> str:
    for edit in added.edits:
        if isinstance(edit, Put):
            node = jsontext.find(text, edit.path)
            if node is not None and (edit.path[-1] != "version" or node.value == edit.value):
                text = jsontext.cut(text, edit.path)
        else:
            text = _taken(agent, edit, text)
    for path in sorted(added.made, key=len, reverse=True):
        node = jsontext.find(text, path)
        if node is not None and node.value in ({}, []):
            text = jsontext.cut(text, path)
    return text


def _taken(agent: str, edit: Append, text: str) -> str:
    """Return the text without one item of a list, also where a person changed it a little."""
    node = jsontext.find(text, edit.path)
    items = node.value if node is not None and isinstance(node.value, list) else []
    for index in reversed(range(len(items))):
        item = items[index]
        if item == edit.value or is_ours(agent, item):
            text = jsontext.cut(text, edit.path, index)
        elif isinstance(item, Mapping) and isinstance(item.get("hooks"), list):
            ours = [is_ours(agent, one) for one in item["hooks"]]
            if ours and all(ours):
                text = jsontext.cut(text, edit.path, index)
            elif any(ours):
                text = _cut_inner(text, edit.path, index, ours)
    return text


def _cut_inner(text: str, path: Sequence[str], index: int, ours: Sequence[bool]) -> str:
    node = jsontext.find(text, path)
    assert node is not None
    group = node.parts[index][2]
    part = text[group.start : group.end]
    for at in reversed(range(len(ours))):
        if ours[at]:
            part = jsontext.cut(part, ("hooks",), at)
    return text[: group.start] + part + text[group.end :]


def _recognised(agent: str, file: JsonFile, text: str) -> Added:
    """Return the edits that can be told from a person's own without a record of them."""
    edits = [
        edit
        for edit in file.edits
        if (isinstance(edit, Put) and _is_our_server(jsontext.find(text, edit.path)))
        or (isinstance(edit, Append) and (edit.path[0] == "hooks" or "lockgate" in str(edit.value)))
    ]
    made = tuple(
        edit.path
        for edit in edits
        if isinstance(edit, Append)
        and edit.path[0] == "hooks"
        and (node := jsontext.find(text, edit.path)) is not None
        and node.value != []  # an empty list was not left by us, who never write one
    )
    return Added(tuple(edits), made)


def _is_our_server(node: jsontext.Node | None) -> bool:
    """Whether an entry starts this server, from wherever: another path of it is ours, too."""
    if node is None or not isinstance(node.value, Mapping):
        return False
    given = node.value.get("args")
    words = [str(node.value.get("command")), *map(str, given if isinstance(given, list) else ())]
    return bool(
        re.search(r"(?:^|/)lockgate mcp(?: |$)|sandbox\.cli\.entry mcp(?: |$)", " ".join(words))
    )


def entries_in(agent: str, event: str, said: Any) -> list[Mapping[str, Any]]:
    """Return Lockgate's handlers for an event in an agent's configuration, each with its
    `matcher` where the group around it has one."""
    groups = said.get("hooks", {}).get(event, []) if isinstance(said, Mapping) else []
    found: list[Mapping[str, Any]] = []
    for group in groups if isinstance(groups, list) else []:
        if is_ours(agent, group):
            found.append(group)
        elif isinstance(group, Mapping):
            inner = group.get("hooks")
            for one in inner if isinstance(inner, list) else []:
                if is_ours(agent, one):
                    found.append({**one, "matcher": group.get("matcher")})
    return found
