# SPDX-License-Identifier: Apache-2.0
"""The emergency stop: a latch on disk, then every container of this state folder is killed.

Works without a supervisor. The latch comes first, so that nothing starts behind the sweep; only a
person's `resume` clears it.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sandbox.config import Dirs
from sandbox.engine import Engine
from sandbox.errors import SandboxError, Stopped
from sandbox.plan import LABEL_CELL, LABEL_ROLE
from sandbox.results import StopReport
from sandbox.store import Store

PASSES = 5
"""Sweeps until one finds nothing."""
LAST = 5


@dataclass(frozen=True, slots=True)
class LatchInfo:
    """Who stopped what, and when."""

    reason: str
    at: str


class Latch:
    """The stop latch of a state folder."""

    def __init__(self, dirs: Dirs) -> None:
        self._path = dirs.state / "STOP"

    def set(self, reason: str) -> None:
        """Set the latch; one that is set already stays as it is."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"reason": reason, "at": time.strftime("%Y-%m-%d %H:%M:%S %z")})
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        with os.fdopen(fd, "w") as file:
            file.write(text)

    def read(self) -> LatchInfo | None:
        """Return why calls are stopped, or None. A latch that cannot be read counts as set."""
        try:
            text = self._path.read_text("utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            return LatchInfo(f"the latch cannot be read: {error.strerror}", "")
        try:
            data = json.loads(text)
            return LatchInfo(str(data["reason"]), str(data["at"]))
        except (ValueError, KeyError, TypeError):
            return LatchInfo("set by hand", "")

    def clear(self) -> None:
        """Clear the latch."""
        self._path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise Stopped while the latch is set."""
        if os.path.lexists(self._path) and (info := self.read()) is not None:
            raise Stopped(
                f"stopped at {info.at}: {info.reason}; a person clears it with `lockgate resume`"
            )


def sweep(engine: Engine) -> tuple[list[str], list[str]]:
    """Kill every container of this state folder; return (killed cells, what is left)."""
    killed: dict[str, None] = {}
    found: list[dict[str, object]] = []
    for _ in range(PASSES):
        found = list(engine.containers())
        if not found:
            break
        for one in found:
            labels = one["Labels"]
            assert isinstance(labels, dict)
            if labels.get(LABEL_ROLE) == "cell":
                killed[f"cell {labels.get(LABEL_CELL)}"] = None
        with ThreadPoolExecutor(max_workers=32) as pool:
            list(pool.map(lambda one: engine.remove(str(one["Id"])), found))
    else:
        found = list(engine.containers())
    return list(killed), [str(one["Id"])[:12] for one in found]


def stop_all(dirs: Dirs, engine: Engine | None, reason: str) -> StopReport:
    """Set the latch, kill all cells, and say what was done and what can be undone."""
    Latch(dirs).set(reason)
    store = Store(dirs)
    killed: list[str] = []
    left: list[str] = []
    if engine is None:
        left = ["the container engine cannot be reached: its containers were not ended"]
    else:
        try:
            killed, left = sweep(engine)
        except SandboxError as error:
            left = [str(error)]
    last = store.calls(limit=LAST)
    report = StopReport(
        reason=reason,
        killed=tuple(killed),
        left=tuple(left),
        last=tuple(f"{c['id']} {c['tool']} {c['ending'] or 'not finished'}" for c in last),
        rollback=tuple(
            f"lockgate undo {c['id']}" for c in last if c["landed"] and not c["undone_by"]
        ),
    )
    store.append({"event": "stop", **report.model_dump(mode="json")}, durable=True)
    return report
