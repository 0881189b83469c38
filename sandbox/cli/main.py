# SPDX-License-Identifier: Apache-2.0
"""The command line. Commands are imported when they are used, and fail in one place: `main`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import cast

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput, SandboxError
from sandbox.host.version import VERSION
from sandbox.text.terminal import safe_line

COMMANDS = {
    "init": "admin.workspace:init",
    "run": "calls.run:run",
    "check": "calls.check:check",
    "explain": "calls.check:explain",
    "policy": "policy.policy:policy",
    "ps": "control.ps:ps",
    "log": "calls.calls:log",
    "show": "calls.calls:show",
    "diff": "calls.diff:diff",
    "undo": "calls.settle:undo",
    "clean": "calls.clean:clean",
    "held": "calls.settle:held",
    "land": "calls.settle:land",
    "discard": "calls.settle:discard",
    "object": "calls.settle:object_",
    "end": "calls.settle:end",
    "port": "calls.port:port",
    "approvals": "people.approvals:approvals",
    "approve": "people.approvals:approve",
    "deny": "people.approvals:deny",
    "grant": "people.approvals:grant",
    "grants": "people.approvals:grants",
    "revoke": "people.approvals:revoke",
    "reports": "people.reports:reports",
    "trust": "people.trust:trust",
    "workspace": "admin.workspace:workspace",
    "doctor": "admin.system:doctor",
    "image": "admin.system:image",
    "guard": "admin.guard:guard",
    "verify": "admin.verify:verify",
    "vouch": "admin.vouch:vouch",
    "agent": "control.agent:agent",
    "stop": "control.stop:stop",
    "resume": "control.stop:resume",
    "shutdown": "control.shutdown:shutdown",
    "replay": "calls.replay:command",
    "audit": "admin.audit:audit",
    "hook": "connect.hook:hook",
    "connect": "connect.connect:connect",
    "mcp": "connect.mcp:mcp",
    "serve": "connect.serve:serve",
    "ui": "connect.ui:ui",
    "shell": "calls.shell:shell",
    "version": "admin.system:version",
    "completion": "admin.system:completion",
}
"""Command -> module of `sandbox.cli` and the name in it, in the order of the help."""


class _Commands(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(f"sandbox.cli.{module}"), name)
        assert isinstance(found, click.Command)
        _word_types(found)
        return found


class _Text(click.types.StringParamType):
    """A text that is not empty, so that `--role "$ROLE"` without a ROLE is no call without one."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text; the default of the parameter may be empty."""
        text = super().convert(value, param, ctx)
        if not str(text).strip() and (param is None or param.default != value):
            self.fail("it is empty; give a value or leave it out", param, ctx)
        return str(text)


def _word_types(command: click.Command) -> None:
    """Let no text that a command takes be empty, and say `number` of one; also in its commands."""
    for parameter in command.params:
        if isinstance(parameter.type, click.IntRange | click.FloatRange):
            parameter.type.name = "number"
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = _Text()
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _word_types(inner)


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="lockgate", message="%(prog)s %(version)s")
def lockgate() -> None:
    """Run what an AI agent wants to run between two gates: one decides whether it may run, the
    other judges what it changed before any of that reaches your files.

    \b
    Examples:
      lockgate init                       register this folder as a workspace
      lockgate run -- pytest -q           run a command in its cell
      lockgate check 'rm -rf build'       ask gate 1 without running anything
      lockgate log                        see what was decided, run and landed
      lockgate undo CALL                  take a landed change back
      lockgate stop                       end everything now
    """


def main() -> None:
    """Run the command line. Every failure ends here: one line on stderr, and its status."""
    sys.exit(status(sys.argv[1:]))


def status(arguments: list[str]) -> int:
    """Run the command line with these arguments and return the exit status."""
    stdout = sys.stdout
    try:
        answer = lockgate.main(arguments, prog_name="lockgate", standalone_mode=False)
        sys.stdout.flush()
        return answer if isinstance(answer, int) else 0
    except SystemExit:
        if sys.stdout is stdout:
            raise
        sys.stdout = stdout  # click puts another in its place when a reader has left, and ends
        return terminal.broken_pipe()  # with 1, which would be a no
    except (Exception, KeyboardInterrupt) as error:
        return failed(error, arguments)


def failed(error: BaseException, arguments: Sequence[str] = ()) -> int:
    """Say in one line why a command failed, and return the status of that."""
    match error:
        case click.ClickException():
            return _usage(error, arguments)
        case click.Abort() | KeyboardInterrupt():
            terminal.say("interrupted")
            return terminal.INTERRUPTED
        case BrokenPipeError():
            return terminal.broken_pipe()
        case BadInput():
            terminal.say(str(error))
            return terminal.USAGE
        case SandboxError():
            terminal.say(str(error))
            return terminal.FAILED
    if os.environ.get("LOCKGATE_DEBUG"):
        raise error
    if isinstance(error, OSError):
        terminal.broken_pipe()
        if isinstance(error, FileNotFoundError) and not _here():
            terminal.say("the folder that this runs in is gone; `cd` to one that is there")
            return terminal.FAILED
        name = f"`{safe_line(str(error.filename))}`: " if error.filename else ""
        terminal.say(f"{name}{error.strerror or error}".lower())
        return terminal.FAILED
    terminal.say(f"internal error: {type(error).__name__}: {error}; LOCKGATE_DEBUG=1 shows where")
    return terminal.FAILED


def _here() -> bool:
    """Whether the folder that this runs in exists."""
    try:
        return bool(os.getcwd())  # noqa: PTH109
    except OSError:
        return False


def _usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return terminal.USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else _named(arguments)
    message = safe_line(" ".join(error.format_message().split())).rstrip(".")
    terminal.say(f"{message[:1].lower()}{message[1:]}; see `{command} --help`")
    return terminal.USAGE


def _named(arguments: Sequence[str]) -> str:
    """Return the command that arguments begin with: click's parser does not say whose it read."""
    path, command = "lockgate", cast(click.Command, lockgate)
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command), word)
        if inner is None:
            break
        path, command = f"{path} {word}", inner
    return path


if __name__ == "__main__":
    main()
