# SPDX-License-Identifier: Apache-2.0
"""Split the arguments of a program into options with their values and operands, as getopt does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from policy.values.partial import unknown


@dataclass(slots=True)
class Parsed:
    """The arguments of one call."""

    flags: dict[str, list[str]] = field(default_factory=dict)
    """Options as written (`-f`, `--force`) with the values given to them."""
    operands: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Return whether one of the options was given."""
        return any(name in self.flags for name in names)

    def values(self, *names: str) -> list[str]:
        """Return the values of the options, in order."""
        return [value for name in names for value in self.flags.get(name, ()) if value]

    def value(self, *names: str) -> str:
        """Return the last value of the options, or nothing."""
        found = self.values(*names)
        return found[-1] if found else ""


def parse(
    args: Sequence[str],
    valued: Collection[str] = (),
    known: Collection[str] = (),
    *,
    in_order: bool = False,
) -> Parsed:
    """Return the options and operands; `valued` take a value, `known` help with abbreviations.

    With `in_order`, the first operand ends the options (wrappers).
    """
    parsed = Parsed()
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            parsed.operands += args[at:]
            break
        if len(word) < 2 or word[0] != "-":
            parsed.operands.append(word)
            if in_order:
                parsed.operands += args[at:]
                break
            continue
        if word in valued and not word.startswith("--"):
            parsed.flags.setdefault(word, []).append(args[at] if at < len(args) else "")
            at += 1
        elif word in known and not word.startswith("--"):
            parsed.flags.setdefault(word, []).append("")
        elif word.startswith("--"):
            at = _long(parsed, word, args, at, valued, known)
        else:
            at = _cluster(parsed, word, args, at, valued)
    return parsed


def _long(
    parsed: Parsed,
    word: str,
    args: Sequence[str],
    at: int,
    valued: Collection[str],
    known: Collection[str],
) -> int:
    name, equals, value = word.partition("=")
    if known and name not in valued and name not in known:
        full = [one for one in (*valued, *known) if one.startswith(name)]
        name = full[0] if full and len(name) > 2 else name
    if not equals and name in valued:
        value = args[at] if at < len(args) else ""
        at += 1
    parsed.flags.setdefault(name, []).append(value)
    return at


def _cluster(
    parsed: Parsed, word: str, args: Sequence[str], at: int, valued: Collection[str]
) -> int:
    head, equals, value = word.partition("=")
    if equals and head in valued:
        parsed.flags.setdefault(head, []).append(value)
        return at
    if unknown(word):
        parsed.flags.setdefault(word, []).append("")
        return at
    parsed.flags.setdefault(head, []).append(value)
    for place, letter in enumerate(word[1:], start=1):
        flag = "-" + letter
        if flag in valued:
            rest = word[place + 1 :]
            if not rest:
                rest = args[at] if at < len(args) else ""
                at += 1
            parsed.flags.setdefault(flag, []).append(rest)
            return at
        if flag != head:
            parsed.flags.setdefault(flag, []).append("")
    return at
