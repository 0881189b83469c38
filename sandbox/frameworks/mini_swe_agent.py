# SPDX-License-Identifier: Apache-2.0
"""An environment for mini-swe-agent: each command of its agent is a call through Lockgate.

    environment_class: sandbox.frameworks.mini_swe_agent.LockgateEnvironment

What the agent reads is what the command wrote, and what Lockgate says of it. A refusal, and changes
that do not land, are a result with status 126; that Lockgate itself fails, or is stopped, raises.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from pydantic import BaseModel, ConfigDict

from sandbox.agents.allowed import check_path
from sandbox.client.async_client import Client
from sandbox.host.dirs import Dirs
from sandbox.questions.plans import read_plan
from sandbox.results import CallResult, Ending
from sandbox.workspaces.registry import Registry

REFUSED = 126
"""The status of what did not run, or of what has changes that did not land."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The line by which mini-swe-agent's agents say that they are done."""


class LockgateConfig(BaseModel):
    """The framework's settings of the environment; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid")

    cwd: str = ""
    """A folder in a registered workspace; empty: where the program runs."""
    env: dict[str, str] = {}
    timeout: int = 30
    """Seconds that one command may take."""
    agent: str = "main"
    """The name under which its calls are decided and recorded; the policy says how far it is
    trusted."""
    wait: float = 0.0
    """Seconds that a person is waited for where gate 1 asks; the question stays open after it."""


class LockgateEnvironment:
    """Runs commands of mini-swe-agent in a cell, over a workspace that is registered."""

    def __init__(
        self,
        *,
        config_class: type[LockgateConfig] = LockgateConfig,
        dirs: Dirs | None = None,
        **settings: Any,
    ) -> None:
        """Take the framework's settings. Raises BadInput where the folder is in no workspace, or
        what is given cannot name an agent."""
        self.config = config_class(**settings)
        check_path(self.config.agent)
        self._dirs = dirs or Dirs.default()
        self._folder = os.path.realpath(self.config.cwd or os.getcwd())  # noqa: PTH109
        known = Registry(self._dirs)
        self._workspace = (known.holding(self._folder) or known.find(self._folder)).path

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None
    ) -> dict[str, Any]:
        """Run the command of an action; return `output`, `returncode` and `exception_info`.

        Raises the framework's `Submitted` where the agent says that it is done, and SandboxError
        where Lockgate fails or all is stopped.
        """
        plan = read_plan(
            {
                "tool": "Bash",
                "params": {
                    "command": str(action.get("command", "")),
                    "timeout": (timeout or self.config.timeout) * 1000,
                },
                "workspace": self._workspace,
                "cwd": os.path.join(self._folder, cwd),  # noqa: PTH118
                "agent": self.config.agent,
            }
        )

        async def call() -> CallResult:
            async with Client(self._dirs) as client:
                return await client.call(plan, env=self.config.env or None, wait=self.config.wait)

        result = asyncio.run(call())
        output = _observed(result)
        self._check_finished(output)
        return output

    def _check_finished(self, output: dict[str, Any]) -> None:
        lines = output["output"].lstrip().splitlines(keepends=True)
        if output["returncode"] or not lines or lines[0].strip() != SUBMIT:
            return
        from minisweagent.exceptions import Submitted

        submission = "".join(lines[1:])
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Return what the framework's templates may name: of this host nothing but the system."""
        system = os.uname()
        names = {"system": system.sysname, "machine": system.machine, "release": "", "version": ""}
        return {**self._told(), **names, "cwd": self._folder, **more}

    def serialize(self) -> dict[str, Any]:
        """Return what a trajectory says of the environment."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        config = {"environment": self._told(), "environment_type": kind}
        return {"info": {"config": config}}

    def _told(self) -> dict[str, Any]:
        """Return the settings as prompts and trajectories may hold them: of `env` the names."""
        settings = self.config.model_dump(mode="json", exclude={"env"})
        return {**settings, "env": sorted(self.config.env)}


def _observed(result: CallResult) -> dict[str, Any]:
    """Return a result as the agent is told it."""
    ran = result.exit_status is not None
    stays = result.judgement in ("hold", "discard")
    status = result.exit_status if ran and not stays else REFUSED
    texts = (result.stdout, result.stderr, result.message and f"lockgate: {result.message}")
    output = "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text)
    why = "" if result.ending is Ending.RAN else f"{result.ending.value}: {result.message}"
    return {"output": output, "returncode": status, "exception_info": why}
