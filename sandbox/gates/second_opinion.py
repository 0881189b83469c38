# SPDX-License-Identifier: Apache-2.0
"""Ask the second reading of shell text, a program of its own, within a deadline.

The program (`policy/gate1/bashlex_worker.py`) can loop for ever on some texts. Whoever asks waits
no longer than the deadline; a program that stays busy with one text is killed and started anew. No
answer is no opinion: gate 1's own guards stand, since an opinion can only tighten. That nobody can
be asked is another thing: then a person must look.

    opinion = SecondOpinion()
    question = opinion.ask(text)            returns at once; None: nobody can be asked now
    ready = await opinion.until_ready()     or opinion.wait_ready() without an event loop
    seen = await opinion.answer(question)   or opinion.wait(question)

The program starts with the first question or with `start`; it has an empty environment, no file
but its two pipes, and ends with this process: its input ends then, and a limit on the time of one
answer ends it in the middle of a loop. Not for use by several threads or event loops at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import policy

DEADLINE_SECONDS = 0.5
"""How long a caller waits for an answer. It takes milliseconds, but on a busy machine; and without
an answer a person is asked."""
STUCK_SECONDS = 1.0
"""How long the program may be busy with one text; the longest takes some milliseconds."""
START_SECONDS = 30.0
"""How long the program may take until it can answer; loading its grammar takes most of it."""
AGAIN_SECONDS = 0.5
"""The least time between two starts, so that hostile texts do not keep a processor busy."""
MOST_WAITING = 32
"""Questions that wait at once; further ones get no opinion."""
MOST_TEXT = 16 * 1024
"""Characters; the program refuses longer texts."""
_PAUSE_SECONDS = 0.05
"""Between two looks at whether a program may be started."""
_MOST_ENDS = 2
"""Programs that end before they are ready, until nobody waits for another."""
_PIPE_BYTES = 256 * 1024
_PROGRAM = Path(policy.__file__).parent / "gate1" / "bashlex_worker.py"
_TRUE = b'{"text": "true"}\n'


@dataclass(slots=True, eq=False)
class Question:
    """One text that the program was asked about."""

    deadline: float
    done: bool = False
    seen: tuple[str, ...] | None = None
    """The programs in the text; None: no opinion."""
    size: int = 0
    future: asyncio.Future[None] | None = None

    def settle(self, seen: tuple[str, ...] | None) -> None:
        """Take the answer; the first one counts."""
        if not self.done:
            self.done, self.seen = True, seen
            if self.future is not None and not self.future.done():
                self.future.set_result(None)


@dataclass(slots=True)
class _Program:
    """One run of the program, and what it was asked and has not answered yet."""

    process: subprocess.Popen[bytes]
    into: int
    out: int
    busy_since: float
    first: Question
    """The question that every program is asked before it is ready."""
    ready: bool = False
    asked: deque[Question] = field(default_factory=deque)
    unread: int = 0
    """Bytes that it was sent and has not answered."""
    rest: bytes = b""


class SecondOpinion:
    """Keeps one program alive and asks it; restarts it when it hangs or dies."""

    def __init__(self, *, deadline: float = DEADLINE_SECONDS, program: Path = _PROGRAM) -> None:
        """Start nothing yet; `deadline` is in seconds."""
        self.deadline = deadline
        self._path = program
        self._program: _Program | None = None
        self._started: float | None = None
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the program that runs now."""
        return self._program.process.pid if self._program else None

    @property
    def ready(self) -> bool:
        """Whether the program has loaded its grammar."""
        return self._program is not None and self._program.ready

    def start(self) -> None:
        """Start the program unless it runs; takes about a millisecond and waits for nothing."""
        now = time.monotonic()
        if self._program is not None or (self._started and now - self._started < AGAIN_SECONDS):
            return
        self._started = now
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError:
            return
        assert process.stdin is not None and process.stdout is not None
        into, out = process.stdin.fileno(), process.stdout.fileno()
        for pipe in (into, out):
            os.set_blocking(pipe, False)
        with contextlib.suppress(OSError):  # the kernel may allow less; then fewer wait
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._program = _Program(process, into, out, now, Question(now + START_SECONDS))
        self._send(self._program.first, _TRUE)  # loads its grammar

    def wait_ready(self) -> bool:
        """Start the program and wait until it can answer; False: not in time. Blocks."""
        for left in self._until_ready():
            if self._program is None:
                time.sleep(min(left, _PAUSE_SECONDS))
            elif self._wait_for_output(time.monotonic() + left):
                self._take()
        return self.ready

    async def until_ready(self) -> bool:
        """Start the program and wait until it can answer; False: not in time."""
        for left in self._until_ready():
            if self._program is None:
                await asyncio.sleep(min(left, _PAUSE_SECONDS))
            else:
                await self.answer(self._program.first)
        return self.ready

    def _until_ready(self) -> Iterator[float]:
        """Yield the seconds that are left as long as it is worth to wait for the program."""
        deadline, ended = time.monotonic() + START_SECONDS, 0
        while not self.ready and ended < _MOST_ENDS and (left := deadline - time.monotonic()) > 0:
            self.start()
            program = self._program
            yield left
            ended += program is not None and self._program is not program

    def ask(self, text: str) -> Question | None:
        """Ask about a text; None when nobody can be asked now. Waits for nothing.

        A program that is not ready yet is not waited for.
        """
        if len(text) > MOST_TEXT:
            return None
        self._end_if_stuck()
        self.start()
        if not self.ready:
            self._take()
        program = self._program
        if program is None or not program.ready or len(program.asked) >= MOST_WAITING:
            return None
        question = Question(time.monotonic() + self.deadline)
        line = json.dumps({"text": text}).encode() + b"\n"
        return question if self._send(question, line) else None

    def wait(self, question: Question | None) -> tuple[str, ...] | None:
        """Return the programs that the second reading saw, or None for no opinion. Blocks."""
        if question is None:
            return None
        while not question.done and self._wait_for_output(question.deadline):
            self._take()
        return self._given_up(question)

    async def answer(self, question: Question | None) -> tuple[str, ...] | None:
        """Return the programs that the second reading saw, or None for no opinion."""
        if question is None:
            return None
        if not question.done and self._program is not None:
            loop = asyncio.get_running_loop()
            self._watch(loop)
            if question.future is None:
                question.future = loop.create_future()
            await asyncio.wait(  # several may wait for the first answer
                (question.future,), timeout=max(0.0, question.deadline - time.monotonic())
            )
        return self._given_up(question)

    def __enter__(self) -> SecondOpinion:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program; those who wait get no opinion."""
        program, self._program = self._program, None
        if program is None:
            return
        self._unwatch()
        program.process.kill()
        for pipe in (program.process.stdin, program.process.stdout):
            if pipe is not None:
                pipe.close()
        program.process.wait()
        for question in program.asked:
            question.settle(None)

    # -- one run of the program

    def _wait_for_output(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if self._program is None or left <= 0:
            return False
        waiting = select.poll()
        waiting.register(self._program.out, select.POLLIN)
        return bool(waiting.poll(left * 1000))

    def _send(self, question: Question, line: bytes) -> bool:
        program = self._program
        assert program is not None
        if program.unread + len(line) > fcntl.fcntl(program.into, fcntl.F_GETPIPE_SZ):
            return False  # what waits in the pipe never makes us wait
        try:
            if os.write(program.into, line) != len(line):
                raise OSError("the pipe took a part")
        except OSError:
            self.close()
            return False
        if not program.asked:
            program.busy_since = time.monotonic()
        question.size = len(line)
        program.unread += len(line)
        program.asked.append(question)
        return True

    def _take(self) -> None:
        """Take what the program has said."""
        program = self._program
        if program is None:
            return
        try:
            data = os.read(program.out, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self.start()
            return
        *lines, program.rest = (program.rest + data).split(b"\n")
        for line in lines:
            if not program.asked:
                self.close()
                return
            question = program.asked.popleft()
            program.unread -= question.size
            program.busy_since = time.monotonic()
            program.ready = True
            question.settle(_programs(line))

    def _given_up(self, question: Question) -> tuple[str, ...] | None:
        if not question.done:
            self._take()  # it may have come at the last moment
        question.settle(None)
        self._end_if_stuck()
        return question.seen

    def _end_if_stuck(self) -> None:
        """Kill a program that is busy with one text for too long, and start another."""
        if self._stuck():
            self._take()
        if self._stuck():
            self.close()
            self.start()

    def _stuck(self) -> bool:
        program = self._program
        if program is None or not program.asked:
            return False
        most = STUCK_SECONDS if program.ready else START_SECONDS
        return time.monotonic() - program.busy_since >= most

    # -- the event loop

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._program is not None
        wanted = (loop, self._program.out)
        if self._watched != wanted:
            self._unwatch()
            loop.add_reader(self._program.out, self._take)
            self._watched = wanted

    def _unwatch(self) -> None:
        if self._watched is not None:
            loop, out = self._watched
            self._watched = None
            if not loop.is_closed():
                loop.remove_reader(out)


def _programs(line: bytes) -> tuple[str, ...] | None:
    try:
        said = json.loads(line).get("programs")
    except (ValueError, AttributeError):
        return None
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        return None
    return tuple(said)
