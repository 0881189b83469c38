# SPDX-License-Identifier: Apache-2.0
"""Where the built-in rules stand: file and line of a rule's name, for `explain` and `policy show`.

Looks through the texts of the package; nothing is parsed, so that it takes a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

_ENTRY = re.compile(r"^\s*- (?:programs|names|keys): \[(?P<names>.*?)\]?\s*$")
_RULE = re.compile(r"(?:^|[\s{,-])(?:id|rule): *[\"']?(?P<rule>[\w-]+)")
_KEY = re.compile(r"^ {2}(?P<key>[\w-]+):")
_WORD = re.compile(r"[\w.+-]+")
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_FILLED = re.compile(r"\{[^{}]*\}")
_TICKED = re.compile(r"`([^`]+)`")
_KINDS = {
    "level": "defaults/levels.yaml",
    "role": "defaults/roles.yaml",
    "mode": "defaults/modes.yaml",
    "trust": "defaults/trust.yaml",
}

_READERS = ("programs/", "shell/", "rules/")
"""Where code says why, instead of an entry of the catalog."""

_OF_PATHS = "policy/rules/tiers.py"
"""Where the texts stand behind which a path follows; readers say some of them too."""

_TELLING = 10
"""Constant characters of a text of code from which on it tells where it stands."""

_FIRST = {
    "rules": "policy/defaults/policy.yaml",
    "paths": "policy/defaults/paths.yaml",
    "workspace": "policy/rules/locations.py",
}
"""Where rules of a layer stand, should their name stand elsewhere as well."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One line that names a rule, and the programs of the entry that it belongs to."""

    place: str
    programs: frozenset[str]


class _Texts:
    """The rules, entries and keys of the package's files."""

    def __init__(self) -> None:
        self.rules: dict[str, list[_Said]] = {}
        self.entries: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.said: list[tuple[tuple[str, ...], str]] = []
        """The constant parts of the texts that readers say, with their places."""
        root = resources.files("policy")
        for folder, ending in (("catalog", ".yaml"), ("defaults", ".yaml"), ("programs", ".py"),
                               ("", ".py")):  # fmt: skip
            for name, file in _list_files(root.joinpath(folder) if folder else root, folder):
                if name.endswith(ending) and (folder or not name.startswith("programs/")):
                    self._read(name, file.read_text("utf-8").split("\n"), ending)

    def _read(self, name: str, lines: list[str], ending: str) -> None:
        programs: frozenset[str] = frozenset()
        for number, line in enumerate(lines, start=1):
            place = f"policy/{name}:{number}"
            if ending == ".py":
                if name.startswith(_READERS):
                    self._keep_texts(line, place)
                for word in re.findall(r'"([a-z]+(?:-[a-z]+)*)"', line):
                    self.rules.setdefault(word, []).append(_Said(place, frozenset()))
                continue
            if found := _ENTRY.match(line):
                programs = frozenset(_WORD.findall(found["names"]))
                self.entries.update(dict.fromkeys(programs - self.entries.keys(), place))
            for found in _RULE.finditer(line):
                self.rules.setdefault(found["rule"], []).append(_Said(place, programs))
            if (found := _KEY.match(line)) and name.startswith("defaults/"):
                self.keys.setdefault(f"{name} {found['key']}", place)

    def _keep_texts(self, line: str, place: str) -> None:
        for text in _TEXT.findall(line):
            parts = tuple(part for part in _FILLED.split(text) if part)
            if " " in text and sum(map(len, parts)) >= _TELLING:
                self.said.append((parts, place))

    def place_in_code(self, reason: str) -> str:
        """Return where the code stands that says this, or ""."""
        of_path = reason.endswith("`") and ": `" in reason
        fitting = [
            (sum(map(len, parts)), place.startswith(_OF_PATHS) is of_path, place)
            for parts, place in self.said
            if _stand_in_order(parts, reason)
        ]
        return max(fitting, key=lambda fit: fit[:2])[2] if fitting else ""


def _stand_in_order(parts: tuple[str, ...], reason: str) -> bool:
    at = 0
    for part in parts:
        at = reason.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _list_files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """Yield (name, file) of all that lies in a folder and below it, in order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir():
            yield from _list_files(entry, path)
        else:
            yield path, entry


@lru_cache(maxsize=1)
def _texts() -> _Texts:
    return _Texts()


def built_in_place(layer: str, rule: str, reason: str) -> str:
    """Return `policy/FILE:LINE` of a built-in rule, or "" where it has no name.

    Where several entries have the rule, it is that of the program that the reason names; where
    code says the reason, it is the line of that text.
    """
    if not rule:
        return ""
    texts = _texts()
    if layer in _KINDS:
        file = _KINDS[layer]
        key = rule.partition("-")[2]
        return texts.keys.get(f"{file} {key}", f"policy/{file}:1")
    said = texts.rules.get(rule, [])
    first = _FIRST.get(layer) or ("policy/rules/tiers.py" if reason.startswith("it ") else "")
    said = [one for one in said if first and one.place.startswith(first)] or said
    named = [one.split()[0].rsplit("/", 1)[-1] for one in _TICKED.findall(reason) if one.split()]
    if layer == "tier" and (place := texts.place_in_code(reason)):
        return place
    for one in said:
        if one.programs.intersection(named):
            return one.place
    if layer == "tier" and not first:
        for name in named:
            if name in texts.entries:
                return texts.entries[name]
    if layer == "tier" and reason and not first:
        return ""
    return said[0].place if said else ""
