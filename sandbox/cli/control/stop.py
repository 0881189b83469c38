# SPDX-License-Identifier: Apache-2.0
"""`lockgate stop` and `lockgate resume`: the emergency stop and its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput, SandboxError
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.host.latch import Latch
    from sandbox.results import StopReport

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
AGENT = click.option("--agent", metavar="A", help="Only this agent, and all below it.")


@click.command(short_help="End everything now; nothing runs until `resume`.")
@AGENT
@click.option("--reason", default="asked for", metavar="TEXT", help="Why, for the record.")
@JSON
def stop(agent: str | None, reason: str, **flags: bool) -> int:
    """Set the stop latch, end every cell, every agent and every process of theirs, and say what
    was ended, what the last actions were and how to take them back.

    Works without a running supervisor and with an engine that hangs. The status is 1 when
    something was left; it is named.

    \b
    Examples:
      lockgate stop
      lockgate stop --reason "it deletes the wrong branch"
      lockgate stop --agent coder
    """
    from sandbox.cli.control.interrupts import keep_going
    from sandbox.host.latch import Latch

    keep_going()
    dirs = terminal.dirs().create()
    if agent is None:
        with contextlib.suppress(SandboxError):  # before anything that may take time; it is told
            Latch(dirs).set(reason)
    from sandbox.stopping.stop import Stop

    stopping = Stop(dirs, reason, agent=agent, last=True)
    report = stopping.run()
    if stopping.asking:
        from sandbox.stopping.self_stop import end_when_gone

        end_when_gone(dirs, report.agent)
    if flags["as_json"]:
        terminal.show_json(report.model_dump(mode="json"))
    else:
        show(report)
    return terminal.REFUSED if report.left else 0


def show(report: StopReport, *, to_stderr: bool = False) -> None:
    """Show a stop's answer."""
    whom = f"agent {report.agent} " if report.agent else ""
    again = f"lockgate resume --agent {report.agent}" if report.agent else "lockgate resume"
    lines = [f"{whom}stopped: {report.reason}; `{again}` lets calls run again"]
    parts = (
        ("ended", report.killed),
        ("LEFT", report.left),
        ("last actions", report.last),
        ("roll back with", report.rollback),
        ("waits for a person", report.held),
        ("note", report.notes),
    )
    for name, some in parts:
        if some:
            lines += [f"{name}:", *(f"  {one}" for one in some)]
    if not report.killed and not report.left:
        lines.append("nothing ran")
    for line in lines:
        click.echo(safe_line(line), err=to_stderr)


@click.command(short_help="Clear the stop latch.")
@AGENT
@click.option("--ended", is_flag=True, help="Every stopped agent of which nothing runs any more.")
def resume(agent: str | None, **flags: bool) -> int:
    """Let calls run again after a stop. That is a person's decision: it needs a terminal.

    \b
    Examples:
      lockgate resume
      lockgate resume --agent coder
      lockgate resume --ended
    """
    if flags["ended"] and agent:
        raise BadInput("`--agent` names one agent, `--ended` all that run no more; give one")
    return _clear_ended() if flags["ended"] else clear(agent)


def _clear_ended() -> int:
    """Clear the latches of agents of which nothing runs, if a person asks."""
    from sandbox.agents.view import ended
    from sandbox.client.blocking import running_now
    from sandbox.host.latch import Latch

    dirs = terminal.dirs()
    latch, now = Latch(dirs), running_now(dirs)
    gone = ended(dirs, latch.agents(), now["running"], now["cells"])
    if not gone:
        terminal.show("no agent is stopped of which nothing runs")
        return 0
    if not terminal.person_present():
        terminal.say("resuming is a person's decision and needs a terminal outside of every agent")
        return terminal.NOT_PERMITTED
    for info in gone:
        latch.clear(info.agent)
        terminal.show(f"agent {safe_line(str(info.agent))} may run again: {safe_line(info.reason)}")
    return 0


def clear(name: str | None) -> int:
    """Clear the latch of one agent, or of everything, if a person asks."""
    from sandbox.host.latch import Latch

    latch = Latch(terminal.dirs())
    agent = _path(name) if name else None
    info = latch.read(agent)
    if info is None and agent is not None and not _is_known(agent):
        raise BadInput(
            f"there is no agent `{safe_line(agent)}`; `lockgate ps` shows what is stopped, and "
            "`lockgate agent list` those under watch"
        )
    if info is None:
        terminal.show(f"agent {safe_line(agent)} is not stopped" if agent else "not stopped")
        _say_others(latch, agent)
        return 0
    if not terminal.person_present():
        terminal.say("resuming is a person's decision and needs a terminal outside of every agent")
        return terminal.NOT_PERMITTED
    latch.clear(agent)
    whom = f"agent {safe_line(agent)} " if agent else ""
    did = "paused" if info.paused else "stopped"
    at = f" at {safe_line(info.at)}" if info.at else ""
    terminal.show(f"{whom}resumed; it was {did}{at}: {safe_line(info.reason)}")
    _say_others(latch, agent)
    return 0


def _say_others(latch: Latch, agent: str | None) -> None:
    """Say what is stopped still, where that may come as a surprise."""
    from sandbox.host.latch import above

    if agent is not None:
        for info in filter(None, (latch.read(), *map(latch.read, above(agent)))):
            terminal.say(f"still in force: {safe_line(info.message())}")
        return
    others = [latch_info for latch_info in latch.agents() if latch_info.agent]
    if others:
        some = ", ".join(safe_line(str(other.agent)) for other in others)
        terminal.say(f"agents that are stopped or paused: {some}; `lockgate resume --agent A`")


def _is_known(name: str) -> bool:
    """Whether anything is known of an agent that is not stopped: it is under watch, was declared,
    or made a call."""
    from sandbox.agents.registry import Registry
    from sandbox.audit.store import Store
    from sandbox.host.latch import below

    dirs = terminal.dirs()
    registry = Registry(dirs)
    if registry.find(name) is not None or registry.declared.find(name) is not None:
        return True
    return any(entry.agent and below(name, entry.agent) for entry in Store(dirs).newest())


def _path(name: str) -> str:
    """Return the whole name of an agent, which may be gone, or be known by its latch alone."""
    from sandbox.agents.registry import Registry
    from sandbox.host.latch import BETWEEN, Latch

    dirs = terminal.dirs()
    found = Registry(dirs).find(name)
    if found is not None:
        return found.path
    paths = [latch_info.agent for latch_info in Latch(dirs).agents() if latch_info.agent]
    fits = [path for path in paths if path.rpartition(BETWEEN)[2] == name]
    return fits[0] if len(fits) == 1 and name not in paths else name
