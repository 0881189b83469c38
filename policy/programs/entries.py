# SPDX-License-Identifier: Apache-2.0
"""What an entry of the catalog says of a call: its verb, its words, what it prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from policy.programs.catalog_schema import Entry
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import HOLE, NAME, NET, NUM

_BLANK = re.compile(r"\s")


def record_phrases(shell: Shell, entry: Entry, call: Call) -> None:
    """Record what the words of a call say, where its entry knows some."""
    if not entry.phrases:
        return
    text = "".join(_BLANK.sub("·", one) + " " for one in (call.name, *call.args))
    for phrase in entry.phrases:
        if re.search(phrase.words, text):
            shell.find(phrase.tier, phrase.rule, f"`{call.name}` {phrase.because}")


@lru_cache(maxsize=512)
def _valued_of(values: tuple[str, ...], uses: tuple[str, ...]) -> frozenset[str]:
    return frozenset((*values, *uses))


def valued_options(entry: Entry) -> frozenset[str]:
    """Return the options of an entry that take a value."""
    return _valued_of(entry.values, tuple(entry.uses))


def verb(entry: Entry, operands: Sequence[str]) -> tuple[str, Entry] | None:
    """Return the verb of a call and what it does, or None."""
    if not operands:
        return None
    for names, inner in entry.verbs.items():
        if operands[0] in names.split():
            return operands[0], inner
    return None


_FILE = re.compile(r"(?!-)[\w./-]*\w\.\w[\w.-]*|[\w/-]*\.\w[\w.-]+")
"""Operands of a listing that most likely are files, which it prints as they are."""


def output(entry: Entry, call: Call) -> str:
    """Return what a program prints, as far as the catalog knows."""
    foreign = entry.network or (call.stdin is not None and NET in call.stdin)
    if foreign:
        return NET
    match entry.prints:
        case "nothing":
            return ""
        case "names":
            return (
                "".join(argument + "\n" for argument in call.args if _FILE.fullmatch(argument))
                + NAME
                + "\n"
            )
        case "number":
            return NUM + "\n"
        case "input":
            return call.stdin if call.stdin is not None else HOLE
        case _:
            return HOLE
