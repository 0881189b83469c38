# SPDX-License-Identifier: Apache-2.0
"""Which folders can be workspaces, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.model import Workspace
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import NeedsApproval, Registry, State, Status, Validation


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in ("project/src", "other", ".ssh", ".aws", ".config", "a b'c é"):
        (home / name).mkdir(parents=True)
    (home / "file").write_text("")
    (home / "link").symlink_to(home / "project")
    return home


@pytest.fixture
def registry(home: Path, tmp_path: Path) -> Registry:
    return Registry(Dirs.under(tmp_path / "lockgate"), home=home)


def test_a_folder_of_the_home_is_registered_once(registry: Registry, home: Path) -> None:
    found = registry.add(home / "project")
    assert found == Workspace(str(home / "project"))
    assert registry.add(f"{home}/project/") == found
    assert registry.list() == (found,)
    assert registry.remove(home / "project") == found
    assert registry.list() == ()


def test_spaces_quotes_and_accents_are_fine(registry: Registry, home: Path) -> None:
    assert registry.add(home / "a b'c é").path == str(home / "a b'c é")


def test_a_folder_outside_the_home_needs_a_yes(registry: Registry, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(NeedsApproval, match="lies outside your home; adding it needs your yes"):
        registry.add(outside)
    assert registry.add(outside, approved=True).path == str(outside)


REFUSED: dict[str, tuple[Callable[[Path], str], str]] = {
    "the root": (lambda home: "/", "`/` is the whole file system"),
    "the home itself": (lambda home: str(home), "is your home; name a folder in it"),
    "an ancestor of the home": (lambda home: str(home.parent), "name a folder for the project"),
    "keys": (lambda home: f"{home}/.ssh", "holds secrets"),
    "cloud credentials": (lambda home: f"{home}/.aws", "holds secrets"),
    "configuration": (lambda home: f"{home}/.config", "holds secrets"),
    "a folder of the system": (lambda home: "/usr/lib", "is a folder of the system"),
    "a folder above the system's": (lambda home: "/var", "name a folder for the project alone"),
    "processes": (lambda home: "/proc", "is a folder of the system"),
    "devices": (lambda home: "/dev", "is a folder of the system"),
    "what is not there": (lambda home: f"{home}/nothing", "does not exist"),
    "a file": (lambda home: f"{home}/file", "is not a folder"),
    "below a file": (lambda home: f"{home}/file/x", "is not a folder"),
    "a newline": (lambda home: f"{home}/a\nb", "has a control character in its name"),
    "a NUL": (lambda home: f"{home}/a\0b", "has a control character in its name"),
    "a name that is not UTF-8": (lambda home: f"{home}/\udcff", "has a name that is not UTF-8"),
    "nothing": (lambda home: "", "the path is empty"),
}


@pytest.mark.parametrize("path, message", REFUSED.values(), ids=REFUSED)
def test_refused(registry: Registry, home: Path, path: Callable[[Path], str], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        registry.add(path(home), approved=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert registry.list() == ()


def test_a_link_is_refused_with_the_real_path(registry: Registry, home: Path) -> None:
    with pytest.raises(BadInput) as caught:
        registry.add(home / "link")
    assert str(caught.value) == (f"`{home}/link` is a symlink; name the real path `{home}/project`")
    with pytest.raises(BadInput) as caught:
        registry.add(home / "link" / "src")
    assert str(caught.value) == (
        f"`{home}/link/src` is reached through `{home}/link`, a symlink; "
        f"name the real path `{home}/project/src`"
    )


def test_our_own_folders_are_refused(home: Path) -> None:
    dirs = Dirs.under(home / "project" / "lockgate").create()
    registry = Registry(dirs, home=home)
    with pytest.raises(BadInput, match="is Lockgate's own"):
        registry.add(dirs.state)
    with pytest.raises(BadInput, match="name a folder for the project alone"):
        registry.add(home / "project")


def test_workspaces_do_not_nest(registry: Registry, home: Path) -> None:
    registry.add(home / "project")
    with pytest.raises(BadInput, match="lies in the workspace"):
        registry.add(home / "project" / "src")
    registry.remove(home / "project")
    registry.add(home / "project" / "src")
    with pytest.raises(BadInput, match="holds the workspace"):
        registry.add(home / "project")


def test_a_name_that_begins_alike_is_not_inside(registry: Registry, home: Path) -> None:
    (home / "project2").mkdir()
    registry.add(home / "project")
    assert registry.holding(home / "project2") is None
    assert registry.holding(home / "project" / "src") == Workspace(str(home / "project"))


def test_status_says_what_became_of_each(registry: Registry, home: Path) -> None:
    registry.add(home / "project")
    registry.add(home / "other")
    (home / "other").rmdir()
    (home / "project").rename(home / "moved")
    (home / "project").symlink_to(home / "moved")
    assert registry.status() == (
        Status(str(home / "other"), State.GONE, f"`{home}/other` does not exist"),
        Status(
            str(home / "project"),
            State.CHANGED,
            f"`{home}/project` is a symlink; name the real path `{home}/moved`",
        ),
    )
    with pytest.raises(BadInput, match="is a symlink"):
        registry.find(home / "project")


def test_validate_answers_for_any_path(registry: Registry, home: Path) -> None:
    registry.add(home / "project")
    inside = str(home / "project")
    assert registry.validate(home / "project" / "new" / "file.py") == Validation(
        f"{inside}/new/file.py", valid=True, workspace=inside, reason=f"inside `{inside}`"
    )
    through = registry.validate(home / "link" / "src")
    assert (through.valid, through.workspace) == (True, inside)
    assert registry.validate("/etc/passwd") == Validation(
        "/etc/passwd", valid=False, workspace=None, reason="`/etc/passwd` is a folder of the system"
    )
    assert "in no registered workspace" in registry.validate(home / "other").reason
    assert "holds secrets" in registry.validate(home / ".ssh" / "id_rsa").reason
    assert not registry.validate("a\nb").valid


def test_a_link_out_of_a_workspace_is_not_inside(registry: Registry, home: Path) -> None:
    registry.add(home / "project")
    (home / "project" / "keys").symlink_to(home / ".ssh")
    assert "holds secrets" in registry.validate(home / "project" / "keys" / "id_rsa").reason


def test_around_and_find_say_what_to_do(registry: Registry, home: Path) -> None:
    with pytest.raises(BadInput, match="`lockgate init` registers it, `-w PATH` names another"):
        registry.around(home / "other")
    with pytest.raises(BadInput, match="`lockgate workspace add` registers it"):
        registry.find(home / "other")
    registry.add(home / "project")
    assert registry.around(home / "project" / "src").path == str(home / "project")
    with pytest.raises(BadInput, match="is not a workspace but lies in"):
        registry.find(home / "project" / "src")


def test_the_list_is_json_and_a_broken_one_is_said(
    registry: Registry, home: Path, tmp_path: Path
) -> None:
    registry.add(home / "project")
    file = tmp_path / "lockgate" / "state" / "workspaces.json"
    assert json.loads(file.read_text()) == {"workspaces": [{"path": str(home / "project")}]}
    file.write_text("{")
    with pytest.raises(BadInput, match="cannot be read; remove it"):
        registry.list()
