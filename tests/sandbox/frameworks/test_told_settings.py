# SPDX-License-Identifier: Apache-2.0
"""What prompts and trajectories hold of the settings of a framework's environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox.errors import BadInput
from sandbox.frameworks.mini_swe_agent import LockgateEnvironment
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry

SECRET = "a-token-of-a-person"


def test_of_variables_for_commands_only_the_names_are_told(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path / "lockgate")
    dirs.create()
    (tmp_path / "w").mkdir()
    Registry(dirs, home=tmp_path).add(tmp_path / "w")
    made = LockgateEnvironment(
        dirs=dirs, cwd=str(tmp_path / "w"), env={"TOKEN": SECRET, "A": SECRET}, timeout=7
    )
    assert made.config.env["TOKEN"] == SECRET  # commands get it
    told = made.get_template_vars(task="x")
    kept = made.serialize()["info"]["config"]["environment"]
    for one in (told, kept):
        assert one["env"] == ["A", "TOKEN"]
        assert one["timeout"] == 7
        assert SECRET not in json.dumps(one)
    assert told["task"] == "x"


def test_what_cannot_name_an_agent_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match="cannot name an agent"):
        LockgateEnvironment(agent=":")
