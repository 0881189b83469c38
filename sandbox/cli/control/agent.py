# SPDX-License-Identifier: Apache-2.0
"""`lockgate agent`: agents under watch, which a stop reaches."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput, Stopped
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.agents.declared import Declared
    from sandbox.agents.registry import Agent, Registry

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ROLE = click.option("--role", metavar="R", help="Its role; it can only narrow its parent's.")
NAME = click.option("--name", metavar="N", help="Its name; default: made of the program's.")
PARENT = click.option(
    "--parent", metavar="P", help="The agent that it works for; default: the one that starts it."
)


NOT_FOUND = 127


@click.group(short_help="Start, list and watch agents on this host.")
def agent() -> None:
    """Agents under watch: programs on this host that `lockgate stop` ends with all they started.

    \b
    Examples:
      lockgate agent run --role coder -- my-agent --some-option
      lockgate agent list
      lockgate stop --agent my-agent-3f2a
    """


@agent.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Start an agent under watch.",
)
@ROLE
@NAME
@PARENT
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(role: str | None, name: str | None, parent: str | None, command: tuple[str, ...]) -> int:
    """Start COMMAND under watch, with this terminal, and end with its status.

    The status is COMMAND's own; 125: Lockgate failed, 126: a stop is in force, 127: not found.

    \b
    Examples:
      lockgate agent run -- my-agent
      lockgate agent run --name reviewer --role critic --parent lead -- my-agent review
    """
    from sandbox.agents.run import end_as
    from sandbox.agents.run import run as start
    from sandbox.gates.policy_files import user_roles

    if shutil.which(command[0]) is None:
        terminal.say(f"`{command[0]}` is not found, or cannot be run")
        return NOT_FOUND
    dirs = terminal.dirs().create()
    try:
        status, one, left = start(
            dirs, command, name=name, role=role, parent=parent, roles=user_roles(dirs)
        )
    except Stopped as error:
        terminal.refuse(error, terminal.NOT_PERMITTED)
    if left:
        some = "1 process of it goes on" if left == 1 else f"{left} processes of it go on"
        terminal.say(f"agent {one.id} has ended; {some}; `lockgate stop --agent {one.id}` ends it")
    sys.stdout.flush()
    return end_as(status)


@agent.command(short_help="Put a running process under watch.")
@click.argument("pid", type=click.IntRange(min=1))
@ROLE
@NAME
@PARENT
@JSON
def attach(pid: int, role: str | None, name: str | None, parent: str | None, **flags: bool) -> int:
    """Put a process that runs already under watch, with all that it started or will start.

    \b
    Example:
      lockgate agent attach 4242 --name helper
    """
    import os

    from sandbox.agents.registering import register
    from sandbox.agents.registry import Registry
    from sandbox.gates.policy_files import user_roles
    from sandbox.host.latch import below

    dirs = terminal.dirs().create()
    if pid == os.getpid():
        raise BadInput(f"process {pid} is this very command")
    if "sandbox.server.server" in Registry(dirs).host.command(pid):
        raise BadInput(f"process {pid} is a supervisor, and no agent")
    known = Registry(dirs).of_process(pid)
    asking = Registry(dirs).of_process(os.getpid())
    if asking is not None and (known is None or not below(asking.path, known.path)):
        raise BadInput(
            f"this is agent `{asking.id}`, which can put processes of its own alone under watch"
        )
    if known is not None and known.pid == pid:
        raise BadInput(f"process {pid} is agent `{known.id}` already")
    if known is not None and name is None:
        raise BadInput(
            f"process {pid} belongs to agent `{known.id}`; `--name` makes it a child of that"
        )
    one = register(
        dirs, pid, name=name, role=role, parent=parent, source="attach", roles=user_roles(dirs)
    )
    if flags["as_json"]:
        terminal.show_json(_row(Registry(dirs), one))
    else:
        terminal.show(f"agent {one.id}: process {pid} is under watch")
    return 0


@agent.command(short_help="Name an agent before it runs, with its role.")
@click.argument("name", metavar="A")
@ROLE
@click.option("--parent", metavar="P", help="The declared agent that it works for.")
def add(name: str, role: str | None, parent: str | None) -> int:
    """Name an agent before it runs, with its role and parent. Calls under its name, and programs
    that are started under it, have that role within the parent's from then on.

    \b
    Examples:
      lockgate agent add lead --role coder
      lockgate agent add reviewer --role critic --parent lead
      lockgate agent run --name reviewer -- my-agent review
    """
    from sandbox.agents.declared import Declarations, declaration
    from sandbox.gates.policy_files import user_roles

    dirs = terminal.dirs().create()
    _no_agent(name)
    known = Declarations(dirs)
    one = declaration(known, name, parent=parent, role=role, roles=user_roles(dirs))
    known.add(one)
    above = f", which works for {one.parent}" if one.parent else ""
    terminal.show(f"agent {one.id}{above}: role {one.role or 'none, all that its caller may'}")
    return 0


@agent.command("list", short_help="List the agents that are declared or under watch.")
@JSON
def list_(**flags: bool) -> int:
    """List the agents that are declared or under watch.

    \b
    Examples:
      lockgate agent list
      lockgate agent list --json
    """
    from sandbox.agents.registry import Registry
    from sandbox.present.tables import table

    registry = Registry(terminal.dirs())
    registry.drop_ended()
    rows = [_row(registry, one) for one in registry.all()]
    running = {row["id"] for row in rows}
    rows += [_declared(one) for one in registry.declared.all() if one.id not in running]
    if flags["as_json"]:
        terminal.show_json(rows)
    elif rows:
        names = ("id", "role", "parent", "pid", "state", "processes", "since", "program")
        shown = [[safe_line(_text(row[name])) for name in names] for row in rows]
        terminal.show(table(names, shown))
    else:
        terminal.show(
            "no agent is declared or under watch; `lockgate agent run -- COMMAND` starts one"
        )
    return 0


@agent.command("show", short_help="Show one agent and its processes.")
@click.argument("name", metavar="A")
@JSON
def show_(name: str, **flags: bool) -> int:
    """Show one agent and its processes.

    \b
    Example:
      lockgate agent show my-agent-3f2a
    """
    from sandbox.agents.registry import Registry
    from sandbox.present.tables import table

    registry = Registry(terminal.dirs())
    one = _found(registry, name)
    row = _row(registry, one)
    members = sorted(registry.members(one).items())
    row["members"] = [
        {"pid": pid, "why": target.why, "command": registry.host.command(pid)}
        for pid, target in members
    ]
    if flags["as_json"]:
        terminal.show_json(row)
        return 0
    for key, value in row.items():
        if key != "members":
            terminal.show(f"{key:<10} {safe_line(_text(value))}")
    if members:
        shown = [
            (str(pid), target.why, safe_line(registry.host.command(pid))[:100])
            for pid, target in members
        ]
        terminal.show(table(("pid", "proof", "command"), shown))
    return 0


@agent.command(short_help="Forget an agent; its processes go on.")
@click.argument("name", metavar="A")
def remove(name: str) -> int:
    """Watch an agent no more, and forget what was declared of it. While it runs that is a person's
    decision: it needs a terminal.

    \b
    Example:
      lockgate agent remove helper
    """
    from sandbox.agents.registry import Registry

    registry = Registry(terminal.dirs())
    declared = registry.declared.find(name)
    if declared is not None:
        _no_agent(declared.id)
    registry.drop_ended()
    if declared is not None and registry.find(name) is None:
        registry.declared.remove(declared)
        terminal.show(f"agent {declared.id} is declared no more")
        return 0
    one = _found(registry, name)
    count = len(registry.members(one))
    if count and not terminal.person_present():
        terminal.say(
            f"agent {one.id} runs; to watch it no more is a person's decision and needs a "
            "terminal outside of every agent"
        )
        return terminal.NOT_PERMITTED
    if declared is not None:
        registry.declared.remove(declared)
    registry.remove(one)
    terminal.show(f"agent {one.id} is watched no more" + ("; it goes on" if count else ""))
    return 0


@agent.command(short_help="End a pause or a stop of one agent.")
@click.argument("name", metavar="A")
def resume(name: str) -> int:
    """Let an agent's calls run again. That is a person's decision: it needs a terminal.

    \b
    Example:
      lockgate agent resume coder
    """
    from sandbox.cli.control.stop import clear

    return clear(name)


def _no_agent(name: str) -> None:
    """Raise BadInput where this command belongs to an agent: what agents may, a person says."""
    import os

    from sandbox.agents.registry import Registry

    asking = Registry(terminal.dirs()).of_process(os.getpid())
    if asking is not None:
        raise BadInput(
            f"what `{safe_line(name)}` may do is a person's to say; this is agent `{asking.id}`"
        )


def _declared(one: Declared) -> dict[str, Any]:
    """Return what is shown of an agent that does not run."""
    return {
        "id": one.id,
        "path": one.path,
        "role": one.role,
        "parent": one.parent,
        "state": "declared",
        "processes": 0,
        "source": "declared",
        "pid": None,
        "since": None,
        "program": None,
    }


def _found(registry: Registry, name: str) -> Agent:
    registry.drop_ended()
    one = registry.find(name)
    if one is None:
        raise BadInput(f"there is no agent `{safe_line(name)}`; see `lockgate agent list`")
    return one


def _row(registry: Registry, one: Agent) -> dict[str, Any]:
    """Return what is shown of an agent; its token is nobody's business."""
    from sandbox.agents.view import state

    members = registry.members(one)
    return {
        "id": one.id,
        "path": one.path,
        "role": one.role,
        "parent": one.parent,
        "pid": one.pid,
        "state": state(terminal.dirs(), one, members),
        "processes": len(members),
        "since": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.started)),
        "source": one.source,
        "program": one.program,
    }


def _text(value: object) -> str:
    return "" if value is None else str(value)
