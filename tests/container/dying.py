# SPDX-License-Identifier: Apache-2.0
"""Supervisors in processes of their own that are killed at a chosen step. Run as a program.

    python dying.py ROOT RUN_ID

Reads lines `SCENARIO STEP` and answers each with `killed WHAT` or `ended`. A step is an effect
outside of the process: a record written, a request to a program of the cell or its answer, an act
of the engine. What is killed dies right after it, as by `kill -9`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sandbox.gates.gate1
from sandbox.audit.events import AuditRecord
from sandbox.audit.store import Store
from sandbox.cells.cell import Cell
from sandbox.cells.link import Link
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from tests.container import lab as labs
from tests.container.crashing import CHANGE, HOLD

STEPS: tuple[tuple[type, str], ...] = (
    (Store, "append"),
    (Link, "send"),
    (Cell, "_on_keeper"),
    (Cell, "_on_runner"),
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


def act(scenario: str, name: str, lab: labs.Lab, steps: Steps) -> None:
    """Carry out a scenario; what is counted begins where it is armed."""
    change = {"derived_from": "deletes", "call_id": name}
    if scenario == "call":
        steps.armed = True
        lab.sh(CHANGE, **change)
    elif scenario == "undo":
        assert lab.sh(CHANGE, **change).landed
        steps.armed = True
        lab.run(lab.supervisor.undo(name))
    elif scenario == "part":
        assert lab.sh(HOLD, **change).judgement == "hold"
        steps.armed = True
        lab.run(lab.supervisor.land(name, ["new.txt"]))
    else:
        assert lab.sh(HOLD, **change).judgement == "hold"
        steps.armed = True
        lab.run(getattr(lab.supervisor, scenario)(name))
    labs.leave(lab)


def _die(what: str) -> None:
    os.write(1, f"killed {what}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serve lines of standard input until it ends."""
    root, run_id = Path(sys.argv[1]), sys.argv[2]
    setattr(sandbox.gates.gate1, "decide", labs.decide)  # noqa: B010 - as tests patch it
    setattr(sandbox.gates.gate1, "wants_second_opinion", lambda *_: False)  # noqa: B010
    for line in sys.stdin:
        scenario, name, at = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.set_event_loop_policy(None)
            steps = Steps(_die, int(at))
            steps.watch(setattr)
            lab = labs.Lab(connect(), root / "lab", (root / "work",), run_id)
            act(scenario, name, lab, steps)
            os.write(1, b"ended\n")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            os.write(1, b"failed\n")


if __name__ == "__main__":
    main()
