# SPDX-License-Identifier: Apache-2.0
"""One thread that writes the record in order; what waits at the same time reaches the disk at once.

A sync takes a hundred times as long as writing a line, and covers every line before it. So all
that came in while the last sync went on is written first and synced once (group commit).
INVARIANT (P1): the future of a durable job is done only when its line is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Work = Callable[[bool], Any]
"""Does something; the argument says whether it must be on disk when it returns."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Work
    durable: bool
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    """None: nobody waits for it."""

    def answer(self, error: BaseException | None = None) -> None:
        if self.loop is None:
            if error is not None:
                traceback.print_exception(error)
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self.loop.call_soon_threadsafe(self._set, error)

    def _set(self, error: BaseException | None) -> None:
        assert self.future is not None
        if self.future.done():  # who waited was cancelled
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Writer:
    """Does jobs in the order in which they come."""

    def __init__(self, sync: Callable[[], None]) -> None:
        """`sync` returns when all that was written is on disk."""
        self._sync = sync
        self._jobs: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record")

    def put(self, work: Work, *, durable: bool) -> asyncio.Future[None]:
        """Have a job done; the future is done with it, and fails as it does."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._begin(_Job(work, durable, loop, future))
        return future

    def put_unheard(self, work: Work) -> None:
        """Have a job done that nobody waits for; it need not be on disk at once."""
        self._begin(_Job(work, durable=False))

    def _begin(self, job: _Job) -> None:
        self._jobs.append(job)
        self._thread.submit(self._go_on)

    def _go_on(self) -> None:
        """Do all jobs that wait now."""
        jobs = []
        while self._jobs:
            jobs.append(self._jobs.popleft())
        together = sum(job.durable for job in jobs) > 1
        unsynced = []
        for job in jobs:
            try:
                job.work(job.durable and not together)
            except BaseException as error:  # it belongs to who waits for the job
                job.answer(error)
            else:
                if job.durable and together:
                    unsynced.append(job)
                else:
                    job.answer()
        if unsynced:
            problem = self._problem()
            for job in unsynced:
                job.answer(problem)

    def _problem(self) -> BaseException | None:
        try:
            self._sync()
        except BaseException as error:
            return error
        return None
