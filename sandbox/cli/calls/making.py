# SPDX-License-Identifier: Apache-2.0
"""Make a call and show what comes of it: the part of `lockgate run` that every call needs.

Imports nothing heavy: the thin program uses it as the whole one does, so that both are the same.
"""

from __future__ import annotations

import os
import sys

from sandbox.cli import said
from sandbox.cli.calls.outcome import (
    CallOutput,
    conclude,
    say_host_question,
    say_waiting,
    status_of,
)
from sandbox.cli.control.interrupts import Interrupts, keep_going
from sandbox.client.exchange import Exchange
from sandbox.errors import SandboxError, Stopped
from sandbox.text.plain import plain_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from sandbox.approvals.store.request import Request
    from sandbox.client.line import Line
    from sandbox.host.poll import Readable

_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


class HandOver(Exception):
    """Nothing was asked of a supervisor yet, and it takes the whole program to do it."""


def text_of(words: Sequence[str]) -> str:
    """Return a program and its arguments as shell text; a single word is shell text already."""
    return words[0] if len(words) == 1 else " ".join(map(_quoted, words))


def is_text(words: Sequence[str]) -> bool:
    """Whether all words are UTF-8."""
    try:
        "".join(words).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def fields_of(
    command: Sequence[str],
    *,
    agent: str,
    workspace: str | None = None,
    also: Sequence[str] = (),
    role: str | None = None,
    user: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    intent: str = "",
    task: str | None = None,
    background: bool = False,
    text: bool = False,
) -> dict[str, Any]:
    """Return the fields of a request for a call; `timeout` is in seconds."""
    params: dict[str, Any] = {"command": text_of(command), "run_in_background": background}
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
    return {"plan": plan, "here": _here(), "env": env or None, "text": text}


def make_call(
    opened: Callable[[], Line], fields: dict[str, Any], asking: Any, flags: Mapping[str, bool]
) -> int:
    """Make a call, show what comes of it, and return the status, which a failure has too."""
    try:
        return show_call(opened, fields, asking, flags)
    except SandboxError as error:
        said.say(str(error))
        return said.NOT_PERMITTED if isinstance(error, Stopped) else said.FAILED


def show_call(
    opened: Callable[[], Line],
    fields: dict[str, Any],
    asking: Any,
    flags: Mapping[str, bool],
    typed: bytearray | None = None,
) -> int:
    """Make a call, show what comes of it, and return the status. Raises SandboxError.

    What was typed meanwhile and the command did not read is added to `typed`.
    """
    # only what a person reads counts as told: else it waits for `lockgate reports`
    shows = sys.stderr.isatty() and not (flags["as_json"] or flags["quiet"] or "ticket" in fields)
    output = CallOutput(raw=flags["raw"], silent=flags["as_json"])
    interrupts = Interrupts().__enter__()
    sent = bytearray()
    line = None
    try:
        line = opened()
        one = Exchange(
            line,
            1,
            on_output=output.write,
            on_ask=asking,
            stdin=None if flags.get("no_input") else _input(wanted=flags["stdin"]),
            on_input=None if typed is None else sent.extend,
            on_wait=None if flags["as_json"] or flags["quiet"] else say_waiting,
            on_host=None if flags["as_json"] or flags["quiet"] else say_host_question,
            on_delay=None if flags["as_json"] or flags["quiet"] or "ticket" in fields else said.say,
        )
        result = one.make({"op": "call", "shows": shows, **fields})
        output.close()
    except HandOver:
        interrupts.__exit__()
        raise
    except SandboxError:
        output.close()
        raise
    except KeyboardInterrupt:
        interrupts.cancelled()
        _say_cancelled(output, asked=getattr(asking, "open", False))
        return _stop_everything() if interrupts.again() else said.INTERRUPTED
    except BrokenPipeError:
        return said.broken_pipe()
    finally:
        if line is not None:
            line.close()
    interrupts.__exit__()  # the call has ended
    if typed is not None:
        ran, read = result["exit_status"] is not None, result["input_read"]
        typed += b"" if ran and read is None else sent[read or 0 :]
    if flags["as_json"]:
        import json

        said.show_line(json.dumps(result, indent=2))
        return status_of(result)
    status = conclude(result, quiet=flags["quiet"])
    if shows and result.get("report"):
        said.say(f"report: {plain_line(result['report']['details'])}")
    return status


class Person:
    """Asks the person at the terminal."""

    def __init__(self) -> None:
        self.open = False
        """Whether a question stands there without an answer."""

    def __call__(self, message: Mapping[str, Any], line: Readable) -> dict[str, Any] | None:
        """Show the card and ask; None where it was answered from elsewhere."""
        from sandbox.host.relaunch import load_site

        self.open = True
        load_site()
        from sandbox.cli import terminal
        from sandbox.present.card import card

        asked = _asked(message.get("call"))
        shown = card(
            message["plan"],
            message["decision"],
            paths=asked.wanted.paths if asked else None,
            preview=asked.preview if asked else {},
            env=asked.env if asked else {},
            stdin=asked.stdin if asked else "",
            scripts=asked.scripts if asked else {},
            unbound=asked.wanted.unbound if asked else (),
        )
        terminal.show_aside(shown)
        approved = terminal.ask_until("Run it?", line)
        self.open = False
        if approved is None:
            said.say("it was answered from elsewhere, or its time is over")
            return None
        return {
            "approved": approved,
            "by": said.user(),
            "reason": "" if approved else "a person's no",
        }


def _asked(call: object) -> Request | None:
    """Return the question about a call that waits; None where it is answered already."""
    from sandbox.approvals.store.grants import Grants
    from sandbox.cli import terminal
    from sandbox.errors import BadInput

    try:
        return Grants(terminal.dirs()).asked(str(call)).request
    except BadInput:  # it was answered from elsewhere just now
        return None


def _say_cancelled(output: CallOutput, *, asked: bool) -> None:
    try:
        output.close()
        said.say(
            "not run: you gave no answer"
            if asked
            else "cancelled: the command was ended, nothing of it landed"
        )
    except OSError:  # nobody reads it; the wait for a second key counts all the same
        return


def _stop_everything() -> int:
    """Stop everything, since a person pressed Ctrl-C twice."""
    from sandbox.host.relaunch import load_site

    keep_going()
    load_site()
    from sandbox.cli import terminal
    from sandbox.cli.control.stop import show
    from sandbox.stopping.stop import stop_all

    show(stop_all(terminal.dirs(), "Ctrl-C twice in `lockgate run`"), to_stderr=True)
    return said.INTERRUPTED


def _quoted(word: str) -> str:
    """Return a word as bash reads it back."""
    if word and _UNQUOTED.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


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
