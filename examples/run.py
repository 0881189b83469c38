# SPDX-License-Identifier: Apache-2.0
"""Send the tool calls of a coding agent that fixes a bug through Lockgate, and undo the last one.

Makes a small repository, replays `session.jsonl` in real containers, prints a row per call, and
compares each outcome with what the file expects. Nothing of it stays. Status 1 when one differs,
125 when Lockgate failed. Run it with `make run`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from policy.model import Workspace
from sandbox.approvals.store import Grants
from sandbox.audit.store import Store
from sandbox.calls.supervisor import Supervisor
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.present import render as show
from sandbox.testing.replay import Mark, Outcome, replay

SESSION = Path(__file__).with_name("session.jsonl")
FAILED = 125

FILES = {
    "README.md": "# Shop\n\nA small shop: prices, a cart, discounts in percent.\n",
    "shop/__init__.py": "",
    "shop/cart.py": (
        '"""The cart. Prices are in cents, a discount is in percent."""\n\n\n'
        "def total(prices, discount=0):\n"
        '    """Return what a cart costs."""\n'
        "    return sum(prices) - discount\n"
    ),
    "tests/test_cart.py": (
        "from shop.cart import total\n\n\n"
        "def test_without_discount():\n"
        "    assert total([100, 200]) == 300\n\n\n"
        "def test_half_price():\n"
        "    assert total([100, 200], 50) == 150\n"
    ),
    "config/devkit.config.json": '{"strict": true}\n',
    "build/shop.txt": "built\n",
    ".gitignore": "build/\n__pycache__/\n.pytest_cache/\n",
}
PROTECTED = ("config/devkit.config.json", ".devkit-waiver.yml")


def make_repository(root: Path) -> None:
    """Write the files and commit them."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Agent"),
        ("config", "user.email", "agent@example.invalid"),
        ("add", "-A"),
        ("commit", "-q", "-m", "First version"),
    ):
        clean = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        subprocess.run(["git", *words], cwd=root, check=True, env=clean)


async def run(root: Path, dirs: Dirs) -> int:
    """Replay the session in the repository at `root`; print and return the status."""
    lines = SESSION.read_text("utf-8").split("\n")
    outcomes: list[Outcome] = []
    marks: list[Mark] = []
    print(show.replay_head())
    begun = time.perf_counter()
    async with Supervisor(dirs, workspaces=(Workspace(str(root)),)) as supervisor:
        async for outcome, mark in replay(supervisor, lines, str(root)):
            print(show.replay_row(outcome), flush=True)
            outcomes.append(outcome)
            marks.append(mark)
        undone = await _undo_last(supervisor, outcomes, root)
        await _leave_nothing_open(supervisor, dirs, outcomes)
    seconds = time.perf_counter() - begun
    wrong = Store(dirs).verify()
    store = Store(dirs)
    print(f"audit: {store.log.name}: {'whole' if wrong is None else wrong}")
    kept = _protected_as_before(root)
    if not kept:
        print("a protected file changed")
    differing = sum(1 for one in outcomes if one.get("expected") is not True)
    print(_summary(outcomes, differing, seconds))
    if Mark.FAILED in marks:
        return FAILED
    return 0 if not differing and undone and kept and wrong is None else 1


async def _undo_last(supervisor: Supervisor, outcomes: list[Outcome], root: Path) -> bool:
    """Undo the last landed call and look at the files: are they as before it?"""
    last = next((one for one in reversed(outcomes) if one["landed"]), None)
    if last is None:
        print("undo: nothing landed")
        return False
    result = await supervisor.undo(last["call"])
    changed = show.brief([one.model_dump(mode="json") for one in result.changes])
    same = all((root / name).read_text() == FILES[name] for name in ("README.md",))
    print(f"undo: {last['id']}: {changed}: {'as it was before' if same else 'NOT as before'}")
    return same


async def _leave_nothing_open(supervisor: Supervisor, dirs: Dirs, outcomes: list[Outcome]) -> None:
    """Discard what is held, and close the questions: the repository goes away with the run."""
    calls = {one["call"] for one in outcomes}
    for one in outcomes:
        if one["judgement"] == "hold" and not one["landed"]:
            await supervisor.discard(one["call"])
    grants = Grants(dirs)
    for asked in grants.open_questions(time.time()):
        if asked.request.call in calls:
            grants.close(asked.request.call, "cancelled", reason="the example is over")


def _protected_as_before(root: Path) -> bool:
    return all(
        (root / name).read_text() == FILES[name]
        if name in FILES
        else not os.path.lexists(root / name)
        for name in PROTECTED
    )


def _summary(outcomes: list[Outcome], differing: int, seconds: float) -> str:
    verdicts = Counter(str(one["verdict"]) for one in outcomes)
    held_back = sum(1 for one in outcomes if one["judgement"] in ("hold", "discard"))
    ran = sum(1 for one in outcomes if one["exit_status"] is not None)
    landed = sum(1 for one in outcomes if one["landed"])
    return (
        f"{len(outcomes)} calls: {ran} ran, {verdicts['deny']} denied, {landed} landed, "
        f"{held_back} kept from landing by gate 2, 1 undone; "
        f"{'all as expected' if not differing else f'{differing} NOT as expected'}; "
        f"{seconds:.1f} s"
    )


def main() -> int:
    """Run the example in a temporary folder, which holds its state too: not the user's own."""
    with tempfile.TemporaryDirectory(prefix="lockgate-example-") as folder:
        root = Path(folder).resolve() / "shop"
        dirs = Dirs.under(Path(folder).resolve() / "state")
        root.mkdir()
        make_repository(root)
        try:
            return asyncio.run(run(root, dirs.create()))
        except SandboxError as error:
            print(f"lockgate: {error}", file=sys.stderr)
            return FAILED


if __name__ == "__main__":
    sys.exit(main())
