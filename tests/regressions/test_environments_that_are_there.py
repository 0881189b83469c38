# SPDX-License-Identifier: Apache-2.0
"""A call changed `.venv/bin/activate`, which a person sources, and it landed unasked."""

from __future__ import annotations

import re

import pytest

from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind
from tests.container.lab import Lab
from tests.policy.asking import bash
from tests.regressions.test_what_programs_obey_is_held import DECISION, PATHS, outcome

FILE, LINK = FileType.FILE, FileType.SYMLINK
RUN = (
    *(
        ".venv/bin/activate",
        "venv/bin/activate.fish",
        "a/env/bin/activate_this.py",
        ".venv/pyvenv.cfg",
    ),
    *(
        "env/Scripts/activate.bat",
        ".venv/bin/python",
        ".venv/bin/python3.12",
        "env/Scripts/python.exe",
    ),
)


@pytest.mark.parametrize("path", RUN)
def test_what_people_run_of_one_that_is_there_is_held(path: str) -> None:
    assert outcome(Change(path, Kind.MODIFIED, FILE)) == "hold"
    if not path.endswith("pyvenv.cfg"):
        assert outcome(Change(path, Kind.CREATED, FILE)) == "hold"
        link = Change(path, Kind.MODIFIED, LINK, target="../../evil")
        assert outcome(link) == "hold"


@pytest.mark.parametrize("path", RUN)
def test_what_a_call_makes_anew_lands(path: str) -> None:
    root = path.partition("/bin/")[0].partition("/Scripts/")[0].removesuffix("/pyvenv.cfg")
    mark = Change(f"{root}/pyvenv.cfg", Kind.CREATED, FILE)
    assert outcome(mark, Change(path, Kind.CREATED, FILE)) == "land"
    other = Change("other/pyvenv.cfg", Kind.CREATED, FILE)
    assert path.endswith(".cfg") or outcome(other, Change(path, Kind.CREATED, FILE)) == "hold"


@pytest.mark.parametrize(
    "path",
    [
        *("bin/activation.sh", "node_modules/a/cli.js", "src/a.pth", "bin/pytest"),
        *(".venv/lib/python3.12/site-packages/a/__init__.py", "src/python.py", "bin/python-lint"),
        *("scripts/activate_user.py", "scripts/activate.ts", "bin/activate.sh"),
    ],
)
def test_packages_and_other_files_land(path: str) -> None:
    assert outcome(Change(path, Kind.CREATED, FILE)) == "land"


INSTALLED = (
    ".venv/lib/python3.12/site-packages/a.pth",
    "env/Lib/site-packages/a.pth",
    ".venv/bin/pytest",
    "env/bin/pytest",
    "a/.env3/bin/pytest",
    "node_modules/.bin/tsc",
    "web/node_modules/.bin/tsc",
)


NAMED = ("pip --version", "pip -q list", "npm -v", "yarn -v", "echo pip install", "uv --version")
"""A program that installs is named, and installs nothing."""
INSTALLS = (
    *("pip -v install x", "python3 -m pip install x", ".venv/bin/pip3 install -r r.txt", "tox"),
    *("uv sync", "uv run pytest --version", "poetry -C a add x", "npm --prefix web ci", "npx tsc"),
    *("yarn", "yarn --cwd a", "env -i pnpm i", "corepack pnpm install", "sh -c 'npm ci'"),
)


def _judged(*changes: Change, command: str = "python3 a.py") -> str:
    decision = DECISION.model_copy(update={"installers": bash(command).installers})
    return judge(decision, changes, PATHS, workspace="/w").outcome.value


@pytest.mark.parametrize("kind", [Kind.CREATED, Kind.MODIFIED])
@pytest.mark.parametrize("path", INSTALLED)
def test_programs_of_packages_come_by_an_install_alone(path: str, kind: Kind) -> None:
    changes = Change(path, kind, FILE), Change("src/a.py", Kind.CREATED, FILE)
    assert _judged(*changes) == "hold"
    assert _judged(Change(path, kind, LINK, target="../a/b")) == "hold"
    for command in NAMED:
        assert _judged(*changes, command=f"cd a && {command}; pytest") == "hold", command
    for command in INSTALLS:
        assert _judged(*changes, command=f"cd a && {command}; pytest") == "land", command


@pytest.mark.parametrize("path", ["obj/a.csproj.nuget.g.props", "src/obj/a.x.targets"])
def test_what_builds_of_dotnet_obey_comes_by_them_alone(path: str) -> None:
    assert _judged(Change(path, Kind.CREATED, FILE)) == "hold"
    assert _judged(Change(path, Kind.MODIFIED, FILE), command="dotnet build") == "land"
    assert _judged(Change(path, Kind.MODIFIED, FILE), command="dotnet --version") == "hold"
    assert _judged(Change("obj/a.json", Kind.MODIFIED, FILE)) == "land"


@pytest.mark.parametrize("path", INSTALLED)
def test_they_land_in_what_the_call_makes_anew(path: str) -> None:
    root = re.split("/(?:[Ll]ib|bin|[.]bin)/", path)[0]
    made = (
        Change(root, Kind.CREATED, FileType.DIRECTORY),
        Change(f"{root}/pyvenv.cfg", Kind.CREATED, FILE),
    )
    assert _judged(*made, Change(path, Kind.CREATED, FILE)) == "land"


def test_what_starts_with_every_python_is_held() -> None:
    path = ".venv/lib/python3.12/site-packages/sitecustomize.py"
    mark = Change(".venv/pyvenv.cfg", Kind.CREATED, FILE)
    found = judge(DECISION, [mark, Change(path, Kind.CREATED, FILE)], PATHS, workspace="/w")
    assert [one.rule for one in found.reasons] == ["virtual-environment"]


def test_in_a_cell(lab: Lab) -> None:
    made = lab.sh("python3 -m venv --without-pip .venv")
    assert made.landed, made.message
    held = lab.sh("echo 'touch PWNED' >>.venv/bin/activate")
    assert (held.judgement, held.landed) == ("hold", False)
    assert "virtual-environment" in held.message
    lab.run(lab.supervisor.discard(held.id))
    tool = lab.sh("echo x >.venv/bin/tool")
    assert (tool.judgement, tool.landed) == ("hold", False)
    added = lab.sh("python3 -m venv --without-pip .venv; echo x >.venv/note")
    assert added.landed, added.message
