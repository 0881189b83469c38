# SPDX-License-Identifier: Apache-2.0
"""Shells: the text that they are given is read like the text itself."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.shell.compound import serves
from policy.shell.interpreter import Shell
from policy.shell.redirects import open_for_reading
from policy.shell.state import Call
from policy.values.partial import HOLE, NET, PROGRAM

_VALUED = ("-o", "+o", "-O", "+O")
_LEFT_BEHIND = re.compile(r"(?:^|[;&|\n(])([^;&|\n(]+)(?<!&)&\s*$")
_MOST_END = 400
"""Characters of a text's end in which the last operator is looked for."""
_FILES = ("--rcfile", "--init-file")
_STDIN = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-")


def _shell(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = list(call.args)
    text_next = reads_stdin = interactive = checks = False
    while words and words[0][:1] in ("-", "+") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        if word in _VALUED or re.fullmatch(r"-[a-zA-Z]*o", word):
            text_next = text_next or ("c" in word and not word.startswith("--"))
            words = words[1:]
        elif word.partition("=")[0] in _FILES:
            path = word.partition("=")[2] or (words.pop(0) if words else "")
            _startup(shell, path)
        elif word.startswith("--"):
            if word in ("--version", "--help"):
                return HOLE
        else:
            text_next = text_next or "c" in word[1:]
            reads_stdin = reads_stdin or "s" in word[1:]
            interactive = interactive or "i" in word[1:]
            checks = checks or (word[0] == "-" and "n" in word[1:])
    if text_next:
        return _text(shell, words[0], words[1:], call) if words else ""
    if words and words[0] in _STDIN:
        reads_stdin, words = True, words[1:]
    if checks and words and not reads_stdin and not interactive:
        for path in words[:1]:
            shell.touch(How.READ, path, program=call.name)  # its grammar is looked at
        return HOLE
    if words and not reads_stdin:
        return _file(catalog, shell, words[0], words[1:], call)
    return _input(shell, words, call)


def _startup(shell: Shell, path: str) -> None:
    content = shell.held(path)
    if content is None:
        shell.touch(How.RUN, path)
        shell.find(Tier.DANGER, "script", f"it runs the file `{path}`, whose text is not known")
    else:
        shell.aside(lambda: shell.run_text(content))


def _inner(
    shell: Shell, call: Call, text: str, zero: str, args: list[str], stdin: str | None
) -> str:
    def work() -> str:
        for name, value in call.env:
            shell.state.set(name, value)
        shell.state.args = list(args)
        shell.state.zero = zero
        return shell.run_text(text, stdin)

    return shell.aside(work)


def _text(shell: Shell, text: str, rest: list[str], call: Call) -> str:
    left = _LEFT_BEHIND.search(text[-_MOST_END:])
    if left is not None and not serves(left[1]):
        shell.find(Tier.DANGER, "processes", "it leaves a process behind that nobody waits for")
    return _inner(shell, call, text, rest[0] if rest else "bash", rest[1:], call.stdin)


def _file(catalog: Catalog, shell: Shell, path: str, args: list[str], call: Call) -> str:
    content = shell.held(path)
    if content is None:
        catalog.script(shell, path)
        if path.rpartition("/")[2] == "lockgate":  # its text is for a shell as well as for Python
            shell.call(Call(("lockgate", *args), call.stdin, call.env, plain=False))
        return NET if call.stdin is not None and NET in call.stdin else HOLE
    if content.startswith(PROGRAM):
        shell.find(Tier.DANGER, "script", f"it runs `{path}`")
        return HOLE
    open_for_reading(shell, path)
    full = shell.resolve(path)
    if shell.runs_itself(full, content):
        return HOLE
    shell.scripts.append(full)
    try:
        return _inner(shell, call, content, path, args, call.stdin)
    finally:
        shell.scripts.pop()


def _input(shell: Shell, args: list[str], call: Call) -> str:
    if call.stdin is None:
        if "bash" in shell.state.streams.get("0", ""):
            return HOLE
        network = NET in shell.state.streams.values()
        if network:
            shell.find(
                Tier.FORBIDDEN, "remote-script", "a shell takes its commands from the network"
            )
        else:
            shell.find(
                Tier.DANGER, "opaque", "a shell takes its commands from where they cannot be known"
            )
        return HOLE
    return _inner(shell, call, call.stdin, "bash", args, None)


READERS = {"shell": _shell}
