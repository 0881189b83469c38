# SPDX-License-Identifier: Apache-2.0
"""Builtins that give variables values."""

from __future__ import annotations

import re

from policy.model import Tier
from policy.shell import leaks
from policy.shell.assignments import give, has_flag, subscript
from policy.shell.interpreter import Shell
from policy.shell.state import Call, as_text
from policy.values.numbers import natural
from policy.values.partial import BREAK, HOLE, shown, split, unknown

_NEEDED = frozenset(("PATH", "HOME"))
"""Variables without which programs are found, and settings read, elsewhere."""


def run_declare(shell: Shell, call: Call) -> str:
    """Declare variables, with values and what they are."""
    words = call.args
    counts = any(one.startswith("-") and "i" in one for one in words)
    refers = call.name not in ("export", "readonly") and has_flag(words, "n")
    fixes = call.name == "readonly" or has_flag(words, "r")
    printed, kept = "-p" in words, call.name in ("local", "declare", "typeset")
    for word in words:
        if word.startswith(("-", "+")):
            continue
        name, equals, value = word.partition("=")
        subscript(shell, word)
        if counts:
            subscript(shell, value)
        if refers and name.isidentifier():
            shell.state.references[name] = value
            if equals:
                continue
        if equals:
            give(shell, name.removesuffix("+"), value)
        if fixes:
            shell.state.fixed |= {name.removesuffix("+")}
        if call.name == "export" and isinstance(known := shell.state.get(name), str):
            shell.catalog.exported(shell, name, known)
        if equals:
            continue
        if printed and leaks.SECRET_VARIABLE.search(word):
            shell.find(Tier.FORBIDDEN, "secrets", f"it prints the secret `{shown(word)}`")
        elif unknown(word):
            shell.find(Tier.DANGER, "opaque", "it sets variables whose names cannot be known")
        elif kept and shell.state.get(name) is None:
            shell.state.set(name, "")
    if call.name == "export" and "-f" in call.args:
        return ""
    if set(call.args) & {"-p", "-x"} or not call.args:
        return HOLE
    return ""


def run_unset(shell: Shell, call: Call) -> str:
    """Forget variables and functions."""
    for word in call.args:
        subscript(shell, word)
        shell.state.values.pop(word, None)
        shell.state.references.pop(word, None)
        if word in _NEEDED:
            shell.catalog.environment(shell, word, "")
        shell.state.functions.pop(word, None)
        if word == "HISTFILE":
            shell.find(Tier.DANGER, "security", "it switches the shell's history off")
    return ""


def run_set(shell: Shell, call: Call) -> str:
    """Set options, or the positional arguments."""
    words = list(call.args)
    while words and re.match(r"[-+]", words[0]):
        word = words.pop(0)
        if word in ("--", "-"):
            shell.state.args = words
            shell.state.note(words)
            return ""
        if word in ("-o", "+o") and words:
            option = words.pop(0)
            if option == "history" and word == "+o":
                shell.find(Tier.DANGER, "security", "it switches the shell's history off")
    if words:
        shell.state.args = words
        shell.state.note(words)
    return ""


def run_shift(shell: Shell, call: Call) -> str:
    """Drop positional arguments."""
    said = natural(call.args[0]) if call.args else None
    count = 1 if said is None else said
    if shell.state.args is not None:
        shell.state.args = shell.state.args[min(count, 1000) :]
    return ""


def run_read(shell: Shell, call: Call) -> str:
    """Give variables what a line holds."""
    names: list[str] = []
    array = ""
    words = list(call.args)
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[a-zA-Z]*[dinNptu]", word) and words:
            value = words.pop(0)
            if word.endswith("u"):
                call = Call(call.words, shell.state.streams.get(value, HOLE), call.env)
        elif re.fullmatch(r"-[a-zA-Z]*a", word) and words:
            array = words.pop(0)
        elif not word.startswith("-"):
            names.append(word)
    text = (call.stdin if call.stdin is not None else HOLE).split("\n", 1)[0]
    marks = dict(call.env).get("IFS", as_text(shell.state.get("IFS")))
    parts = text.split() if marks == " \t\n" else split(text, marks).split(BREAK)
    if array:
        subscript(shell, array)
        give(shell, array, parts)
        return ""
    for at, name in enumerate(names or ["REPLY"]):
        subscript(shell, name)
        last = at == len(names) - 1 or not names
        value = " ".join(parts[at:]) if last else (parts[at] if at < len(parts) else "")
        if unknown(text) and not value:
            value = next((one for one in text if unknown(one)), HOLE)
        give(shell, name, value)
    return ""


def run_mapfile(shell: Shell, call: Call) -> str:
    """Give an array what lines hold."""
    words, name = list(call.args), "MAPFILE"
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[a-zA-Z]*[dnOsucC]", word) and words:
            value = words.pop(0)
            if word.endswith("C"):
                shell.find(Tier.DANGER, "runs-text", f"`{call.name} -C` runs a text")
                shell.aside(lambda: shell.run_text(value))  # noqa: B023
            elif word.endswith("u"):
                call = Call(call.words, shell.state.streams.get(value, HOLE), call.env)
        elif word.startswith("-C"):
            shell.find(Tier.DANGER, "runs-text", f"`{call.name} -C` runs a text")
            shell.aside(lambda: shell.run_text(word[2:]))  # noqa: B023
        elif not word.startswith("-"):
            name = word
    subscript(shell, name)
    text = call.stdin if call.stdin is not None else HOLE
    keep = (
        "" if any(argument.startswith("-") and "t" in argument for argument in call.args) else "\n"
    )
    give(shell, name, [part + keep for part in text.split("\n") if part][:256])
    return ""


def run_let(shell: Shell, call: Call) -> str:
    """Give variables what arithmetic comes to."""
    for word in call.args:
        shell.words.evaluated(word)
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            give(shell, name, shell.words.number(value))
        else:
            shell.words.number(word)
    return ""


def run_getopts(shell: Shell, call: Call) -> str:
    """Give a variable the next option."""
    if len(call.args) > 1:
        subscript(shell, call.args[1])
        give(shell, call.args[1], HOLE)
        shell.state.set("OPTARG", HOLE)
    return ""
