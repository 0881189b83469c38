# SPDX-License-Identifier: Apache-2.0
"""What the commands print, and how they ask a person. Standard library and click only."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sandbox.cli.said import FAILED as FAILED
from sandbox.cli.said import INTERRUPTED as INTERRUPTED
from sandbox.cli.said import NOT_PERMITTED as NOT_PERMITTED
from sandbox.cli.said import PIPE_CLOSED as PIPE_CLOSED
from sandbox.cli.said import REFUSED as REFUSED
from sandbox.cli.said import TIMED_OUT as TIMED_OUT
from sandbox.cli.said import USAGE as USAGE
from sandbox.cli.said import broken_pipe as broken_pipe
from sandbox.cli.said import say as say
from sandbox.cli.said import show_bytes as show_bytes
from sandbox.cli.said import user as user
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs

if TYPE_CHECKING:
    from sandbox.client.blocking import BlockingClient
    from sandbox.host.poll import Readable

YES = ("yes", "proceed")
"""What counts as a yes (safety-guardrails.md, Approval Checkpoints)."""
NO = ("no", "n", "")
TRIES = 3


def dirs() -> Dirs:
    """Return the folders of this user's Lockgate."""
    return Dirs.default()


def show(text: str) -> None:
    """Print an answer to stdout."""
    click.echo(text)


def show_aside(text: str) -> None:
    """Print what a person reads to stderr, beside the answer."""
    click.echo(text, err=True)


def show_json(value: Any) -> None:
    """Print an answer as JSON to stdout."""
    click.echo(json.dumps(value, indent=2))


def client() -> BlockingClient:
    """Return a client of this user's supervisor; what is to be known of that is said."""
    from sandbox.client.blocking import BlockingClient

    return BlockingClient(dirs(), notify=say)


WAIT_SECONDS = 60.0
"""How long a person's word waits for calls that keep an older supervisor from being replaced."""


def patient_client() -> BlockingClient:
    """Return a client for what a person wants done to calls that have ended: where a supervisor
    with other settings is busy still, it waits for a while, and says so."""
    from sandbox.client.blocking import BlockingClient

    def wait(message: str) -> None:
        from sandbox.config.settings import load_settings

        load_settings(dirs())  # no supervisor would start with settings that cannot be read
        say(message)

    return BlockingClient(dirs(), notify=say, wait_seconds=WAIT_SECONDS, on_wait=wait)


def leave(status: int) -> NoReturn:
    """End the command with a status."""
    click.get_current_context().exit(status)


def refuse(error: SandboxError, status: int) -> NoReturn:
    """Say why it failed, and end with the status."""
    say(str(error))
    leave(status)


def person_present() -> bool:
    """Whether this process has a terminal of its own, at which a person may sit.

    An agent under watch may have one too, and is no person.
    """
    if is_an_agents():
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return sys.stdin is not None and sys.stdin.isatty()
    return True


def is_an_agents() -> bool:
    """Whether this process belongs to an agent under watch.

    The mark of an agent of another state folder counts too: an agent can name the folder.
    """
    from sandbox.processes.table import Host

    host, pid = Host(), os.getpid()
    if any(host.marker(one.pid) for one in host.line(pid) if one.pid > 1):
        return True
    if not (dirs().state / "agents").is_dir():
        return False
    from sandbox.agents.registry import Registry

    return Registry(dirs()).of_process(pid) is not None


def can_ask() -> bool:
    """Whether a question can be answered: stdin is a terminal, and this is no agent's process."""
    return sys.stdin is not None and sys.stdin.isatty() and not is_an_agents()


def only_a_person(what: str) -> None:
    """End the command with NOT_PERMITTED where an agent's process wants what a person decides.

    For what needs no terminal, since a person's own scripts do it too.
    """
    if is_an_agents():
        say(f"{what} is a person's decision, and this process is an agent's")
        leave(NOT_PERMITTED)


def require_person(what: str) -> None:
    """End the command with NOT_PERMITTED where no person sits at a terminal of this process."""
    if not person_present():
        why = "; this one belongs to an agent (`lockgate agent list`)" if is_an_agents() else ""
        say(f"{what} is a person's decision and needs a terminal{why}")
        leave(NOT_PERMITTED)


def agree(question: str, *, alone: str, no: str) -> bool:
    """Ask for a person's word; say `alone` where nobody can be asked, `no` where it is not given.

    The question must be safe for a terminal already.
    """
    if not can_ask():
        say(alone)
        return False
    if ask(question):
        return True
    say(no)
    return False


def ask(question: str) -> bool:
    """Ask a person; only `yes` and `proceed` are a yes, and only what is typed after the question.

    The question must be safe for a terminal already.
    """
    return ask_until(question, None) is True


def ask_until(question: str, elsewhere: Readable | None) -> bool | None:
    """Ask a person; return None once `elsewhere` has something to say: nobody is asked any more."""
    import termios

    from sandbox.host.poll import readable

    for _ in range(TRIES):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        click.echo(f"{question} [yes/no] ", nl=False, err=True)
        if elsewhere is not None and sys.stdin not in readable([sys.stdin, elsewhere]):
            click.echo(err=True)
            return None
        line = sys.stdin.readline()
        said = line.strip().lower()
        if said in YES:
            return True
        if said in NO or not line:
            return False
        click.echo("please type yes or no", err=True)
    return False
