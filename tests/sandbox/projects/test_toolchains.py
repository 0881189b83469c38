# SPDX-License-Identifier: Apache-2.0
"""Toolchains of the host: what a project asks for, what a person agreed to, what cells see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policy.protected.paths import PathPolicy
from sandbox.cells.request import with_programs
from sandbox.cli.admin.toolchains import offer_toolchains
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.projects.needed_toolchains import Needed, find_needed
from sandbox.projects.toolchain_masks import MOST_HIDDEN, ToolchainMasks
from sandbox.projects.toolchain_trial import try_toolchains
from sandbox.projects.toolchains import Shown, ToolchainRecord
from sandbox.workspaces.registry import Registry
from tests.conftest import cannot_run


class Person:
    """A home with an interpreter of pyenv, a workspace with an environment made of it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.python = self.install(".pyenv/versions/3.12.1", "bin/python3")
        self.ws = root / "home/work"
        self.ws.mkdir()
        self.dirs = Dirs.under(root / "lockgate").create()
        Registry(self.dirs, home=self.home).add(self.ws)
        self.record = ToolchainRecord(self.dirs, home=str(self.home))

    def install(self, name: str, program: str) -> str:
        """Put a program into a folder of the home."""
        file = self.home / name / program
        file.parent.mkdir(parents=True)
        file.write_text("#!/bin/sh\n")
        return str(self.home / name)

    def environment(self, home: str, name: str = ".venv") -> None:
        """Write the file of a virtual environment that names its interpreter."""
        (self.ws / name).mkdir(exist_ok=True)
        (self.ws / name / "pyvenv.cfg").write_text(f"home = {home}\nversion = 3.12.1\n")

    def needed(self) -> tuple[Needed, ...]:
        """Return what the project asks for."""
        return find_needed(str(self.ws), str(self.home))


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Return a person whose PATH holds nothing."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    return Person(tmp_path)


def test_the_interpreter_of_an_environment_is_found(person: Person) -> None:
    assert person.needed() == ()
    person.environment(f"{person.python}/bin")
    assert person.needed() == (Needed("python", ".venv/pyvenv.cfg", person.python),)


def test_one_of_no_known_place_gets_advice(person: Person) -> None:
    person.environment("/usr/local/bin")
    (one,) = person.needed()
    assert one.folder == ""
    assert "--from python:3.12-bookworm" in one.advice
    person.environment("/usr/bin")  # the image has that
    assert person.needed() == ()


@pytest.mark.parametrize("place", ["/root/.ssh", "/", "..", "{home}", "{home}/.ssh/bin", "\0"])
def test_what_an_agent_writes_there_shows_nothing(person: Person, place: str) -> None:
    (person.home / ".ssh/bin").mkdir(parents=True)
    (person.home / ".ssh/bin/python3").write_text("")
    person.environment(place.format(home=person.home))
    assert [one.folder for one in person.needed() if one.folder] == []
    person.environment(f"{person.python}/bin")
    assert person.record.shown((str(person.ws),)) == ()  # nobody has agreed


def test_a_node_is_found_by_what_the_project_asks_for(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = person.install(".nvm/versions/node/v18.1.0", "bin/node")
    new = person.install(".nvm/versions/node/v22.3.0", "bin/node")
    Path(old, "bin/node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}/bin")
    assert person.needed() == ()  # no project of Node
    (person.ws / "package.json").write_text("{}")
    assert person.needed() == (Needed("node", "package.json", old),)
    (person.ws / ".nvmrc").write_text("v22\n")
    assert person.needed() == (Needed("node", "package.json", new),)
    (person.ws / ".nvmrc").write_text("../../../.ssh\n")
    assert person.needed() == (Needed("node", "package.json", old),)


def test_what_was_agreed_is_shown_until_it_is_taken_back(person: Person) -> None:
    node = person.install(".nvm/versions/node/v22.3.0", "bin/node")
    person.record.agree(str(person.ws), (person.python, node))
    wanted = (Shown(person.python, person.python), Shown(node, node, f"{node}/bin"))
    assert person.record.shown((str(person.ws),)) == wanted
    assert person.record.shown(("/elsewhere",)) == ()
    person.record.agree(str(person.ws), ())
    assert person.record.shown((str(person.ws),)) == ()


def test_a_version_by_another_name_is_shown_at_both(person: Person) -> None:
    other = f"{person.home}/.pyenv/versions/3.12"
    Path(other).symlink_to("3.12.1")
    person.record.agree(str(person.ws), (other,))
    wanted = (Shown(other, person.python), Shown(person.python, person.python))
    assert person.record.shown((str(person.ws),)) == wanted


def replaced_by_a_link(person: Person) -> str:
    keys = person.install(".ssh", "bin/python3")
    Path(person.python).rename(f"{person.python}.old")
    Path(person.python).symlink_to(keys)
    return "is no toolchain of the table"


def open_to_all(person: Person) -> str:
    Path(person.python).chmod(0o777)
    return "can be written by others"


def open_to_all_but_for_names(person: Person) -> str:
    Path(person.python).chmod(0o1777)
    return "can be written by others"


def with_programs_of_all(person: Person) -> str:
    Path(person.python, "bin").chmod(0o777)
    return "bin` can be written by others"


def with_a_program_of_all(person: Person) -> str:
    Path(person.python, "bin/python3").chmod(0o777)
    return "bin/python3` can be written by others"


def above_it_open_to_all(person: Person) -> str:
    Path(person.python).parent.chmod(0o777)
    return "can be written by others"


def without_its_program(person: Person) -> str:
    Path(person.python, "bin/python3").unlink()
    return "holds no `bin/python3`"


def in_a_workspace(person: Person) -> str:
    Registry(person.dirs, home=person.home).add(person.python, approved=True)
    return "where agents write"


def somebody_elses(person: Person) -> str:
    if os.geteuid() != 0:
        cannot_run("only root can give a file away")
    os.chown(person.python, 4321, 4321)
    return "belongs to another user"


DOUBTS = (
    replaced_by_a_link,
    open_to_all,
    open_to_all_but_for_names,
    with_programs_of_all,
    with_a_program_of_all,
    above_it_open_to_all,
    without_its_program,
    in_a_workspace,
    somebody_elses,
)


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda one: one.__name__)
def test_what_is_in_doubt_is_not_shown_though_it_was_agreed(person: Person, doubt: object) -> None:
    person.record.agree(str(person.ws), (person.python,))
    assert person.record.problem(person.python) == ""
    assert callable(doubt)
    assert doubt(person) in person.record.problem(person.python)
    assert person.record.shown((str(person.ws),)) == ()


def test_a_folder_above_it_where_nobody_renames_anothers_will_do(person: Person) -> None:
    Path(person.python).parent.chmod(0o1777)
    assert person.record.problem(person.python) == ""


def test_a_yes_is_taken_back_by_a_person_alone(
    person: Person, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def say_yes(question: str) -> bool:
        asked.append(question)
        return True

    monkeypatch.setenv("HOME", str(person.home))
    monkeypatch.setattr("sandbox.cli.terminal.dirs", lambda: person.dirs)
    monkeypatch.setattr("sandbox.projects.toolchain_trial.try_toolchains", lambda *_: [])
    monkeypatch.setattr("sandbox.cli.terminal.ask", say_yes)
    workspace = str(person.ws)

    def init(*, yes: bool = False, person_there: bool = False) -> str:
        monkeypatch.setattr("sandbox.cli.terminal.can_ask", lambda: person_there)
        offer_toolchains(workspace, yes=yes)
        return "".join(capsys.readouterr())

    person.environment(f"{person.python}/bin")
    assert f"`--yes`: cells see {person.python}" in init(yes=True)
    assert person.record.of(workspace) == (person.python,)
    Path(person.python).chmod(0o777)  # a doubt of now is no word of a person
    assert "can be written by others" in init()
    assert person.record.of(workspace) == (person.python,)
    Path(person.python).chmod(0o755)

    (person.ws / ".venv/pyvenv.cfg").unlink()  # it is being made anew
    for yes in (False, True):
        assert f"does not name {person.python} now, which its cells see" in init(yes=yes)
        assert person.record.of(workspace) == (person.python,)
    other = person.install(".pyenv/versions/3.13.0", "bin/python3")
    person.environment(f"{other}/bin")
    assert f"cells do not see {person.python} any more" in init(yes=True)
    assert person.record.of(workspace) == (other,)
    assert asked == []
    (person.ws / ".venv/pyvenv.cfg").unlink()
    init(person_there=True)
    assert (len(asked), person.record.of(workspace)) == (1, ())


def test_a_broken_record_is_an_error(person: Person) -> None:
    (person.dirs.state / "toolchains.json").write_text("[]")
    with pytest.raises(BadInput, match="cannot be read; remove it"):
        person.record.shown((str(person.ws),))


def test_programs_of_a_toolchain_come_first_and_are_not_the_images() -> None:
    request = {"argv": ["x"], "env": {"PATH": "/bin", "A": "b"}, "vouch": {"program": "jest"}}
    assert with_programs(request, ()) == request
    wanted = {"argv": ["x"], "env": {"PATH": "/n/bin:/bin", "A": "b"}}
    assert with_programs(request, ("/n/bin",)) == wanted


HIDE, SHOW = PathPolicy.default().mask_expressions()
SECRETS = ("etc/npmrc", "pip.conf", ".condarc", "etc/conda/x.yml", "lib/a.key", ".env")
PLAIN = ("lib/a.py", "lib/pip/conf.py", "share/npmrc.md")


def test_secrets_and_settings_of_package_managers_are_hidden(person: Person) -> None:
    for name in (*SECRETS, *PLAIN):
        file = Path(person.python, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    found = ToolchainMasks().find(person.python, HIDE, SHOW)
    assert found is not None
    hidden = {name for name, _ in found}
    assert all(any(one == name or name.startswith(f"{one}/") for one in hidden) for name in SECRETS)
    assert not hidden & {*PLAIN, "lib", "share", "etc"}
    shown = ToolchainMasks().find(person.python, HIDE, ["pip\\.conf"])
    assert shown is not None
    assert ("pip.conf", False) in shown  # what a policy shows in a workspace is no word about it


def test_a_toolchain_is_looked_through_again_when_it_changed(person: Person) -> None:
    masks, place = ToolchainMasks(), Path(person.python)
    assert masks.find(person.python, HIDE, SHOW) == ()
    (place / "bin/a.key").write_text("x")
    assert masks.find(person.python, HIDE, SHOW) == (("bin/a.key", False),)
    (place / "bin/a.key").unlink()
    assert masks.find(person.python, HIDE, SHOW) == ()


def test_one_with_too_much_to_hide_is_not_shown_and_that_is_said(person: Person) -> None:
    for number in range(MOST_HIDDEN + 1):
        Path(person.python, f"{number}.key").write_text("x")
    assert ToolchainMasks().find(person.python, HIDE, SHOW) is None
    shown = [Shown(person.python, person.python)]
    (line,) = try_toolchains(person.dirs, str(person.home), shown, lambda _: lambda *_: "")
    assert "is not shown to cells" in line
    Path(person.python, "0.key").unlink()
    assert try_toolchains(person.dirs, str(person.home), shown, lambda _: lambda *_: "") == []
