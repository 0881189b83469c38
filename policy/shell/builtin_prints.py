# SPDX-License-Identifier: Apache-2.0
"""Builtins that print."""

from __future__ import annotations

import re

from policy.facts import How
from policy.shell import leaks
from policy.shell.assignments import give, set_item, subscript
from policy.shell.expand.printf import echo, formatted
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import globbed


def _matched(shell: Shell, words: tuple[str, ...]) -> None:
    """Record the directories that globs list."""
    for word in words:
        if globbed(word) and "/" in word:
            shell.touch(How.LIST, word, program="glob")


def run_echo(shell: Shell, call: Call) -> str:
    """Print words."""
    _matched(shell, call.args)
    leaks.prints_variable(shell, call)
    return echo(call.args)


def run_printf(shell: Shell, call: Call) -> str:
    """Print words by a format, or give them to a variable (`-v`)."""
    _matched(shell, call.args)
    leaks.prints_variable(shell, call)
    words = list(call.args)
    name = ""
    if words and words[0].startswith("-v"):
        name = words.pop(0)[2:] or (words.pop(0) if words else "")
    if words and words[0] == "--":
        words.pop(0)
    text = formatted(words[0], words[1:]) if words else ""
    if name:
        subscript(shell, name)
        match = re.fullmatch(r"(\w+)\[(.*)\]", name)
        if match:
            set_item(shell, match[1], match[2], text)
        else:
            give(shell, name, text)
        return ""
    return text
