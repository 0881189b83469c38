# SPDX-License-Identifier: Apache-2.0
"""Read files of settings into pairs of a key and a value, or refuse them as odd. Pure.

    settings(text, form) -> [(("install", "registry"), "https://…"), …]

A key is a tuple of names; each place in a list is `[]`. What programs may read in several ways is
odd: keys said twice, texts that are no UTF-8, control characters, anchors, escapes in keys, deep
nesting. Whoever compares two texts holds what is odd.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any
from xml.parsers import expat

import yaml

from policy.protected.printable import briefly

Key = tuple[str, ...]
Pair = tuple[Key, str]
MOST_CHARACTERS = 256 * 1024
"""Characters of one text that are read."""
MOST_DEPTH = 24
"""Mappings and lists within each other."""
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\ud800-\udfff]"
    "|\r(?!\n)"
)
"""What does not show, or ends a line for some readers alone (YAML 1.1, `str.splitlines`)."""
_CODING = re.compile(r"coding[ \t]{0,9}[:=][ \t]{0,9}([\w.-]+)", re.IGNORECASE)
_UTF_8 = frozenset(("utf-8", "utf8", "utf_8", "ascii", "us-ascii"))
_INI_KEY = re.compile(r"[A-Za-z0-9@_.:/\[\]+-]+")
_CFG_LINE = re.compile(r"([A-Za-z0-9_.*-]+)[ \t]*[=:][ \t]*(.*)")
_PROPERTY = re.compile(r"([A-Za-z0-9_.*-]+)[ \t]*[=:]?[ \t]*(.*)")
_ENCODING = re.compile(r"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']*)""")
_QUOTES = ("'", '"')
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.@/+-]+")


class Form(str, Enum):
    """How a file of settings is written."""

    JSON = "json"
    JSONC = "jsonc"
    """JSON with comments and trailing commas."""
    TOML = "toml"
    YAML = "yaml"
    XML = "xml"
    """Elements within each other; document types and entities are odd."""
    INI = "ini"
    """`key = value`, sections, comments behind `#` or `;` (npm's form)."""
    CFG = "cfg"
    """Python's configparser: sections, values over several lines, which are lists."""
    PROPERTIES = "properties"
    """Java's, keys parted at their dots; escapes in keys and lines that go on are odd."""
    WORDS = "words"
    """`key value` on each line."""
    LINES = "lines"
    """Each line that is no comment is a value of the key `line`."""
    ADDRESSES = "addresses"
    """The places that a file of any form names, condensed to one a line before it comes here (the
    keeper does it: such files are long). The places are the keys."""


class Odd(Exception):
    """A text cannot be read, or not in one way only; the message says why."""


def settings(text: str, form: Form) -> list[Pair]:
    """Return what a text sets. Raises Odd."""
    check_text(text)
    read = _READERS.get(form)
    if read is not None:
        return list(read(text))
    return list(flat(data(text, form)))


def check_text(text: str) -> None:
    """Raise Odd for a text that is too long, no UTF-8, or holds what does not show."""
    if len(text) > MOST_CHARACTERS:
        raise Odd("it is too long to be read")
    if _CONTROL.search(text):
        raise Odd("it holds control characters, or is not UTF-8")


def _check_coding(text: str) -> None:
    """Raise Odd for a comment by which pip and Ruby read the rest in another encoding (PEP 263)."""
    for line in text.split("\n", 2)[:2]:
        if any(name.lower() not in _UTF_8 for name in _CODING.findall(line)):
            raise Odd("it says that it is not UTF-8")


def data(text: str, form: Form) -> Any:
    """Return the data of a JSON, TOML or YAML text. Raises Odd."""
    try:
        if form is Form.TOML:
            return tomllib.loads(text)
        if form is Form.YAML:
            return _yaml(text)
        return json.loads(
            uncommented(text) if form is Form.JSONC else text,
            object_pairs_hook=_once,
            parse_constant=_no_number,
        )
    except (ValueError, yaml.YAMLError) as error:
        raise Odd(f"it cannot be read as {form.value}: {_line(error)}") from None
    except RecursionError:
        raise Odd("it nests too deeply") from None


def _line(error: Exception) -> str:
    return briefly((str(error).splitlines() or ["no text"])[0])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Odd("it says a key twice")
    return found


def _no_number(text: str) -> Any:
    raise Odd(f"`{text}` is no number of JSON's")


def flat(found: Any) -> Iterator[Pair]:
    """Give the leaves of nested data. Raises Odd where it nests too deeply."""
    waiting: list[tuple[Key, Any]] = [((), found)]
    while waiting:
        key, one = waiting.pop()
        if len(key) > MOST_DEPTH:
            raise Odd("it nests too deeply")
        if isinstance(one, dict) and one:
            waiting += [((*key, str(name)), held) for name, held in one.items()]
        elif isinstance(one, list) and one:
            waiting += [((*key, "[]"), held) for held in one]
        elif one not in ({}, []) or key:
            yield key, one if isinstance(one, str) else _word(one)


def _word(one: Any) -> str:
    if isinstance(one, bool):
        return "true" if one else "false"
    return "" if one is None or one in ({}, []) else str(one)


def uncommented(text: str) -> str:
    """Return JSON without comments and trailing commas; strings stay. Linear."""
    out: list[str] = []
    comma = -1
    at = 0
    while at < len(text):
        char = text[at]
        if char == '"':
            end = at + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            out.append(text[at : end + 1])
            at, comma = end + 1, -1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise Odd("a comment does not end")
            at = end + 2
        else:
            if char == ",":
                comma = len(out)
            elif char in "]}" and comma >= 0:
                out[comma] = ""
                comma = -1
            elif not char.isspace():
                comma = -1
            out.append(char)
            at += 1
    return "".join(out)


def _yaml(text: str) -> Any:
    """Build the data of a YAML text from its events, since the parser recurses over what it holds.

    All scalars are texts, as they are written. Anchors, tags, merges and second documents are odd.
    """
    top: list[Any] = []
    waiting: list[tuple[Any, list[str]]] = [(top, [])]
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Odd("it refers to parts of itself")
        if getattr(event, "tag", None):
            raise Odd("it holds a tag")
        if isinstance(event, yaml.DocumentStartEvent) and top:
            raise Odd("it holds a second document")
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            waiting.pop()
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            made: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            _put(waiting[-1], made)
            waiting.append((made, []))
            if len(waiting) > MOST_DEPTH:
                raise Odd("it nests too deeply")
        elif isinstance(event, yaml.ScalarEvent):
            ends = (event.start_mark, event.end_mark)
            if event.style in _QUOTES and len({mark and mark.line for mark in ends}) > 1:
                raise Odd("a text in quotes goes over several lines")  # keys, for simple readers
            _put(waiting[-1], event.value)
    return top[0] if top else {}


def _put(into: tuple[Any, list[str]], one: Any) -> None:
    holder, key = into
    if isinstance(holder, list):
        holder.append(one)
    elif not key:
        if not isinstance(one, str) or one == "<<" or one in holder:
            raise Odd("a key is no text, merges, or is said twice")
        key.append(one)
    else:
        holder[key.pop()] = one


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.strip(" \t"):
            yield line.strip(" \t")


def _ini(text: str) -> Iterator[Pair]:
    section: Key = ()
    seen: set[Key] = set()
    for line in _lines(text):
        if line[0] in "#;":
            continue
        if line[0] == "[":
            if line[-1] != "]" or not _INI_KEY.fullmatch(line[1:-1].strip()):
                raise Odd("a section's name cannot be read")
            section = (line[1:-1].strip(),)
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        key = (*section, name)
        if not _INI_KEY.fullmatch(name) or (key in seen and not name.endswith("[]")):
            raise Odd("a key cannot be read, or is said twice")
        seen.add(key)
        if any(sign in value for sign in ("\\", ";", "#", '"', "'", "`")):
            value = f"?{value}"  # readers differ about quotes and comments: no value that is known
        yield key, value if equals else "true"


def _cfg(text: str) -> Iterator[Pair]:
    """Sections and keys are parted at their dots; each line of a longer value is a place of it."""
    section: Key = ()
    key: Key | None = None
    seen: set[Key] = set()
    for whole in text.replace("\r\n", "\n").split("\n"):
        line = whole.strip(" \t")
        if not line or line[0] in "#;":
            continue
        if whole[0] in " \t":
            if key is None:
                raise Odd("a line goes on that did not begin")
            yield (*key, "[]"), line
            continue
        if line[0] == "[":
            if line[-1] != "]" or not _INI_KEY.fullmatch(line[1:-1]):
                raise Odd("a section's name cannot be read")
            section, key = tuple(line[1:-1].split(".")), None
            continue
        match = _CFG_LINE.fullmatch(line)
        if match is None or not section or (*section, match[1].lower()) in seen:
            raise Odd("a key cannot be read, or is said twice")
        key = (*section, match[1].lower())
        seen.add(key)
        yield (*key, "[]") if match[2] else key, match[2]


def _properties(text: str) -> Iterator[Pair]:
    seen: set[str] = set()
    for line in _lines(text):
        if line[0] in "#!":
            continue
        if line.endswith("\\"):
            raise Odd("a line goes on in the next one")
        match = _PROPERTY.fullmatch(line)
        if match is None or match[1] in seen:
            raise Odd("a key cannot be read, or is said twice")
        seen.add(match[1])
        yield tuple(match[1].split(".")), match[2].replace("\\:", ":").replace("\\=", "=")


def _words(text: str) -> Iterator[Pair]:
    seen: set[str] = set()
    for line in _lines(text):
        if line[0] == "#":
            continue
        name, _, value = line.partition(" ")
        if not _PLAIN_KEY.fullmatch(name) or name in seen:
            raise Odd("a key cannot be read, or is said twice")
        seen.add(name)
        yield (name,), value.partition(" #")[0].strip(" \t")


def _plain_lines(text: str) -> Iterator[Pair]:
    _check_coding(text)
    for line in _lines(text):
        if line[0] != "#":
            yield ("line",), line.partition(" #")[0].strip(" \t")


def _addresses(text: str) -> Iterator[Pair]:
    for line in _lines(text):
        yield (line,), ""


def _xml(text: str) -> Iterator[Pair]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Odd("it declares a document type")
    if (said_so := _ENCODING.match(text)) and said_so[1].lower() not in ("utf-8", "us-ascii"):
        raise Odd("it says that it is not UTF-8")
    found: list[Pair] = []
    names: list[str] = []
    words: list[str] = [""]

    def start(name: str, attributes: dict[str, str]) -> None:
        names.append(name.rpartition(":")[2])
        words.append("")
        if len(names) > MOST_DEPTH:
            raise Odd("it nests too deeply")
        found.extend(((*names, f"@{key}"), value) for key, value in attributes.items())

    def end(_: str) -> None:
        found.append((tuple(names), words.pop().strip()))
        names.pop()

    def said(data: str) -> None:
        words[-1] += data

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = said
    parser.buffer_text = True
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError, UnicodeError):
        raise Odd("it cannot be read as xml") from None
    yield from found


_READERS: dict[Form, Callable[[str], Iterator[Pair]]] = {
    Form.XML: _xml,
    Form.INI: _ini,
    Form.CFG: _cfg,
    Form.PROPERTIES: _properties,
    Form.WORDS: _words,
    Form.LINES: _plain_lines,
    Form.ADDRESSES: _addresses,
}
