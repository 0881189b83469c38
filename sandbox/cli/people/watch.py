# SPDX-License-Identifier: Apache-2.0
"""`lockgate approvals --watch`: a live list of the questions that wait, answered with a key.

A key opens a question; the yes itself is typed below the whole card and below what it will cover,
and counts for that question alone, however the list moved meanwhile (P8).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.cli.people import answering
from sandbox.errors import BadInput, Unavailable
from sandbox.host.poll import readable
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from rich.live import Live

    from sandbox.approvals.offers import Offer
    from sandbox.approvals.store.request import Request

LOOK_SECONDS = 0.5
"""How soon a new question is seen."""
_KEY_BYTES = 64
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[@-~]|.", re.DOTALL)
_UP, _DOWN = (b"\x1b[A", b"\x1bOA", b"k"), (b"\x1b[B", b"\x1bOB", b"j")
_ENDS = (b"q", b"Q", b"\x03", b"\x04")


def watch() -> int:
    """Show the list until the person leaves it; return the status."""
    terminal.require_person("answering")
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise BadInput(
            "`--watch` needs a terminal that it can draw on; `lockgate approvals --json` lists "
            "what waits"
        )
    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.signal(number, _leave)
            stack.callback(signal.signal, number, before)
        try:
            ApprovalsWatch().run()
        except (KeyboardInterrupt, _Left):
            pass
        except OSError:  # the terminal is closed
            terminal.broken_pipe()
    return 0


class _Left(Exception):
    """The terminal went away, or the command is ended."""


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise _Left


class ApprovalsWatch:
    """The list, what is chosen in it, and the person's keys."""

    def __init__(self) -> None:
        self._grants = answering.open_grants()
        self._questions: list[Request] = []
        self._known: set[str] | None = None
        self._chosen = ""
        """The digest of a question, which stays the same where a call asks it again."""
        self._message = ""
        self._answers: dict[bytes, Callable[[Request], None]] = {
            b"\r": self._show,
            b"\n": self._show,
            b"o": lambda request: self._allow(request, "once"),
            b"s": lambda request: self._allow(request, "this_session"),
            b"a": lambda request: self._allow(request, "always_here"),
            b"n": self._deny,
        }

    def run(self) -> None:
        """Show the list until a key ends it."""
        while (request := self._next()) is not None:
            key, question = request
            try:
                self._answers[key](question)
            except (KeyboardInterrupt, EOFError):
                self._message = "not answered; the question stays open"
            except BadInput as error:
                self._message = str(error)

    def _next(self) -> tuple[bytes, Request] | None:
        """Draw the list until a key opens a question; None where a key ends it."""
        from rich.console import Console
        from rich.live import Live

        console = Console(no_color=bool(os.environ.get("NO_COLOR")), highlight=False)
        before = termios.tcgetattr(sys.stdin.fileno())
        try:
            tty.setcbreak(sys.stdin.fileno())
            with Live(console=console, screen=True, auto_refresh=False) as live:
                while True:
                    self.look(live)
                    if not readable([sys.stdin], LOOK_SECONDS):
                        continue
                    keys = os.read(sys.stdin.fileno(), _KEY_BYTES)
                    if not keys:
                        return None
                    for key in _KEY.findall(keys):
                        if key in _ENDS:
                            return None
                        self.move(key)
                        request = self.chosen()
                        if key in self._answers and request is not None:
                            return key, request  # what was typed behind it is no answer
        finally:
            with suppress(termios.error):  # it may be closed
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)

    def look(self, live: Live) -> None:
        """Read what waits and draw it; ring the bell for what is new."""
        from sandbox.cli.people.waiting_list import View, waiting_list

        now = time.time()
        try:
            requests = [question.request for question in self._grants.open_questions(now)]
        except Unavailable as error:  # another one writes; it is looked at again soon
            self._message = str(error)
        else:
            newest = {request.wanted.digest: request for request in requests}
            self._questions = sorted(newest.values(), key=lambda one: one.asked)
            fresh = set(newest) - (set(newest) if self._known is None else self._known)
            self._known = set(newest)
            if fresh:
                live.console.bell()
        chosen = self.chosen()
        if chosen is None and self._questions:
            chosen = self._questions[0]
        self._chosen = "" if chosen is None else chosen.wanted.digest
        view = View(self._questions, "" if chosen is None else chosen.call, self._message)
        width, height = live.console.size
        drawn = waiting_list(view, now=now, width=width, height=height)
        live.update(drawn, refresh=True)

    def chosen(self) -> Request | None:
        """Return the question that is chosen."""
        return next(
            (question for question in self._questions if question.wanted.digest == self._chosen),
            None,
        )

    def move(self, key: bytes) -> None:
        """Choose the question above or below, where the key says so."""
        step = -1 if key in _UP else 1 if key in _DOWN else 0
        asked = [question.wanted.digest for question in self._questions]
        if step and self._chosen in asked:
            at = min(max(asked.index(self._chosen) + step, 0), len(asked) - 1)
            self._chosen = asked[at]

    # -- answers

    def _show(self, request: Request) -> None:
        answering.show_card(request)
        before = termios.tcgetattr(sys.stdin.fileno())
        try:
            tty.setcbreak(sys.stdin.fileno())  # it drops what was typed before
            click.echo("enter or q goes back to the list ", nl=False, err=True)
            while (key := os.read(sys.stdin.fileno(), _KEY_BYTES)) not in (*_ENDS, b"\r", b"\n"):
                if not key:
                    raise EOFError
        finally:
            with suppress(termios.error):  # it may be closed
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
        click.echo(err=True)
        self._message = ""

    def _allow(self, request: Request, how: str) -> None:
        from sandbox.approvals import offers

        offer: Offer | None = getattr(offers, how)(request)
        if offer is None:
            names_none = how == "this_session" and not request.wanted.session
            self._message = _NO_SESSION if names_none else _NOT_OFFERED[how]
            return
        answering.show_card(request)
        cover = offer.terms.grant(request, time.time(), by="").words()
        click.echo(f"yes means: {safe_line(offer.scope)}", err=True)
        click.echo(f"it covers {safe_line(cover)}", err=True)
        if not terminal.ask(f"Allow {offer.name}?"):
            self._message = f"{request.call} is not answered; `n` denies it"
            return
        made = answering.approve(request, offer.terms, "")
        self._message = answering.granted(made)

    def _deny(self, request: Request) -> None:
        answering.show_card(request)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        reason = self._line("Deny it. Why (enter: no reason; Ctrl-C: back)? ")
        answering.refuse(request, reason)
        self._message = f"denied {request.call}"

    @staticmethod
    def _line(question: str) -> str:
        """Return what a person types. Raises EOFError where the terminal is closed."""
        click.echo(question, nl=False, err=True)
        said = sys.stdin.readline()
        if not said:
            raise EOFError
        return said.strip()


_NO_SESSION = "not for a session: the agent names none; `o` allows it once"
_NOT_OFFERED = {
    "this_session": "not for the session: a part of the call cannot be known, so no other can be "
    "compared with it; `o` allows it once",
    "always_here": "not always: a part of the call cannot be known, so no other can be compared "
    "with it; `o` allows it once",
}
