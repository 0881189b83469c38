# SPDX-License-Identifier: Apache-2.0
"""A fault that a test asks for: the keeper dies, or stops answering, at its Nth step from then on.

Only a request of the supervisor can ask for one, over a stream that no cell reaches, and no
supervisor does unless a test makes it. Neither a workspace nor the environment is looked at.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

DIE, HANG = "die", "hang"
_SIGNALS = {DIE: signal.SIGKILL, HANG: signal.SIGSTOP}


class Faults:
    """Counts steps, and ends or stops this process at the one that was asked for."""

    def __init__(self) -> None:
        self._wanted: Mapping[str, object] | None = None
        self._count = 0

    def want(self, wanted: Mapping[str, object]) -> None:
        """Have one: `at` is the number of the step, from 1 for the next; `act`: DIE or HANG."""
        self._wanted, self._count = wanted, 0

    def __call__(self, step: str) -> None:
        """Come to a step."""
        if self._wanted is None:
            return
        self._count += 1
        if self._count == self._wanted["at"]:
            sys.stderr.write(f"fault at step {self._count}: {step}\n")
            sys.stderr.flush()
            os.kill(os.getpid(), _SIGNALS[str(self._wanted["act"])])
