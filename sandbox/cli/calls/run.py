# SPDX-License-Identifier: Apache-2.0
"""`lockgate run`: one command through both gates. Imports nothing heavy; it is run all day."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sandbox.cli import terminal
from sandbox.cli.control.interrupts import Interrupts, keep_going
from sandbox.client.blocking import BlockingClient
from sandbox.errors import SandboxError, Stopped
from sandbox.text.durations import say_duration
from sandbox.text.terminal import SafeStream, safe_line

if TYPE_CHECKING:
    from sandbox.approvals.store import Request
    from sandbox.host.poll import Readable


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command in the workspace's cell.",
)
@click.option("-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in.")
@click.option(
    "--also", multiple=True, metavar="PATH", help="A further workspace that it may see; repeatable."
)
@click.option("--agent", default="main", metavar="ID", help="Agent that the call belongs to.")
@click.option("--role", metavar="ROLE", help="Role of the agent; it can only narrow.")
@click.option("--user", metavar="NAME", help="User whose levels count; default: you.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End the command after this time (status 124).",
)
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="Set a variable for the command; repeatable."
)
@click.option("--cwd", metavar="PATH", help="Folder to start in; default: the one you are in.")
@click.option("--intent", default="", metavar="TEXT", help="Why the command is run, for the log.")
@click.option("--task", metavar="ID", help="Task that it is derived from, for grants and the log.")
@click.option("--background", is_flag=True, help="Start it, print its id and return.")
@click.option("-i", "--stdin", is_flag=True, help="Pass a terminal's input on; pipes always are.")
@click.option("--raw", is_flag=True, help="Pass output on byte for byte (default: safe to print).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what landed.")
@click.option("--yes", is_flag=True, help="Say yes to gate 1's question; needs a terminal.")
@click.option(
    "--wait", is_flag=True, help="Wait for `lockgate approve` where nobody is here to ask."
)
@click.option("--ticket", metavar="TICKET", hidden=True, help="Make a call that a hook admitted.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    workspace: str | None,
    also: tuple[str, ...],
    agent: str,
    role: str | None,
    user: str | None,
    timeout: float | None,
    env: tuple[str, ...],
    cwd: str | None,
    intent: str,
    task: str | None,
    command: tuple[str, ...],
    ticket: str | None,
    **flags: bool,
) -> int:
    """Run COMMAND in the workspace's cell, judge what it changed, and land that.

    One argument is shell text, given to bash; several are a program and its arguments.

    The status is the command's own; 124: time limit (120 s unless --timeout says so), 125:
    Lockgate failed, 126: not permitted (denied, nobody to ask, or its changes were held or
    discarded), 127: not found, 128+n: ended by signal n. What a command had changed when its time
    was over lands; Ctrl-C throws it away, and Ctrl-C twice within 2 s stops everything.

    \b
    Examples:
      lockgate run -- pytest -q
      lockgate run 'grep -rn TODO src | wc -l'
      lockgate run -w ~/project --timeout 60 -- make test
      lockgate run --background -- python3 -m http.server
    """
    import shlex

    if ticket is not None:
        # What the agent types into it later was not judged: the call gets no input.
        flags |= {"stdin": False, "no_input": True}
        return _make({"ticket": ticket, "text": flags["as_json"]}, None, flags)
    if not command:
        raise click.MissingParameter(param_type="argument", param_hint="'COMMAND...'")
    if flags["yes"] and not terminal.person_present():
        terminal.say("`--yes` is a person's word and counts only at a terminal")
        return terminal.NOT_PERMITTED
    if not _is_text(command):
        terminal.say("the command is not UTF-8 text, so it cannot be judged")
        return terminal.FAILED
    params: dict[str, Any] = {
        "command": command[0] if len(command) == 1 else shlex.join(command),
        "run_in_background": flags["background"],
    }
    if timeout is not None:
        params["timeout"] = timeout * 1000
    plan = {
        "tool": "Bash",
        "params": params,
        "intent": intent,
        "agent": agent,
        "role": role,
        **({"user": user} if user else {}),
        **({"derived_from": task} if task else {}),
        "workspace": os.path.abspath(workspace) if workspace else None,  # noqa: PTH100
        "also": [os.path.abspath(one) for one in also],  # noqa: PTH100
        "cwd": os.path.abspath(cwd) if cwd else None,  # noqa: PTH100
    }
    fields = {"plan": plan, "here": _here(), "env": _environment(env), "text": flags["as_json"]}
    asking = _asking(yes=flags["yes"])
    if asking is None and flags["wait"]:
        terminal.say("if it needs a person, it waits: `lockgate approvals` lists what waits")
        fields["ask"] = "wait"
    return _make(fields, asking, flags)


PATIENCE = 50
"""Seconds for which a call without a terminal waits for an answer from elsewhere, in a shell."""


def called(
    fields: dict[str, Any], flags: Mapping[str, bool], typed: bytearray | None = None
) -> int:
    """Make a call for another command: a person at the terminal is asked, or one elsewhere.

    What was typed meanwhile and the command did not read is added to `typed`.
    """
    asking = _asking(yes=False)
    return _make(fields if asking else {**fields, "ask": PATIENCE}, asking, flags, typed)


def _make(
    fields: dict[str, Any],
    asking: Any,
    flags: Mapping[str, bool],
    typed: bytearray | None = None,
) -> int:
    """Make the call, show what comes of it, and return the status."""
    # only what a person reads counts as told: else it waits for `lockgate reports`
    shows = sys.stderr.isatty() and not (flags["as_json"] or flags["quiet"] or "ticket" in fields)
    output = _Output(raw=flags["raw"], silent=flags["as_json"])
    interrupts = Interrupts().__enter__()
    sent = bytearray()
    try:
        with BlockingClient(terminal.dirs()) as client:
            if "ticket" in fields:
                client.keep_running()
            result = client.exchange(
                {"op": "call", "shows": shows, **fields},
                on_output=output.write,
                on_ask=asking,
                stdin=None if flags.get("no_input") else _input(wanted=flags["stdin"]),
                on_input=None if typed is None else sent.extend,
                on_wait=None if flags["as_json"] or flags["quiet"] else _say_waiting,
            )
        output.close()
    except Stopped as error:
        terminal.refuse(error, terminal.NOT_PERMITTED)
    except SandboxError as error:
        output.close()
        terminal.refuse(error, terminal.FAILED)
    except KeyboardInterrupt:
        interrupts.cancelled()
        with contextlib.suppress(OSError):  # nobody reads it; the wait counts all the same
            output.close()
            terminal.say(
                "not run: you gave no answer"
                if getattr(asking, "open", False)
                else "cancelled: the command was ended, nothing of it landed"
            )
        return _stop_everything() if interrupts.again() else terminal.INTERRUPTED
    except BrokenPipeError:
        return terminal.broken_pipe()
    interrupts.__exit__()  # the call has ended
    if typed is not None:
        ran, read = result["exit_status"] is not None, result["input_read"]
        typed += b"" if ran and read is None else sent[read or 0 :]
    if flags["as_json"]:
        terminal.show_json(result)
        return _status(result)
    status = _conclude(result, quiet=flags["quiet"])
    if shows and result.get("report"):
        terminal.say(f"report: {safe_line(result['report']['details'])}")
    return status


def _say_waiting(call: str, seconds: float) -> None:
    terminal.say(f"landing in {say_duration(seconds)}; `lockgate object {call}` prevents it")


def _stop_everything() -> int:
    """Stop everything, since a person pressed Ctrl-C twice."""
    from sandbox.cli.control.stop import show
    from sandbox.stopping.stop import stop_all

    keep_going()
    show(stop_all(terminal.dirs(), "Ctrl-C twice in `lockgate run`"), to_stderr=True)
    return terminal.INTERRUPTED


class _Output:
    """Passes the command's output on as it comes."""

    def __init__(self, *, raw: bool, silent: bool) -> None:
        self._silent = silent
        self._raw = raw
        self._safe = {"stdout": SafeStream(), "stderr": SafeStream()}
        self._altered = False

    def write(self, stream: str, data: bytes) -> None:
        """Show a piece of output."""
        if self._silent:
            return
        if self._raw:
            self._put(stream, data)
            return
        self._altered = self._altered or (stream == "stdout" and b"\0" in data)
        self._put(stream, self._safe[stream].feed(data).encode())

    def close(self) -> None:
        """Show what was held back, and end colours that were left on."""
        if self._silent or self._raw:
            return
        for stream, safe in self._safe.items():
            self._put(stream, safe.close().encode())
        if self._altered and not sys.stdout.isatty():
            terminal.say(
                "the output is binary and was made safe to print; `--raw` passes it as it is"
            )

    @staticmethod
    def _put(stream: str, data: bytes) -> None:
        if data:
            terminal.show_bytes(data, to_stderr=stream == "stderr")


def _asking(*, yes: bool) -> Any:
    """Return what answers gate 1's question: `--yes`, a person at the terminal, or nobody."""
    if yes:
        from sandbox.approvals.approver import UNSEEN

        return lambda message, line: {"approved": True, "by": terminal.user(), "reason": UNSEEN}
    if not terminal.can_ask():
        return None

    return _Person()


class _Person:
    """Asks the person at the terminal."""

    def __init__(self) -> None:
        self.open = False
        """Whether a question stands there without an answer."""

    def __call__(self, message: Mapping[str, Any], line: Readable) -> dict[str, Any] | None:
        """Show the card and ask; None where it was answered from elsewhere."""
        from sandbox.present.card import card

        self.open = True
        asked = _asked(message.get("call"))
        shown = card(
            message["plan"],
            message["decision"],
            paths=asked.wanted.paths if asked else None,
            preview=asked.preview if asked else {},
            env=asked.env if asked else {},
            stdin=asked.stdin if asked else "",
        )
        click.echo(shown, err=True)
        approved = terminal.ask_until("Run it?", line)
        self.open = False
        if approved is None:
            terminal.say("it was answered from elsewhere, or its time is over")
            return None
        return {
            "approved": approved,
            "by": terminal.user(),
            "reason": "" if approved else "a person's no",
        }


def _asked(call: object) -> Request | None:
    """Return the question about a call that waits; None where it is answered already."""
    from sandbox.approvals.store import Grants
    from sandbox.errors import BadInput

    try:
        return Grants(terminal.dirs()).asked(str(call)).request
    except BadInput:  # it was answered from elsewhere just now
        return None


def _conclude(result: Mapping[str, Any], *, quiet: bool) -> int:
    """Say in one line what is to be said of the outcome; return the status."""
    message = str(result.get("message", ""))
    call = result["id"]
    match result["ending"]:
        case "denied":
            terminal.say(_opening("denied", message))
        case "not-approved":
            terminal.say(f"not approved: {message}")
        case "timed-out":
            terminal.say(f"the command was ended: {message or 'the time limit is over'}")
            _say_rest(result)
        case "flooded":
            terminal.say(f"the command was ended: {message or 'it wrote too much'}")
            _say_rest(result)
        case "protected" | "unwatched":
            terminal.say(f"the command was ended: {message}")
            _say_rest(result)
        case "cancelled":
            terminal.say(f"the command was ended: {message or 'it was cancelled'}")
            _say_rest(result)
        case "running":
            click.echo(call)
            if not quiet:
                terminal.say(f"runs in the background; `lockgate end {call}` ends and lands it")
            return 0
        case _ if result.get("judgement") in ("hold", "discard"):
            _say_kept_back(result, message)
        case _ if result.get("landed") and result.get("changes"):
            if not quiet:
                _say_landed(result)
        case _ if message and not quiet:
            terminal.say(message)
    return _status(result)


def _say_rest(result: Mapping[str, Any]) -> None:
    """Say what became of what an ended command had changed until then."""
    if result.get("landed") and result.get("changes"):
        _say_landed({**result, "message": ""})
    elif result.get("judgement") == "land":
        terminal.say("it had changed nothing")


def _say_kept_back(result: Mapping[str, Any], message: str) -> None:
    if result["judgement"] == "discard":
        terminal.say(_opening("discarded", message))
        return
    call = result["id"]
    way = f"; `lockgate show {call}`, then `lockgate land {call}` or `lockgate discard {call}`"
    terminal.say(_opening("held", message) + ("" if "`lockgate show " in message else way))


def _say_landed(result: Mapping[str, Any]) -> None:
    count = max(len(result["changes"]), result.get("changes_total") or 0)  # not all are listed
    what, them = ("1 change", "it") if count == 1 else (f"{count} changes", "them")
    note = f"{result['message']}; " if result.get("message") else ""
    way = f"`lockgate undo {result['id']}` takes {them} back"
    if result.get("undoable") is False:
        way = "it cannot be undone"
    terminal.say(f"{note}landed {what}; {way}")


def _opening(word: str, message: str) -> str:
    return message if message.lower().startswith(word) else f"{word}: {message}"


def _status(result: Mapping[str, Any]) -> int:
    status = result.get("exit_status")
    match result["ending"]:
        case "denied" | "not-approved":
            return terminal.NOT_PERMITTED
        case "timed-out":
            return terminal.TIMED_OUT
        case "protected" | "unwatched":
            return terminal.NOT_PERMITTED
        case "running":
            return 0
        case "cancelled" if status is None:
            return terminal.INTERRUPTED
    if status == 0 and result.get("judgement") in ("hold", "discard"):
        return terminal.NOT_PERMITTED  # what it did is not there: 0 would say that it is
    return int(status) if status is not None else terminal.FAILED


def _is_text(words: tuple[str, ...]) -> bool:
    try:
        "".join(words).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _environment(pairs: tuple[str, ...]) -> dict[str, str] | None:
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise click.BadParameter(f"`{safe_line(pair)}` is not KEY=VALUE", param_hint="--env")
        found[key] = value
    return found or None


def _here() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None


def _input(*, wanted: bool) -> Any:
    """Return stdin where it is a pipe or a file, or a terminal that is wanted; else nothing."""
    import stat

    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return None
    device = stat.S_ISCHR(mode)
    return sys.stdin if not device or (wanted and os.isatty(0)) else None
