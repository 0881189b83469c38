# SPDX-License-Identifier: Apache-2.0
"""A call that waits in one place and is answered in another, in a real cell."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from policy.model import ActionPlan, Params, Workspace
from sandbox.approvals.desk import waiting
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Terms
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from sandbox.results import CallResult, Ending

pytestmark = pytest.mark.docker
WAIT_SECONDS = 120.0


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_from_elsewhere_decides(
    images: Images, tmp_path: Path, run_id: str, approved: bool
) -> None:
    place = tmp_path / "work"
    place.mkdir()
    (place / "a.txt").write_text("a")
    dirs = Dirs.under(tmp_path / "lockgate").create()
    grants = Grants(dirs)

    async def answered(supervisor: Supervisor) -> CallResult:
        plan = ActionPlan(tool="Bash", params=Params(command="rm a.txt"), workspace=str(place))
        call = asyncio.create_task(supervisor.call(plan, approver=waiting))
        while not (found := grants.open_questions(time.time())):
            await asyncio.sleep(0.05)
        assert (place / "a.txt").exists()
        if approved:
            grants.approve(found[0].request, Terms(), by="me", reason="", now=time.time())
        else:
            grants.close(found[0].request.call, "denied", by="me", reason="no")
        return await call

    async def run() -> CallResult:
        async with (
            asyncio.timeout(WAIT_SECONDS),
            Supervisor(
                dirs, workspaces=[Workspace(str(place))], labels={LABEL_TEST: run_id}
            ) as supervisor,
        ):
            return await answered(supervisor)

    done = asyncio.run(run())
    assert (done.ending is Ending.RAN) is approved
    assert (place / "a.txt").exists() is not approved
