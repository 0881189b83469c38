# SPDX-License-Identifier: Apache-2.0
"""A call changed `.venv/bin/activate`, which a person sources, and it landed unasked."""

from __future__ import annotations

import pytest

from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind
from tests.container.lab import Lab
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
        *(".venv/bin/pytest", ".venv/lib/python3.12/site-packages/a.pth", "bin/activation.sh"),
        *(".venv/lib/python3.12/site-packages/a/__init__.py", "src/python.py", "bin/python-lint"),
        *("scripts/activate_user.py", "scripts/activate.ts", "bin/activate.sh"),
    ],
)
def test_packages_and_other_files_land(path: str) -> None:
    assert outcome(Change(path, Kind.CREATED, FILE)) == "land"


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
    added = lab.sh("echo x >.venv/bin/tool; python3 -m venv --without-pip .venv")
    assert added.landed, added.message
