# SPDX-License-Identifier: Apache-2.0
"""An agent registered `.git/hooks` as a workspace, in which no rule knew a hook, and landed one.

Rules go by names from a workspace's top. So agents register nothing and take nothing off the list,
and a folder that programs obey is registered by a person's yes alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import NeedsApproval, Registry
from tests.sandbox.shells import Shell

OBEYED = (
    *("w/.git/hooks", "w/.git", "w/.github", "w/.github/workflows", "w/.husky", ".vim/plugin"),
    *(".local/bin", ".claude", ".oh-my-zsh", "bin", "bare.git/hooks", "Library/LaunchAgents"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in (*OBEYED, "w/src", "work/bin", "binder", "w.d"):
        (home / name).mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "--bare", str(home / "bare.git")], check=True)
    return home


@pytest.mark.parametrize("name", OBEYED)
def test_a_folder_that_programs_obey_needs_a_yes(home: Path, tmp_path: Path, name: str) -> None:
    registry = Registry(Dirs.under(tmp_path / "l"), home=home)
    with pytest.raises(NeedsApproval, match="needs your yes"):
        registry.add(home / name)
    assert registry.list() == ()
    registry.add(home / name, approved=True)
    assert registry.add(home / name).path == str(home / name)  # it is registered already


@pytest.mark.parametrize("name", ["w", "w/src", "work", "work/bin", "binder", "w.d"])
def test_others_need_none(home: Path, tmp_path: Path, name: str) -> None:
    registry = Registry(Dirs.under(tmp_path / "l"), home=home)
    assert registry.add(home / name).path == str(home / name)


@pytest.mark.parametrize("verb", [("init",), ("workspace", "add"), ("workspace", "remove")])
def test_agents_change_no_list(tmp_path: Path, verb: tuple[str, ...]) -> None:
    shell = Shell(tmp_path)
    home = tmp_path / "home"
    (home / "new").mkdir(parents=True)
    (home / "old").mkdir()
    shell.dirs.create()
    registry = Registry(shell.dirs, home=home)
    registry.add(home / "old")
    name = "old" if "remove" in verb else "new"
    agents = {"LOCKGATE_AGENT": "a:0123", "HOME": str(home)}
    status, shown = shell.at_terminal(*verb, str(home / name), env=agents)
    assert (status, "a person's decision" in shown) == (126, True), shown
    assert [one.path for one in registry.list()] == [str(home / "old")]
    if "remove" not in verb:  # what is registered may be named again
        status, shown = shell.at_terminal(*verb, str(home / "old"), env=agents)
        assert status == 0, shown
    status, shown = shell.at_terminal(*verb, str(home / name), env={"HOME": str(home)})
    assert status == 0, shown
    assert (str(home / name) in {one.path for one in registry.list()}) is ("remove" not in verb)
