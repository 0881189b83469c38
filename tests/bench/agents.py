# SPDX-License-Identifier: Apache-2.0
"""Many agents in one workspace: is an update ever lost, is anything left, how fast is it?

    python -m tests.bench.agents [--seconds 300] [--agents 8] [--json]

Each agent has a cell of its own. They append to shared files, raise a shared number, commit,
create, rename and delete files of their own, undo, and change files that are held; a person edits
beside them. A call that meets somebody else's change is held, thrown away and made again. At the
end every acknowledged update must be in the files once, nothing else may be there, and neither a
container nor a layer may be left. Exit status 1 where that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import yes
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput
from sandbox.results import CallResult
from tests.bench.ledger import Ledger
from tests.bench.litter import litter

AGENTS = 8
SECONDS = 300.0
PAUSE_SECONDS = 0.1
"""Between two edits of the person."""
SHARED = ("shared/log-0.txt", "shared/log-1.txt", "shared/log-2.txt")
NUMBER = "shared/number.txt"
BOARD = "shared/board.txt"
"""A shared file whose lines are undone now and then."""
TRUST = "trust: {pins: {'agent-*': autonomous}}\n"
"""The policy file of the person at the machine: what these agents change lands at once."""
GIT = "git -c user.name=a -c user.email=a@example.invalid"


@dataclass(slots=True)
class Tally:
    """What happened."""

    calls: int = 0
    conflicts: int = 0
    """Calls that met somebody else's change and were made again."""
    held: int = 0
    undone: int = 0
    undo_refused: int = 0
    edits: int = 0
    """Of the person."""
    times: list[float] = field(default_factory=list)
    """Milliseconds of each call."""
    faults: list[str] = field(default_factory=list)
    """Answers that nothing in the load explains."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome of a run."""

    agents: int
    seconds: float
    calls: int
    calls_per_second: float
    conflicts: int
    held: int
    undone: int
    undo_refused: int
    edits: int
    median_ms: float
    p95_ms: float
    problems: tuple[str, ...]
    """Lost and doubled updates, litter, unexplained answers; empty is well."""


class Agent:
    """One agent: does one thing after another, each until it is acknowledged."""

    def __init__(
        self, number: int, supervisor: Supervisor, workspace: Path, ledger: Ledger, tally: Tally
    ) -> None:
        self._name = f"agent-{number}"
        self._supervisor = supervisor
        self._workspace = workspace
        self._ledger = ledger
        self._tally = tally
        self._random = random.Random(number)
        self._count = 0
        self._deeds: tuple[tuple[int, Callable[[str], Awaitable[None]]], ...] = (
            (6, self._append),
            (3, self._raise),
            (3, self._create_rename_delete),
            (2, self._undo_own),
            (2, self._undo_shared),
            (1, self._held),
            (1, self._commit),
        )

    async def work(self, until: float) -> None:
        """Work until a time of the event loop's clock."""
        weights = [weight for weight, _ in self._deeds]
        while asyncio.get_running_loop().time() < until:
            _, deed = self._random.choices(self._deeds, weights)[0]
            self._count += 1
            await deed(f"{self._name}-{self._count}")

    async def _call(self, command: str) -> CallResult:
        plan = ActionPlan(
            tool="Bash",
            agent=self._name,
            workspace=str(self._workspace),
            params={"command": command},  # type: ignore[arg-type]
        )
        started = time.perf_counter()
        result = await self._supervisor.call(plan, approver=yes)
        self._tally.times.append((time.perf_counter() - started) * 1000)
        self._tally.calls += 1
        return result

    async def _landed(self, command: str) -> CallResult:
        """Make a call until it lands; one that met another's change is thrown away first."""
        while True:
            result = await self._call(command)
            if result.landed:
                return result
            if result.judgement == "hold" and "conflict" in _why(result):
                self._tally.conflicts += 1
                await self._supervisor.discard(result.id)
            elif result.exit_status:  # a command may fail where it sees half of another's commit
                self._tally.conflicts += 1
            else:
                self._tally.faults.append(f"{command}: {result.ending.value}: {result.message}")
                raise SystemExit(f"bench: {self._tally.faults[-1]}")

    async def _append(self, token: str) -> None:
        path = self._random.choice(SHARED)
        await self._landed(f"echo {token} >> {path}")
        self._ledger.appended(path, token)

    async def _raise(self, _token: str) -> None:
        await self._landed(f"n=$(cat {NUMBER}); echo $((n+1)) > {NUMBER}")
        self._ledger.counts[NUMBER] += 1

    async def _create_rename_delete(self, token: str) -> None:
        old, new = f"{self._name}/{token}.new", f"{self._name}/{token}.txt"
        await self._landed(f"echo {token} > {old}")
        self._ledger.files[old] = token
        await self._landed(f"mv {old} {new}")
        self._ledger.files[new] = self._ledger.files.pop(old)
        if self._random.random() < 0.7:
            await self._landed(f"rm {new}")
            del self._ledger.files[new]

    async def _undo_own(self, token: str) -> None:
        path = f"{self._name}/diary.txt"
        result = await self._landed(f"echo {token} >> {path}")
        self._ledger.appended(path, token)
        undone = await self._supervisor.undo(result.id)
        self._tally.undone += 1
        self._ledger.taken_back(path, token)
        if self._random.random() < 0.3:
            await self._supervisor.undo(undone.id)
            self._tally.undone += 1
            self._ledger.appended(path, token)

    async def _undo_shared(self, token: str) -> None:
        result = await self._landed(f"echo {token} >> {BOARD}")
        self._ledger.appended(BOARD, token)
        try:
            await self._supervisor.undo(result.id)
        except BadInput:  # somebody has written on the board since: it stays
            self._tally.undo_refused += 1
            return
        self._tally.undone += 1
        self._ledger.taken_back(BOARD, token)

    async def _held(self, token: str) -> None:
        path = f".githooks/{token}"
        result = await self._call(f"echo {token} > {path}")
        if result.judgement != "hold":
            self._tally.faults.append(f"{path} was not held: {result.message}")
            return
        self._tally.held += 1
        if self._random.random() < 0.5:
            await self._supervisor.land(result.id)
            self._ledger.files[path] = token
        else:
            await self._supervisor.discard(result.id)

    async def _commit(self, token: str) -> None:
        path = f"{self._name}/{token}.c"
        # Git refuses where it sees a lock or an index of another's commit; then it is made again.
        add = f"echo {token} > {path} && git add {path}"
        await self._landed(f"{add} && {GIT} commit -q -m {token} {path}")
        self._ledger.files[path] = token
        self._ledger.commits.add(token)


def _why(result: CallResult) -> str:
    reasons = " ".join(view.reason or "" for view in result.changes)
    return f"{result.message} {reasons}".replace("changed while", "conflict changed while")


async def person(workspace: Path, ledger: Ledger, tally: Tally, until: float) -> None:
    """Edit beside the agents: append to shared files, replace one of their own."""
    number = 0
    while asyncio.get_running_loop().time() < until:
        number += 1
        path, token = SHARED[number % len(SHARED)], f"person-{number}"
        with (workspace / path).open("a") as file:
            file.write(token + "\n")
        ledger.appended(path, token)
        fresh = workspace / "person.tmp"
        fresh.write_text(token + "\n")
        fresh.rename(workspace / "person.txt")
        ledger.files["person.txt"] = token
        tally.edits += 2
        await asyncio.sleep(PAUSE_SECONDS)


def prepared(root: Path, agents: int, ledger: Ledger) -> Path:
    """Make the workspace, and tell the ledger what it holds."""
    workspace = root / "workspace"
    for name in ("shared", ".githooks", *(f"agent-{number}" for number in range(agents))):
        (workspace / name).mkdir(parents=True)
    for path in (*SHARED, BOARD):
        (workspace / path).write_text("begin\n")
        ledger.appended(path, "begin")
    (workspace / NUMBER).write_text("0\n")
    ledger.counts[NUMBER] = 0
    for number in range(agents):
        (workspace / f"agent-{number}/diary.txt").write_text("begin\n")
        ledger.appended(f"agent-{number}/diary.txt", "begin")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        subprocess.run([*GIT.split(), *words], cwd=workspace, check=True)
    ledger.commits.add("begin")
    return workspace


def committed(workspace: Path) -> Counter[str]:
    """Return how often each commit message stands in the history, whole as git finds it."""
    for words in (("fsck", "--strict"), ("log", "--format=%s")):
        done = subprocess.run(
            ["git", *words], cwd=workspace, check=True, capture_output=True, text=True
        )
    return Counter(done.stdout.splitlines())


async def run(root: Path, *, seconds: float, agents: int = AGENTS, **options: object) -> Figures:
    """Work for some seconds, then look at what there is. `options` go to the Supervisor."""
    ledger, tally = Ledger(), Tally()
    workspace = prepared(root, agents, ledger)
    dirs = Dirs.under(root / "lockgate")
    dirs.config.mkdir(parents=True, exist_ok=True)
    (dirs.config / "policy.yaml").write_text(TRUST)
    supervisor = Supervisor(dirs, workspaces=[Workspace(str(workspace))], **options)  # type: ignore[arg-type]
    async with supervisor:
        workers = [Agent(number, supervisor, workspace, ledger, tally) for number in range(agents)]
        names = [f"agent-{number}" for number in range(agents)]
        await asyncio.gather(*(supervisor.warm(str(workspace), name) for name in names))
        started = asyncio.get_running_loop().time()
        until = started + seconds
        edits = person(workspace, ledger, tally, until)
        await asyncio.gather(edits, *(worker.work(until) for worker in workers))
        took = asyncio.get_running_loop().time() - started
    problems = list(tally.faults)
    problems += await asyncio.to_thread(lambda: ledger.differences(workspace, committed(workspace)))
    problems += await asyncio.to_thread(litter, dirs, workspace)
    times = sorted(tally.times)
    return Figures(
        agents=agents,
        seconds=round(took, 1),
        calls=tally.calls,
        calls_per_second=round(tally.calls / took, 1),
        conflicts=tally.conflicts,
        held=tally.held,
        undone=tally.undone,
        undo_refused=tally.undo_refused,
        edits=tally.edits,
        median_ms=round(statistics.median(times), 1),
        p95_ms=round(times[int(len(times) * 0.95) - 1], 1),
        problems=tuple(problems),
    )


def said(figures: Figures) -> str:
    """Return the figures in two lines, and a line for each problem."""
    lines = [
        f"{figures.agents} agents and a person in one workspace, {figures.seconds:.0f} s: "
        f"{figures.calls} calls, {figures.calls_per_second} calls/s, "
        f"median {figures.median_ms} ms, p95 {figures.p95_ms} ms",
        f"{figures.conflicts} conflicts made again, {figures.held} held, {figures.undone} undone, "
        f"{figures.undo_refused} undos refused, {figures.edits} edits of the person; "
        + ("every update is there once, nothing is left" if not figures.problems else "PROBLEMS:"),
    ]
    return "\n".join([*lines, *(f"  {problem}" for problem in figures.problems)])


def main() -> int:
    """Print the figures, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long they work")
    parser.add_argument("--agents", type=int, default=AGENTS, help="how many there are")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="lockgate-agents-"))
    try:
        figures = asyncio.run(run(root, seconds=args.seconds, agents=args.agents))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(asdict(figures)) if args.json else said(figures))
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
