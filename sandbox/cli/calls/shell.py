# SPDX-License-Identifier: Apache-2.0
"""`shell`: a stand-in for `$SHELL`, for agents that know neither MCP nor hooks.

Each command is a call of its own: both gates, the cell, the record. Between lines of an interactive
shell nothing goes on but the folder and exported variables, which are kept here.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import click

from sandbox.cli import terminal
from sandbox.cli.calls.run import called
from sandbox.cli.control.stop import show
from sandbox.text.terminal import safe_line

_EXPORT = re.compile(r"\s*export\s+([A-Za-z_][A-Za-z0-9_]*)=(\S*|'[^']*'|\"[^\"$`\\]*\")\s*")
_CD = re.compile(r"\s*cd(?:\s+(\S+|'[^']*'|\"[^\"$`\\]*\"))?\s*")
_EXIT = re.compile(r"\s*(?:exit|logout)(?:\s+(\d{1,3}))?\s*")
_FLAGS = frozenset("ilsrxevuCfhm")
_KEPT = "rxevuCf"
"""Those of them that change what a command does, also where nobody sits there."""


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Be a shell whose commands go through the gates.",
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def shell(arguments: tuple[str, ...]) -> int:
    """Run commands as bash would, each of them through both gates and in the cell.

    As `$SHELL`, or before a command as a shell prefix. Without a command it reads lines: from a
    terminal with a prompt, else to the end of standard input as one text. LOCKGATE_AGENT_NAME and
    LOCKGATE_ROLE say for whom; the workspace is the one that the folder lies in.

    \b
    Examples:
      lockgate shell -c 'ls -la'
      SHELL=$(command -v lockgate-shell) some-agent
      lockgate shell
    """
    wanted = list(arguments)
    if wanted in (["-h"], ["--help"]):
        terminal.show(click.get_current_context().get_help())
        return 0
    options: list[str] = []
    text, rest = _text(wanted, options)
    if text is not None:
        return Shell(rest, options).run(text)
    if sys.stdin.isatty():
        return Shell([], options).talk()
    return Shell([], options).run(sys.stdin.read(), stdin=False)


def _text(words: list[str], options: list[str]) -> tuple[str | None, list[str]]:
    """Return the command of bash's own command line, with the words behind it (`$0`, `$1`, ...).

    What changes how the command runs (`-e`, `-o pipefail`) is added to `options`.
    """
    flagged = False
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if word in ("--login", "--norc", "--noprofile", "--posix", "--noediting"):
            continue
        if word in ("-o", "+o", "-O", "+O"):
            if not words:
                raise click.UsageError(f"`{word}` needs a name")
            options += [word, words.pop(0)]
            continue
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word) and set(word[1:]) - {"c"} <= _FLAGS:
            if not words:
                raise click.UsageError("`-c` needs a command")
            _keep(word, options)
            return words.pop(0), words
        if word[:1] in "-+" and len(word) > 1 and set(word[1:]) <= _FLAGS:
            _keep(word, options)
            flagged = True
            continue
        words.insert(0, word)
        break
    if not words:
        return None, []
    if len(words) == 1 and not flagged and not Path(words[0]).is_file():
        return words[0], []  # a shell prefix: the whole command is one argument
    words, options[:] = ["bash", *options, *words], []
    return shlex.join(words), []


def _keep(word: str, options: list[str]) -> None:
    kept = "".join(one for one in word[1:] if one in _KEPT)
    if kept:
        options.append(word[0] + kept)


def _says_stop(text: str) -> bool:
    """Whether a text is the word that stops its agent."""
    if not any(word in text.casefold() for word in ("stop", "abort")):
        return False
    from sandbox.stopping.stop import is_stop_word  # takes its time

    return is_stop_word(text)


def _stop() -> int:

    with terminal.client() as client:
        report = client.stop("the agent said stop", _agent(), own=True)
    show(report, to_stderr=True)
    return terminal.NOT_PERMITTED


def _agent() -> str:
    return os.environ.get("LOCKGATE_AGENT_NAME") or "main"


class Shell:
    """Runs commands one after another."""

    def __init__(self, positional: list[str], options: list[str]) -> None:
        self._cwd = _here()
        self._env: dict[str, str] = {}
        self._positional = positional
        self._options = options
        self._typed = bytearray()
        """What was typed while commands ran that did not read it."""

    def run(self, text: str, *, stdin: bool = True) -> int:
        """Run one text and return its status."""
        if _says_stop(text) and not self._positional:
            return _stop()
        if self._positional or self._options:
            text = shlex.join(["bash", *self._options, "-c", text, *self._positional])
        plan = {
            "tool": "Bash",
            "params": {"command": text},
            "agent": _agent(),
            "role": os.environ.get("LOCKGATE_ROLE") or None,
            "workspace": None,
            "cwd": None,
        }
        fields = {"plan": plan, "here": self._cwd, "env": self._env or None, "text": False}
        flags = {"raw": True, "as_json": False, "quiet": True, "stdin": stdin, "yes": False}
        return called(fields, flags, self._typed)

    def talk(self) -> int:
        """Read lines from a terminal until it ends."""
        status = 0
        while True:
            try:
                line = self._next(f"lockgate:{safe_line(Path(self._cwd or '?').name)}$ ")
            except EOFError:
                terminal.show("")
                return status
            except KeyboardInterrupt:
                terminal.show("")
                continue
            if found := _EXIT.fullmatch(line):
                return int(found[1]) & 255 if found[1] else status
            status = self._line(line, status)

    def _next(self, prompt: str) -> str:
        """Return the next line: what was typed ahead comes first."""
        import readline

        first, end, rest = self._typed.partition(b"\n")
        self._typed = rest
        text = first.decode("utf-8", "replace")
        if end:
            terminal.show(f"{prompt}{safe_line(text)}")
            return text
        readline.set_startup_hook(lambda: readline.insert_text(text))
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)

    def _line(self, line: str, status: int) -> int:
        if not line.strip():
            return status
        if found := _CD.fullmatch(line):
            return self._change(_bare(found[1]) if found[1] else "")
        if found := _EXPORT.fullmatch(line):
            self._env[found[1]] = _bare(found[2])
            return 0
        try:
            return self.run(line)
        except KeyboardInterrupt:
            return terminal.INTERRUPTED
        except click.exceptions.Exit as ended:
            return ended.exit_code

    def _change(self, wanted: str) -> int:
        """Go to a folder of the workspace."""
        from sandbox.workspaces.registry import Registry

        registry = Registry(terminal.dirs())
        root = registry.around(self._cwd or "/").path
        there = Path(os.path.normpath(Path(self._cwd or root, wanted or root)))
        if not there.is_dir() or registry.holding(str(there.resolve())) is None:
            terminal.say(f"cd: {safe_line(wanted)}: no folder of a workspace")
            return 1
        self._cwd = str(there)
        return 0


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _here() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None
