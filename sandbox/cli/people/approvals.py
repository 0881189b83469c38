# SPDX-License-Identifier: Apache-2.0
"""`approvals`, `approve`, `deny`, `grant`, `grants`, `revoke`: what a person says to calls.

They work on the file of questions itself, so they need no running supervisor; a call that waits in
one notices the answer. Every answer needs a terminal and is refused to a process of an agent.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sandbox.cli import terminal
from sandbox.cli.options import JSON, Duration
from sandbox.cli.people import answering
from sandbox.errors import BadInput
from sandbox.text.durations import say_duration
from sandbox.text.terminal import cut, safe_line

if TYPE_CHECKING:
    from policy.model import Host
    from policy.people.approval import Grant
    from sandbox.approvals.store.request import Request

_WANTS_CHARS = 60


def _terms(command: Any) -> Any:
    """Add the options that say how far a yes goes."""
    for option in reversed(
        (
            click.option(
                "--uses",
                type=click.IntRange(1, 10_000),
                default=1,
                metavar="N",
                help="How often it can be used; default: once.",
            ),
            click.option(
                "--for",
                "seconds",
                type=Duration(),
                default="300",
                metavar="TIME",
                help="How long it counts (90s, 10m, 2h); default: 5 minutes.",
            ),
            click.option(
                "--task", metavar="ID", help="Only calls that are derived from this task."
            ),
            click.option(
                "--scope",
                type=click.Choice(["exact", "program", "category"]),
                default="exact",
                help="Exactly this call; the same commands (verb, targets, options) on the same "
                "paths; or this kind of question with the same programs and options.",
            ),
            click.option("--reason", default="", metavar="TEXT", help="Why, for the record."),
        )
    ):
        command = option(command)
    return command


@click.command(short_help="List the calls that wait for a person; answer them in a live list.")
@click.option("--watch", is_flag=True, help="A live list at a terminal, answered with a key.")
@JSON
def approvals(**flags: bool) -> int:
    """List the questions that wait for a person's answer, the oldest first.

    What was asked several times stands there once: one answer settles it. With --watch the list
    stays: the bell rings for a new question, and a key shows one whole, allows it (once, for the
    agent's session, always in its workspace) or denies it.

    \b
    Examples:
      lockgate approvals
      lockgate approvals --watch
      lockgate approvals --json
    """
    if flags["watch"]:
        from sandbox.cli.people.watch import watch

        if flags["as_json"]:
            raise BadInput("`--watch` and `--json` do not go together")
        return watch()
    from sandbox.approvals.desk import said_of
    from sandbox.present.render import short_names
    from sandbox.present.tables import table

    now = time.time()
    questions = answering.open_grants().open_questions(now)
    times = Counter(question.request.wanted.digest for question in questions)
    newest = {question.request.wanted.digest: question for question in questions}
    found = sorted(newest.values(), key=lambda one: one.request.asked)
    if flags["as_json"]:
        terminal.show_json(
            [
                {
                    **said_of(one.request),
                    "action_id": one.request.wanted.action_id,
                    "times": times[one.request.wanted.digest],
                    "asked": one.request.asked,
                    "until": one.request.until,
                }
                for one in found
            ]
        )
        return 0
    places = short_names(one.request.plan.workspace for one in found)
    rows = [
        (
            one.request.call,
            places[one.request.plan.workspace],
            one.request.plan.agent,
            one.request.plan.tool,
            one.request.decision.tier.value,
            _wants(one.request),
            f"{say_duration(one.request.until - now)} left",
        )
        for one in found
    ]
    if rows:
        columns = ("call", "workspace", "agent", "tool", "risk", "wants", "waits")
        terminal.show(table(columns, rows))
        terminal.say(
            "`lockgate approve CALL` shows the whole card and asks you; `deny CALL` says no; "
            "`lockgate approvals --watch` keeps the list open"
        )
    else:
        terminal.show("no call waits for a person")
    return 0


@click.command(short_help="Approve a call that waits.")
@click.argument("call")
@_terms
@click.option(
    "--yes", is_flag=True, help="Do not show the card and ask; needs a terminal all the same."
)
def approve(call: str, scope: str, uses: int, seconds: float, task: str | None, **rest: Any) -> int:
    """Show what CALL wants to do and approve it: once and for five minutes, unless you say more.

    CALL is an id of `lockgate approvals`, a beginning of one, or `last`: the newest that waits.
    A call that waits goes on at once. One whose agent did not wait uses the grant when it makes the
    same call again.

    \b
    Examples:
      lockgate approve last
      lockgate approve c1a2b3c4d5 --uses 5 --for 30m --scope program
    """
    from policy.people.approval import Scope
    from sandbox.approvals.store.request import Terms

    terminal.require_person("approving")
    asked = answering.open_grants().named(call)
    request = asked.request
    if rest["yes"] and call != request.call:  # what it names may be another one by now (P8)
        raise BadInput(f"`--yes` needs the whole id of a call: `{safe_line(request.call)}`?")
    if asked.state != "open":
        raise BadInput(f"the question about call `{safe_line(request.call)}` is {asked.state}")
    if not rest["yes"]:
        answering.show_card(request)
        if not terminal.ask("Approve it?"):
            terminal.say("not approved; the question stays open (`lockgate deny` closes it)")
            return terminal.REFUSED
    terms = Terms(Scope(scope), uses, seconds, task)
    _tell(answering.approve(request, terms, str(rest["reason"])))
    return 0


@click.command(short_help="Refuse a call that waits.")
@click.argument("call")
@click.option("--reason", default="", metavar="TEXT", help="Why; the agent reads it.")
def deny(call: str, reason: str) -> int:
    """Say no to CALL (an id, a beginning of one, or `last`: the newest that waits). Its agent is
    told, with the reason.

    \b
    Examples:
      lockgate deny last
      lockgate deny c1a2b3c4d5 --reason 'use the staging database'
    """
    terminal.require_person("refusing")
    request = answering.open_grants().named(call).request
    answering.refuse(request, reason)
    terminal.show(f"refused {safe_line(request.call)}: {_wants(request)}")
    return 0


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Approve a call before it is made.",
)
@click.option("-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in.")
@click.option("--agent", default="main", metavar="ID", help="Agent that may make the call.")
@click.option("--role", metavar="ROLE", help="Role of that agent.")
@click.option(
    "--cwd", metavar="PATH", help="Folder that the call starts in; default: where you are."
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="A host that the command may reach; for commands about which nobody is asked.",
)
@_terms
@click.argument("action", nargs=-1, required=True, type=click.UNPROCESSED)
def grant(
    action: tuple[str, ...],
    workspace: str | None,
    agent: str,
    role: str | None,
    cwd: str | None,
    hosts: tuple[str, ...],
    scope: str,
    uses: int,
    seconds: float,
    task: str | None,
    reason: str,
) -> int:
    """Approve ACTION in advance: a command, or the short id of one that was asked about.

    \b
    Examples:
      lockgate grant --for 10m -- git push origin main
      lockgate grant --reason 'cleaning up' Bash:1a2b3c4d
      lockgate grant --host api.example --uses 5 -- python3 fetch.py
    """
    from policy.people.approval import Scope, opening
    from sandbox.approvals.pregrant import by_id, of_command
    from sandbox.approvals.store.request import Terms

    terminal.require_person("granting")
    start = os.path.abspath(cwd) if cwd else None  # noqa: PTH100
    named = tuple(map(_host, hosts))
    if named and scope != Scope.EXACT.value:
        raise BadInput("`--host` is for exactly one command; leave `--scope` out")
    request = by_id(terminal.dirs(), action[0]) if not named else None
    if request is not None and len(action) > 1:
        raise BadInput(f"options come before the id: `{safe_line(action[1])}` is not understood")
    if request is None:
        request = of_command(
            terminal.dirs(),
            action,
            workspace=workspace,
            agent=agent,
            role=role,
            cwd=start,
            here=start or _here(),
            task=task,
            opens=bool(named),
        )
    opens = opening(request.plan, named) if named else None
    terms = Terms(Scope(scope), uses, seconds, task, opens)
    _tell(answering.approve(request, terms, reason))
    return 0


@click.command(short_help="List what was granted.")
@click.option("--all", "everything", is_flag=True, help="Also those that are used up or over.")
@JSON
def grants(everything: bool, **flags: bool) -> int:
    """List the grants that can still be used, with how often and how long. One for a session goes
    with the session (--all shows it), and counts again where the agent takes the session up again.

    \b
    Examples:
      lockgate grants
      lockgate grants --all --json
    """
    from sandbox.present.tables import table

    now = time.time()
    kept = answering.open_grants().all()
    ended = _of_ended_sessions(kept)
    found = [one for one in kept if everything or (one.open(now) and one.id not in ended)]
    if flags["as_json"]:
        terminal.show_json(
            [
                {
                    **one.model_dump(mode="json"),
                    "open": one.open(now),
                    "session_ended": one.id in ended,
                    "covers": one.words(),
                }
                for one in found
            ]
        )
        return 0
    rows = [
        (
            one.id,
            one.wanted.agent,
            one.scope.value,
            one.wanted.action_id,
            f"{one.used} of {one.uses}",
            _left(one, now, ended=one.id in ended),
            one.by,
            safe_line(one.words())[: answering.MOST_SHOWN],
        )
        for one in found
    ]
    heads = ("grant", "agent", "scope", "action", "used", "time", "by", "covers")
    terminal.show(table(heads, rows) if rows else "no grant can be used")
    return 0


@click.command(short_help="Take a grant back.")
@click.argument("grant_id", metavar="GRANT")
def revoke(grant_id: str) -> int:
    """Take GRANT back (an id, a beginning of one, or `last`: the newest that can be used); no call
    can use it any more.

    \b
    Examples:
      lockgate revoke last
      lockgate revoke g1a2b3c4d5
    """
    from sandbox.approvals import answers

    terminal.require_person("revoking")
    found = answers.revoke(terminal.dirs().create(), grant_id, by=terminal.user())
    terminal.show(f"revoked {found.id}")
    return 0


def _of_ended_sessions(kept: Sequence[Grant]) -> frozenset[str]:
    """Return the grants whose session of an agent under watch has ended."""
    bound = [one for one in kept if one.session is not None and one.watched]
    living = answering.living_sessions() if bound else frozenset()
    return frozenset(one.id for one in bound if one.session not in living)


def _left(one: Grant, now: float, *, ended: bool) -> str:
    """Say how long a grant can still be used."""
    if not one.open(now):
        return "over"
    return "its session has ended" if ended else f"{say_duration(one.until - now)} left"


def _host(text: str) -> Host:
    from policy.rules.reach import named_host

    host = named_host(text)
    if host is None:
        raise BadInput(f"`{safe_line(text)}` is no host: write `NAME` or `NAME:PORT`, such as "
                       "`api.example`")  # fmt: skip
    return host


def _tell(made: Grant) -> None:
    terminal.show(answering.granted(made))
    terminal.say(f"it covers {safe_line(made.words())[: answering.MOST_SHOWN]}")


def _wants(request: Request) -> str:
    """Say in a few words what a call wants to do."""
    from sandbox.approvals.desk import said_of

    if (reach := request.reach) is not None:  # whose it is, the end of a name says
        words = safe_line(reach.host.words())
        return words if len(words) <= _WANTS_CHARS else "…" + words[1 - _WANTS_CHARS :]
    return cut(safe_line(str(said_of(request)["action"]) or request.plan.tool), _WANTS_CHARS)


def _here() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None
