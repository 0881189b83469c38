# SPDX-License-Identifier: Apache-2.0
"""Match shell patterns in linear time, where a regular expression could take exponential time."""

from __future__ import annotations

from policy.values.partial import ONE, SET, STAR

MOST_WORK = 50_000
"""Steps after which an answer is not worth its price."""


class TooMuchWork(Exception):
    """The pattern and the text are too large to be matched."""


Token = tuple[str, str]


def tokens(pattern: str) -> list[Token]:
    """Return a pattern's parts: literal characters, `one`, `set` and `many`."""
    out: list[Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == STAR:
            if not out or out[-1][0] != "many":
                out.append(("many", ""))
        elif char == ONE:
            out.append(("one", ""))
        elif char == SET and (end := pattern.find("]", at + 2)) > 0:
            out.append(("set", _members(pattern[at + 1 : end])))
            at = end
        else:
            out.append(("is", "[" if char == SET else char))
        at += 1
    return out


def _members(body: str) -> str:
    negated = body[:1] in "!^"
    body = body[1:] if negated else body
    out: list[str] = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            low, high = ord(body[at]), min(ord(body[at + 2]), ord(body[at]) + 256)
            out += map(chr, range(low, high + 1))
            at += 3
        else:
            out.append(body[at])
            at += 1
    return ("!" if negated else "=") + "".join(out)


def ends(parts: list[Token], text: str, start: int = 0) -> list[int]:
    """Return every place where a match that begins at `start` can end, in order."""
    if len(parts) * (len(text) - start + 1) > MOST_WORK:
        raise TooMuchWork
    states = {0}
    found: list[int] = []
    for at in range(start, len(text) + 1):
        states = _closed(parts, states)
        if len(parts) in states:
            found.append(at)
        if at == len(text) or not states:
            break
        char = text[at]
        following: set[int] = set()
        for state in states:
            if state == len(parts):
                continue
            kind, body = parts[state]
            if kind == "many":
                following.add(state)
            elif _accepts(kind, body, char):
                following.add(state + 1)
        states = following
    return found


def _closed(parts: list[Token], states: set[int]) -> set[int]:
    done = set(states)
    for state in sorted(states):
        while state < len(parts) and parts[state][0] == "many":
            state += 1
            done.add(state)
    return done


def _accepts(kind: str, body: str, char: str) -> bool:
    if kind == "is":
        return char == body
    if kind == "one":
        return True
    return (char in body[1:]) != (body[0] == "!")
