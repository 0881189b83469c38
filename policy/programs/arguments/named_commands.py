# SPDX-License-Identifier: Apache-2.0
"""Commands in settings of a build: `make CC='...'`, `--config-settings=CC=...`, `just --shell ...`.

A program that gets them starts them later, with words of its own. Only what such a text does that
is forbidden, or that changes files which it names, counts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.facts import WRITES, Facts
from policy.model import Tier
from policy.programs.arguments import written_files
from policy.programs.tables import CatalogTables
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse

_SETTING = re.compile(r"(?:-{1,2}D?)?([\w.:-]+?)(?::{1,3}|\+|\?|!)?=(.*)", re.DOTALL)
_TOOL = re.compile(
    r"(?i)(?:^|[-_.])(?:cc|cxx|cpp|fc|ld|ar|as|nm|rm|cp|mv|sh|strip|ranlib|objcopy|install|shell|cmd"
    r"|command|exec(?:utable)?|editor|pager|launcher|wrapper|runner|compiler|linker|program|tool"
    r"|browser|chooser|make|python|node|git|ssh|rsh|[cl]\w*flags)s?$"
)
"""Settings that name a tool."""
_EVERY = frozenset(
    ("make", "gmake", "bmake", "just", "task", "rake", "scons", "configure", "ninja", "latexmk")
)
"""Programs whose recipes can run any setting."""
_SPEECH = re.compile(
    r"(?i)(?:msg|message|title|body|desc\w*|comment|text|note|name|subject|args?)$"
)
_SHELL = re.compile(r"[;|&`\n]|\$\(")
_MOST = 32
"""Settings of one call that are tried."""


def record(catalog: CatalogTables, shell: Shell, call: Call) -> None:
    """Record what settings of a call run that is forbidden or changes files."""
    tried = 0
    for name, value in (*_settings(call), *call.env):
        if call.name in _EVERY:
            written_files.record(shell, name, value)
        every = call.name in _EVERY and not _SPEECH.search(name)
        if tried < _MOST and (every or _TOOL.search(name)) and _command(catalog, value):
            tried += 1
            attempt(shell, value)
    if call.name in ("just", "make", "gmake"):
        _own_shell(shell, call)


def _settings(call: Call) -> Iterator[tuple[str, str]]:
    args = call.args
    for at, word in enumerate(args):
        match = _SETTING.fullmatch(word)
        if match is not None:
            inner = _SETTING.fullmatch(match[2])  # `--config-settings=CC=...`
            yield (inner[1], inner[2]) if inner is not None else (match[1], match[2])
        elif word in ("--chooser", "--shell", "--script-shell", "-D") and at + 1 < len(args):
            yield word, args[at + 1]
        elif word == "--set" and at + 2 < len(args):
            yield args[at + 1], args[at + 2]


def _command(catalog: CatalogTables, value: str) -> bool:
    """Return whether a value is a command with arguments, or several."""
    words = value.split(None, 1)
    if not words:
        return False
    first = words[0].rsplit("/", 1)[-1].rstrip(";")
    return _SHELL.search(value) is not None or (len(words) > 1 and catalog.knows(first))


def _own_shell(shell: Shell, call: Call) -> None:
    """Run the shell that recipes are given to, with a recipe."""
    if call.name == "just":
        parsed = parse(call.args, ("--shell", "--shell-arg"))
        words = [*parsed.values("--shell")[-1:], *parsed.values("--shell-arg")]
        named = parsed.has("--shell")
    else:
        settings = dict(_settings(call))
        words = f"{settings.get('SHELL', '')} {settings.get('.SHELLFLAGS', '-c')}".split()
        named = "SHELL" in settings
    if named and words:
        attempt(shell, Call((*words, "recipe"), plain=False))


def attempt(shell: Shell, what: str | Call) -> None:
    """Read a text or a command apart; keep what is forbidden, and the files that it changes."""
    tried = Facts()
    kept, shell.facts = shell.facts, tried
    try:
        if isinstance(what, str):
            shell.aside(lambda: shell.run_text(what))
        else:
            shell.aside(lambda: shell.call(what))
    finally:
        shell.facts = kept
    shell.facts.programs |= tried.programs
    for finding in tried.findings:
        if finding.tier is Tier.FORBIDDEN:
            shell.facts.findings[finding] = None
    for touch in tried.touches:
        if touch.how in WRITES:
            shell.facts.touch(touch)
