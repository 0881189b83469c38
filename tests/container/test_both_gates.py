# SPDX-License-Identifier: Apache-2.0
"""A few calls through both real gates, from the plan to the real files and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from policy.model import Verdict
from sandbox.approvals.approver import yes
from sandbox.config.settings import Dirs
from sandbox.results import Ending
from tests.container.lab import ME, both_gates, remove_layers, repository


def test_calls_through_both_gates(
    docker_client: Any, images: Any, run_id: str, tmp_path: Path
) -> None:
    work = repository(tmp_path / "work", ME)
    dirs = Dirs.under(tmp_path / "lockgate")

    async def session() -> None:
        async with both_gates(dirs, work, run_id) as sh:
            seen = await sh("cat README.md && git status --short")
            assert (seen.verdict, seen.ending, seen.judgement) == (
                Verdict.ALLOW, Ending.RAN, None,
            )  # fmt: skip
            assert seen.stdout == "Hello\nworld\nagain\n"
            denied = await sh("rm -rf /", yes)
            assert (denied.verdict, denied.ending) == (Verdict.DENY, Ending.DENIED)
            asked = await sh("git push")
            assert (asked.verdict, asked.ending) == (Verdict.ASK, Ending.NOT_APPROVED)
            landed = await sh('python3 -c \'open("made.txt", "w").write("x")\'', yes)
            assert (landed.landed, (work / "made.txt").read_text()) == (True, "x")
            first = await sh("echo '{}' > tmp1", yes)
            second = await sh("mv tmp1 devkit.config.json", yes)
            assert (first.landed, second.landed) == (True, False)
            assert (work / "devkit.config.json").read_text() == '{"strict": true}\n'
            await sh.supervisor.undo(landed.id)
            assert not (work / "made.txt").exists()

    asyncio.run(session())
    remove_layers(docker_client, dirs)
