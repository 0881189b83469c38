# SPDX-License-Identifier: Apache-2.0
"""What an agent may take away again of its own without a person, beside what it may not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from policy.model import Verdict
from sandbox.approvals.approver import yes
from sandbox.config.settings import Dirs
from tests.container.lab import ME, both_gates, git, remove_layers, repository

MAKEFILE = """all:
\tmkdir -p out && echo 1 > out/a && echo 2 > prog
clean:
\trm -rf out prog
"""
GONE = "import os, sys; [os.unlink(one) for one in sys.argv[1:]]\n"


def test_an_agent_takes_its_own_work_away_and_nobody_elses(
    docker_client: Any, images: Any, run_id: str, tmp_path: Path
) -> None:
    work = repository(tmp_path / "work", ME)
    (work / "Makefile").write_text(MAKEFILE)
    (work / "gone.py").write_text(GONE)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "build")
    dirs = Dirs.under(tmp_path / "lockgate")

    async def session() -> None:
        async with both_gates(dirs, work, run_id) as sh:
            # what make made in another call goes without being named
            assert (await sh("make")).landed
            cleaned = await sh("make clean")
            assert (cleaned.judgement, cleaned.landed) == ("land", True), cleaned.message
            assert not (work / "out").exists()
            assert not (work / "prog").exists()

            # but not what a person put among it, changed, or took into git; nor another agent's
            assert (await sh("make")).landed
            (work / "out/notes.txt").write_text("a person's\n")
            held = await sh("make clean")
            assert (held.judgement, held.landed) == ("hold", False), held.message
            (work / "out/notes.txt").unlink()
            (work / "prog").write_text("a person's\n")
            assert (await sh("make clean")).judgement == "hold"
            assert (await sh("echo x > tracked.txt; echo x > others.txt; echo x > mine.txt")).landed
            git(work, "add", "tracked.txt")
            assert (await sh("python3 gone.py tracked.txt")).judgement == "hold"
            assert (await sh("python3 gone.py others.txt", agent="other")).judgement == "hold"
            assert (await sh("python3 gone.py README.md")).judgement == "hold"
            mine = await sh("python3 gone.py mine.txt")
            assert (mine.judgement, mine.landed) == ("land", True), mine.message
            # and it may have another name without being named, as nobody else's file may
            assert (await sh("echo x > mine.txt; echo x > tracked2.txt")).landed
            git(work, "add", "tracked2.txt")
            renames = "import os, sys; os.rename(*sys.argv[1:])\n"
            (work / "rename.py").write_text(renames)
            assert (await sh("python3 rename.py mine.txt mine2.txt")).landed
            assert (await sh("python3 rename.py tracked2.txt t3.txt")).judgement == "hold"
            assert (await sh("python3 rename.py rename.py r2.py")).judgement == "hold"
            moved = await sh("mv README.md moved.md")
            assert moved.landed, moved.message
            assert (await sh("python3 gone.py moved.md")).judgement == "hold"

            # emptying, and what one call makes and takes away
            assert (await sh("echo x > own.txt")).landed
            emptied = await sh("> own.txt")
            assert (emptied.verdict, emptied.landed) == (Verdict.REPORT, True), emptied.message
            assert (await sh("> src/app.py")).verdict is Verdict.ASK
            once = await sh("echo 'print(1)' > once.py && python3 once.py; rm once.py")
            assert (once.verdict, once.stdout) == (Verdict.REPORT, "1\n"), once.message
            assert (await sh("touch gone.py && rm gone.py")).verdict is Verdict.ASK
            assert (work / "gone.py").exists()

            # notes are references of their own, and a look at a patch changes nothing
            noted = await sh("git notes add -m tested && git notes show")
            assert (noted.verdict, noted.stdout, noted.landed) == (
                Verdict.REPORT,
                "tested\n",
                True,
            )
            shown = await sh("git diff > fix.diff; git apply --check -R fix.diff")
            assert (shown.verdict, shown.exit_status) == (Verdict.REPORT, 0), shown.stderr

    try:
        asyncio.run(session())
    finally:
        remove_layers(docker_client, dirs)


def test_a_work_tree_goes_with_the_obeyed_files_in_it(
    docker_client: Any, images: Any, run_id: str, tmp_path: Path
) -> None:
    work = repository(tmp_path / "work", ME)
    git(work, "rm", "-q", "devkit.config.json")
    (work / ".github/workflows").mkdir(parents=True)
    (work / ".github/workflows/ci.yml").write_text("on: push\n")
    (work / "rip.py").write_text("import shutil; shutil.rmtree('wt')\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "ci")
    dirs = Dirs.under(tmp_path / "lockgate")
    workflow = "wt/.github/workflows/ci.yml"

    async def session() -> None:
        async with both_gates(dirs, work, run_id) as sh:
            assert (await sh("git worktree add -q wt -b topic")).landed
            assert (work / workflow).exists()
            # one obeyed file of it, or all of it without git's word, is a person's to say
            alone = await sh(f"rm {workflow}", yes)
            assert (alone.judgement, alone.landed) == ("hold", False), alone.message
            ripped = await sh("python3 rip.py")
            assert (ripped.judgement, ripped.landed) == ("hold", False), ripped.message
            # git refuses what would lose something
            (work / "wt/new.txt").write_text("a person's\n")
            refused = await sh("git worktree remove wt", yes)
            assert (refused.exit_status, (work / workflow).exists()) == (128, True)
            (work / "wt/new.txt").unlink()
            assert (await sh("git worktree remove wt")).verdict is Verdict.ASK
            gone = await sh("git worktree remove wt", yes)
            assert (gone.judgement, gone.landed) == ("land", True), gone.message
            assert not (work / "wt").exists()
            assert git(work, "worktree", "list").count("\n") == 1

    try:
        asyncio.run(session())
    finally:
        remove_layers(docker_client, dirs)
