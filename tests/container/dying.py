# SPDX-License-Identifier: Apache-2.0
"""Supervisors in processes of their own that are killed at a chosen step. Run as a program.

    python dying.py ROOT RUN_ID

Reads lines `SCENARIO NAME STEP BEFORE` and answers each with `met HOW` once the round BEFORE is
over, and with `killed WHAT` or `ended`. A step is an effect outside of the process: a record
written, a request to a program of the cell or its answer, an act of the engine. What is killed dies
right after it, as by `kill -9`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sandbox.gates.gate1
from sandbox.agents.declared import DEFAULT
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.store import Store
from sandbox.cells.pair.keeper_side import KeeperSide
from sandbox.cells.pair.link import Link
from sandbox.cells.pair.runner_side import RunnerSide
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from tests.container import lab as labs
from tests.container.crashing import is_alone
from tests.container.rounds import Round, agrees

STEPS: tuple[tuple[type, str], ...] = (
    (Store, "append"),
    (Link, "send"),
    (KeeperSide, "on_frame"),
    (RunnerSide, "on_frame"),
    (Engine, "create"),
    (Engine, "attach"),
    (Engine, "start"),
    (Engine, "remove"),
    (Engine, "remove_volume"),
)


class Steps:
    """Counts the steps of this process and kills it at one of them."""

    def __init__(self, kill: Callable[[str], None], at: int) -> None:
        self.armed = False
        self._kill = kill
        self._left = at

    def watch(
        self,
        patch: Callable[[Any, str, Any], None],
        steps: Sequence[tuple[type, str]] = STEPS,
    ) -> None:
        """Have every step counted; `patch` sets attributes."""
        for kind, name in steps:
            patch(kind, name, self._counted(kind, name, getattr(kind, name)))

    def _counted(self, kind: type, name: str, real: Any) -> Any:
        def step(*arguments: Any, **more: Any) -> Any:
            answer = real(*arguments, **more)
            if self.armed:
                self._left -= 1
                if self._left == 0:
                    self._kill(f"{kind.__name__}.{name} {_about(arguments)}")
            return answer

        return step


def _about(arguments: tuple[Any, ...]) -> str:
    for one in arguments[1:]:
        if isinstance(one, AuditRecord):
            return one.event
        if isinstance(one, dict):
            return str(one.get("op"))
    return ""


def live(scenario: str, name: str, before: str, root: Path, lab: labs.Lab, steps: Steps) -> None:
    """Start, bring the round `before` to its end if there is one, and carry out the next.

    Of a call every step is counted; of what a person does afterwards only its own: to start and to
    end is the same everywhere.
    """
    round_: Round = pickle.loads((root / "round").read_bytes())
    whole = scenario == "call"
    pool = lab.run(lab.supervisor._live.connected())
    steps.armed = whole
    lab.run(pool.get(DEFAULT, (str(lab.ws),)))
    steps.armed = False
    assert lab.read("true").exit_status == 0
    met = "nothing"
    if before != "-":
        met = agrees(lab, scenario, before, round_)
        round_.put_back(lab, before)
    is_alone(lab)
    act = round_.begin(lab, scenario, name)
    settle(lab)
    os.write(1, f"met {met}\n".encode())
    steps.armed = True
    act()
    steps.armed = whole
    labs.leave(lab)
    steps.armed = False


def settle(lab: labs.Lab) -> None:
    """Wait until nothing goes on of what was done before, so that no step of it is counted."""
    assert lab.supervisor._live.pool is not None
    cells = lab.supervisor._live.pool.living()
    lab.run(labs.eventually(lambda: all(cell.idle for cell in cells), "cells are idle"))
    lab.run(lab.supervisor._record.flush())


def _die(what: str) -> None:
    os.write(1, f"killed {what}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serve lines of standard input until it ends."""
    root, run_id = Path(sys.argv[1]), sys.argv[2]
    setattr(sandbox.gates.gate1, "decide", labs.decide)  # noqa: B010 - as tests patch it
    setattr(sandbox.gates.gate1, "wants_second_opinion", lambda *_: False)  # noqa: B010
    for line in sys.stdin:
        scenario, name, at, before = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.set_event_loop_policy(None)
            steps = Steps(_die, int(at))
            steps.watch(setattr)
            lab = labs.Lab(connect(), root / "lab", (root / "work",), run_id)
            live(scenario, name, before, root, lab, steps)
            os.write(1, b"ended\n")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            os.write(1, b"failed\n")


if __name__ == "__main__":
    main()
