# SPDX-License-Identifier: Apache-2.0
"""Found: an agent that stood in its workspace by another name, through a link, was told to run
`lockgate init`, which refused the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.agents.peer import Caller
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.workspaces.registry import Registry


@pytest.fixture
def workspaces(tmp_path: Path) -> Registry:
    """Return a registry with the workspace `real/w`, to which links lead from outside."""
    (tmp_path / "real/w/src").mkdir(parents=True)
    (tmp_path / "real/else").mkdir()
    (tmp_path / "alias").symlink_to("real/w")
    (tmp_path / "above").symlink_to("real")
    (tmp_path / "real/w/out").symlink_to("../else")
    registry = Registry(Dirs.under(tmp_path / "state").create())
    registry.add(tmp_path / "real/w", approved=True)
    return registry


@pytest.mark.parametrize("said", [True, False], ids=["as a field of the call", "as it is"])
@pytest.mark.parametrize(
    "name, place",
    {"alias": "", "alias/src": "src", "above/w": "", "above/w/src": "src", "real/w": ""}.items(),
)
def test_it_is_the_workspace_itself(
    workspaces: Registry, tmp_path: Path, name: str, place: str, said: bool
) -> None:
    here = str(tmp_path / name)
    fields = {"tool": "Bash", "params": {"command": "ls"}, **({"cwd": here} if said else {})}
    plan = plan_of(fields, Caller(None), Whereabouts.registered(workspaces, here))
    root = tmp_path / "real/w"
    assert (plan.workspace, plan.cwd) == (str(root), str(root / place))


@pytest.mark.parametrize("name", ["above", "above/else", "real/else", "nowhere", "x\0"])
def test_a_name_of_another_place_is_refused(
    workspaces: Registry, tmp_path: Path, name: str
) -> None:
    fields = {"tool": "Bash", "params": {"command": "ls"}}
    with pytest.raises(BadInput):
        plan_of(fields, Caller(None), Whereabouts.registered(workspaces, str(tmp_path / name)))


def test_a_link_within_the_workspace_stays_as_it_is_named(
    workspaces: Registry, tmp_path: Path
) -> None:
    here = str(tmp_path / "real/w/out")
    fields = {"tool": "Bash", "params": {"command": "ls"}}
    plan = plan_of(fields, Caller(None), Whereabouts.registered(workspaces, here))
    assert plan.cwd == here
