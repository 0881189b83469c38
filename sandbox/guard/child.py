# SPDX-License-Identifier: Apache-2.0
"""Keep the supervisor's guard running: start it, hear what it says, start it again when it dies.

Whatever happens to it, calls go on: its failure is said (`ps`, `doctor`, the supervisor's log), and
what changed meanwhile is told by the next one, which looks at everything first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from sandbox.audit.events.protected import TamperedRecord
from sandbox.config.guard import GuardSettings
from sandbox.host.dirs import Dirs

START_SECONDS = 1.0
"""The first guard starts after this time: not while the first call waits for its cell."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before one that died is started again; doubled each time until it lives a while."""
LIVES_SECONDS = 60.0
END_SECONDS = 3.0
LONGEST_LINE = 1 << 20
MODULE = "sandbox.guard.serve"


class Guardian:
    """The guard of one supervisor process."""

    def __init__(
        self,
        dirs: Dirs,
        settings: GuardSettings,
        tell: Callable[[TamperedRecord], None] = lambda _: None,
    ) -> None:
        """`tell` gets each change that no landing made, recorded already; what it
        raises is noted, and ends nothing."""
        self._dirs = dirs
        self._tell = tell
        self._enabled = settings.enabled
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._state: dict[str, Any] = {}
        self._said = ""
        self._problem = ""
        self.told = 0
        """Changes that no landing made, told since this supervisor started."""

    def start(self) -> None:
        """Start the guard soon, if it is wanted."""
        if self._enabled and self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """End the guard."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def state(self) -> dict[str, Any]:
        """Return how the guard is: `state` is off, starting, on, away (a person's own has its
        place) or failed; `guarded` paths; `failed` lines; `told` changes; `problem`."""
        if not self._enabled:
            word = "off"
        elif self._problem or (self._task is not None and self._task.done()):
            word = "failed"
        elif not self._state:
            word = "starting"
        else:
            word = "away" if self._state.get("away") else "on"
        return {
            "state": word,
            "guarded": self._state.get("guarded", 0),
            "failed": list(self._state.get("failed", ())),
            "told": self.told,
            "problem": self._problem or None,
        }

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        await asyncio.sleep(START_SECONDS)
        while True:
            began = loop.time()
            try:
                status = await self._run()
                why = f"it ended with status {status}"
            except OSError as error:
                why = f"it cannot be started: {error.strerror or error}"
            except Exception as error:  # whatever it is: a guard that stays away guards nothing
                why = f"it cannot be heard: {type(error).__name__}: {error}"
            if loop.time() - began > LIVES_SECONDS:
                pause = FIRST_PAUSE
            self._state = {}
            self._problem = f"{why}{f': {self._said}' if self._said else ''}"
            self._log(f"the guard failed ({self._problem}); it is started again in {pause:.0f} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run(self) -> int:
        """Run one guard to its end and return its status."""
        folders = (self._dirs.state, self._dirs.config, self._dirs.runtime)
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", MODULE),
            *map(str, folders),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(self._note_errors(process.stderr))
        try:
            while line := await process.stdout.readline():
                self._hear(line)
            return await process.wait()
        except ValueError:  # a line beyond any measure: it is not what we take it for
            return -1
        finally:
            await self._end(process)
            errors.cancel()

    async def _note_errors(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.readline():
            self._said = data.decode("utf-8", "replace").strip() or self._said

    def _hear(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError):
            what = json.loads(line)
            if "state" in what:
                self._state, self._problem = dict(what["state"]), ""
            elif "said" in what:
                self._said = str(what["said"])
                self._log(self._said)
            elif "told" in what:
                self.told += 1
                self._log(f"tampered: {json.dumps(what['told'])}")
                self._tell_person(what["told"])

    def _tell_person(self, told: dict[str, Any]) -> None:
        try:
            self._tell(TamperedRecord.model_validate(told))
        except Exception as error:  # it is recorded; the next change must be heard all the same
            self._log(f"nobody is told over a channel: {error}")

    @staticmethod
    async def _end(process: asyncio.subprocess.Process) -> None:
        """End a guard: it ends by itself when its input does, unless it hangs."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except (TimeoutError, asyncio.CancelledError):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    @staticmethod
    def _log(text: str) -> None:
        sys.stderr.write(f"guard: {text}\n")
        sys.stderr.flush()
