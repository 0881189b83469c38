# SPDX-License-Identifier: Apache-2.0
"""A start that was cancelled while the engine made something did not know of it, and left it."""

from __future__ import annotations

import asyncio

import docker
import pytest

from sandbox.config.settings import Lifetime, Settings
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_STATE
from sandbox.containers.runtimes import missing
from sandbox.setup import gvisor
from tests.conftest import cannot_run
from tests.container.conftest import MakeLab


@pytest.mark.parametrize("runtime", [None, gvisor.NAME])
def test_a_cell_that_is_cancelled_as_it_starts_leaves_nothing(
    make_lab: MakeLab, docker_client: docker.DockerClient, runtime: str | None
) -> None:
    if runtime and (problem := missing(runtime, docker_client.info())):
        cannot_run(problem)
    lab = make_lab(settings=Settings(lifetime=Lifetime.DISPOSABLE, runtime=runtime, warm=0))
    assert lab.sh("true").exit_status == 0  # the control, and the engine is reached

    async def work() -> None:
        for number in range(12):
            task = asyncio.ensure_future(lab.call("sleep 260"))
            await asyncio.sleep(0.05 * number)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert lab.supervisor._live.pool is not None
        await lab.supervisor._live.pool.end_all()

    lab.run(work())
    assert lab.containers() == []
    volumes = docker_client.volumes.list(
        filters={"label": f"{LABEL_STATE}={state_label(lab.dirs)}"}
    )
    assert volumes == []
