# SPDX-License-Identifier: Apache-2.0
"""Show how far a long set-up is: a live line on a terminal, plain lines elsewhere.

Goes to standard error, so that a command's result stays alone on standard output.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Progress(Protocol):
    """What set-up code tells about itself."""

    def step(self, text: str) -> None:
        """Begin a step that a person should know of, such as `building the cell image`."""

    def detail(self, text: str) -> None:
        """Show one line of what the current step prints."""

    def note(self, text: str) -> None:
        """Tell something that is worth keeping on the screen."""


class SilentProgress:
    """Tells nothing: for tests, and for callers that show their own progress."""

    def step(self, text: str) -> None:
        """Do nothing."""

    def detail(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""


class Lines:
    """One plain line per step, and one when a step ends that took a while."""

    WORTH_TELLING_SECONDS = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._current: str | None = None
        self._begun = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(failed=error is not None)

    def step(self, text: str) -> None:
        """Print the step."""
        self._end(failed=False)
        self._current, self._begun = text, time.monotonic()
        self._print(f"{text} ...")

    def detail(self, text: str) -> None:
        """Print nothing: a log shows steps, not the output of package managers."""

    def note(self, text: str) -> None:
        """Print the text."""
        self._print(text)

    def _end(self, *, failed: bool) -> None:
        if self._current is None:
            return
        took = time.monotonic() - self._begun
        if failed:
            self._print(f"{self._current}: failed after {took:.0f} s")
        elif took >= self.WORTH_TELLING_SECONDS:
            self._print(f"{self._current}: done in {took:.0f} s")
        self._current = None

    def _print(self, text: str) -> None:
        print(f"lockgate: {safe_line(text)}", file=self._stream, flush=True)


class Live(Lines):
    """A spinner with the step and the newest line of its output."""

    def __init__(self, console: Console) -> None:
        super().__init__(sys.stderr)
        self._console = console
        self._status: Status | None = None

    def step(self, text: str) -> None:
        """Show the step beside a spinner."""
        self._end(failed=False)
        self._current, self._begun = text, time.monotonic()
        self._status = self._console.status(self._line(text))
        self._status.start()

    def detail(self, text: str) -> None:
        """Show the line dimmed beside the step, cut to the terminal's width."""
        if self._status is not None and self._current is not None and text.strip():
            self._status.update(self._line(self._current, text.strip()))

    def _line(self, step: str, detail: str = "") -> str:
        room = max(0, self._console.width - len(step) - 6)
        shown = safe_line(detail)[:room].replace("[", r"\[")
        return f"{safe_line(step)} [dim]{shown}[/dim]" if shown else safe_line(step)

    def _end(self, *, failed: bool) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
        super()._end(failed=failed)

    def _print(self, text: str) -> None:
        self._console.print(f"lockgate: {safe_line(text)}", markup=False, highlight=False)


def on_stderr() -> Lines:
    """Return the progress that fits standard error. Use it in a `with` statement."""
    if not sys.stderr.isatty():
        return Lines(sys.stderr)
    from rich.console import Console

    console = Console(stderr=True)
    return (
        Live(console) if console.is_terminal and not console.is_dumb_terminal else Lines(sys.stderr)
    )
