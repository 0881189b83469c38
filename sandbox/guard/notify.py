# SPDX-License-Identifier: Apache-2.0
"""Start the user's own program for each event; it gets the event as JSON on its standard input."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SECONDS = 30.0
"""How long the program may take."""


class Notifier:
    """Runs one program at a time, off the guard's own thread, in the order of the events."""

    def __init__(self, command: Sequence[str], say: Callable[[str], None]) -> None:
        self._command = tuple(command)
        self._say = say
        self._turn = threading.Lock()
        self._threads: list[threading.Thread] = []

    def tell(self, event: Mapping[str, Any]) -> None:
        """Start the program for one event; return at once."""
        if not self._command:
            return
        self._threads = [one for one in self._threads if one.is_alive()]
        thread = threading.Thread(target=self._run, args=(json.dumps(event),), daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish(self) -> None:
        """Wait for the programs that run."""
        for thread in self._threads:
            thread.join(SECONDS)

    def _run(self, text: str) -> None:
        with self._turn:
            try:
                with contextlib.suppress(BrokenPipeError):
                    done = subprocess.run(
                        self._command,
                        input=text.encode("ascii") + b"\n",
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        timeout=SECONDS,
                        check=False,
                    )
                    if done.returncode:
                        self._say(f"`{self._command[0]}` ended with status {done.returncode}")
            except subprocess.TimeoutExpired:
                self._say(f"`{self._command[0]}` took more than {SECONDS:.0f} s and was ended")
            except (OSError, ValueError) as error:
                reason = str(error.strerror if isinstance(error, OSError) else error).lower()
                self._say(f"`{self._command[0]}` cannot be started: {reason}")
