# SPDX-License-Identifier: Apache-2.0
"""jq and its kin: a program in a language of queries, and options that name two words each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import HOLE

_TEXT = re.compile(r'(?<!\\)"((?:[^"\\]|\\.)*)"')
_LOADS = re.compile(r"\b(?:load|load_\w+|import|include)\s*\(?\s*\"([^\"]+)\"")
"""Files that a query itself reads."""
_NAMED_FILES = frozenset(("--rawfile", "--slurpfile", "--argfile"))
_NAMED_TEXTS = frozenset(("--arg", "--argjson"))
"""Options with a name and a value."""
_FILES = {
    "-f": Use.RUN,
    "--from-file": Use.RUN,
    "-L": Use.READ,
    "--library-path": Use.READ,
    "--split-exp-file": Use.READ,
}
_TEXTS = frozenset(("--indent",))
_YQ_TEXTS = frozenset(
    ("-o", "-p", "-I", "-s", "--output-format", "--input-format", "--split-exp", "--expression",
     "--xml-attribute-prefix", "--front-matter")
)  # fmt: skip
"""Options with a value that is a text."""
_IN_PLACE = frozenset(("-i", "--inplace", "--in-place"))
_VERBS = frozenset(("e", "eval", "ea", "eval-all"))
_CLUSTER = re.compile(r"(-[a-zA-Z]*?)([fL])(.*)", re.DOTALL)


@dataclass(slots=True)
class _Query:
    """The arguments of one call."""

    files: list[tuple[str, Use]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    scripted: bool = False
    """The program stands in a file."""
    writes: bool = False
    splits: bool = False
    texts: bool = False
    """Further operands are texts, not files."""


def _parsed(call: Call) -> _Query:
    found = _Query()
    yaml = call.name == "yq"
    words = list(call.args)
    if yaml and words and words[0] in _VERBS:
        words.pop(0)
    texts = _TEXTS | _YQ_TEXTS if yaml else _TEXTS
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            found.operands += words
            break
        if word in _NAMED_FILES or word in _NAMED_TEXTS:
            if word in _NAMED_FILES and len(words) > 1:
                found.files.append((words[1], Use.READ))
            del words[:2]
        elif name in _FILES:
            found.scripted = found.scripted or _FILES[name] is Use.RUN
            found.files.append((value if equals else words.pop(0) if words else "", _FILES[name]))
        elif name in texts:
            found.splits = found.splits or name in ("-s", "--split-exp")
            del words[: 0 if equals else 1]
        elif word[:1] != "-" or word == "-":
            found.operands.append(word)
        elif word[:2] != "--" and (short := _CLUSTER.fullmatch(word)) is not None:
            found.scripted = found.scripted or short[2] == "f"
            given = short[3] or (words.pop(0) if words else "")
            found.files.append((given, _FILES["-" + short[2]]))
        else:
            found.writes = found.writes or word in _IN_PLACE
            found.texts = found.texts or word in ("--args", "--jsonargs")
    return found


def _query(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read a query of data; texts that stand in it may be printed."""
    parsed = _parsed(call)
    operands = parsed.operands
    query = "" if parsed.scripted or not operands else operands.pop(0)
    for path, use in parsed.files:
        catalog.use(shell, use, path, call)
    for match in _LOADS.finditer(query):
        shell.touch(How.READ, match[1], program=call.name)
    for path in operands if not parsed.texts else ():
        catalog.use(shell, Use.READ, path, call)
        if parsed.writes:
            catalog.use(shell, Use.WRITE, path, call)
    if parsed.splits:
        shell.facts.writes = True
        shell.find(Tier.CAUTION, "write", f"`{call.name} -s` writes a file for each document")
    made = [match[1] for match in _TEXT.finditer(query)]
    if made and re.match(r'\s*"', query):
        return "".join(re.sub(r"\\\([^)]*\)", HOLE, one) + "\n" for one in made)
    return HOLE


READERS = {"query": _query}
