# SPDX-License-Identifier: Apache-2.0
"""Change a TOML text by blocks of lines between marks, without touching anything else. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

BEGIN = "# >>> lockgate >>> written by `lockgate connect`; `--remove` takes it away"
END = "# <<< lockgate <<<"
_LINE = rf"(?!{re.escape(BEGIN)}).*\n"  # a block without an end takes no other one along
_BLOCK = re.compile(
    rf"(?:(?<=\n)\r?\n)?^{re.escape(BEGIN)}\r?\n"
    rf"(?P<body>(?:{_LINE})*?){re.escape(END)}(?:\r?\n|\Z)",
    re.M,
)
_TOKEN = re.compile(
    r"""\#[^\n]*
    | (?P<long> "{3}(?:\\.|[^\\])*?"{3,5} | '{3}.*?'{3,5})
    | "(?:\\.|[^"\\\n])*" | '[^'\n]*'""",
    re.S | re.X,
)


class BadToml(ValueError):
    """The text is no TOML, or what is to be written cannot be added; the message says where."""


def read(text: str) -> dict[str, Any]:
    """Return what a text says. Raises BadToml."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)[:1].lower() + str(error)[1:]) from None


def without(text: str) -> str:
    """Return the text without our blocks, and without the empty line before each.

    Marks in a text of several lines are a person's. Raises BadToml for marks around what cannot be
    ours, such as items of a list.
    """
    kept, at = "", 0
    for match in _BLOCK.finditer(_plain(text)):
        try:
            tomllib.loads(text[match.start("body") : match.end("body")])
        except tomllib.TOMLDecodeError:
            line = text.count("\n", 0, match.start("body"))
            raise BadToml(f"line {line}: what stands between these marks is not ours") from None
        kept, at = kept + text[at : match.start()], match.end()
    return kept + text[at:]


def _plain(text: str) -> str:
    """Return a text of the same length, with nothing but lines in its strings of several lines."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\r\n]", "_", found[0]) if found["long"] else found[0]

    return _TOKEN.sub(blank, text)


def with_values(text: str, values: Mapping[tuple[str, ...], Mapping[str, Any]]) -> str:
    """Return the text with keys added to tables; blocks of ours that are there are replaced.

    `values` maps a table's path to its keys. Raises BadToml where a key is there already with
    another value, or a table is written in a way that nothing can be added to.
    """
    text = without(text)
    said = read(text)
    tail: list[str] = []
    for path, keys in values.items():
        table = _at(said, path)
        new = _missing(path, table or {}, keys)
        if not new:
            continue
        lines = [f"{key} = {_dumped(value)}" for key, value in new.items()]
        if table is None:
            tail += [f"[{'.'.join(map(_key, path))}]", *lines]
        else:
            text = _under(text, path, lines)
    if tail:
        text = _closed(text)
        text += ("\n" if text else "") + _block(tail)
    wanted = read(text)
    for path, keys in values.items():
        if any((_at(wanted, path) or {}).get(key) != value for key, value in keys.items()):
            raise BadToml(f"`{'.'.join(path)}` cannot be added to; write it as a table")
    return text


def _missing(
    path: Sequence[str], table: Mapping[str, Any], keys: Mapping[str, Any]
) -> dict[str, Any]:
    for key, value in keys.items():
        if key in table and table[key] != value:
            name = ".".join((*path, key))
            raise BadToml(f"`{name}` is {table[key]!r} already; take it out, then connect again")
    return {key: value for key, value in keys.items() if key not in table}


def _under(text: str, path: Sequence[str], lines: list[str]) -> str:
    """Return the text with lines put right below the header of a table."""
    if not path:  # keys of no table must stand before the first one
        return _block(lines) + text
    words = r"\s*\.\s*".join(rf"(?:{re.escape(p)}|\"{re.escape(p)}\")" for p in path)
    header = re.compile(rf"^[ \t]*\[[ \t]*{words}[ \t]*\][ \t]*(?:#.*)?(?:\r?\n|\Z)", re.M)
    plain = _plain(text)
    match = header.search(plain)
    if match is not None:
        head = _closed(text[: match.end()])
        return head + _block(lines) + text[match.end() :]
    dotted = re.compile(rf"^[ \t]*{words}[ \t]*\.", re.M).search(plain)
    if dotted is not None and len(path) == 1:
        named = [f"{_key(path[0])}.{line}" for line in lines]
        return text[: dotted.start()] + _block(named) + text[dotted.start() :]
    raise BadToml(f"`{'.'.join(path)}` cannot be added to; write it as a table")


def _block(lines: Sequence[str]) -> str:
    return "\n".join((BEGIN, *lines, END)) + "\n"


def _closed(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _at(said: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any] | None:
    node: Any = said
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _dumped(name)


def _dumped(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(_character(one) for one in value) + '"'
    return "[" + ", ".join(_dumped(one) for one in value) + "]"


def _character(one: str) -> str:
    if one in '"\\':
        return "\\" + one
    return one if one.isprintable() else f"\\u{ord(one):04x}"
