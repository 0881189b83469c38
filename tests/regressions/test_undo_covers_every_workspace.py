# SPDX-License-Identifier: Apache-2.0
"""The record of a call over several workspaces named only the first, so that an undo, or a landing
of what was held, left the others as they were."""

from __future__ import annotations

from pathlib import Path

from tests.container.conftest import MakeLab
from tests.container.lab import ME, repository


def test_an_undo_restores_every_workspace_of_the_call(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(repository(tmp_path / "a", ME), repository(tmp_path / "b", ME))
    second = str(lab.workspaces[1])
    done = lab.sh(f"echo 1 > one; echo 2 > {second}/two", also=(second,))
    assert lab.run(lab.supervisor.undo(done.id)).undone == done.id
    assert [(lab.workspaces[n] / name).exists() for n, name in ((0, "one"), (1, "two"))] == [
        False,
        False,
    ]


def test_a_held_call_lands_in_every_workspace(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(repository(tmp_path / "a", ME), repository(tmp_path / "b", ME))
    second = str(lab.workspaces[1])
    done = lab.sh(f"rm tool.sh; echo 2 > {second}/two", also=(second,))
    assert done.judgement == "hold"
    assert lab.run(lab.supervisor.land(done.id)).landed
    assert not (lab.ws / "tool.sh").exists()
    assert (lab.workspaces[1] / "two").read_text() == "2\n"


def test_a_call_that_cannot_land_in_the_second_does_not_stay_in_the_first(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(repository(tmp_path / "a", ME), repository(tmp_path / "b", ME))
    second = str(lab.workspaces[1])
    script = f"echo 1 > one; echo 2 > {second}/two"
    assert lab.sh("true", also=(second,)).exit_status == 0  # the cell is there
    (lab.workspaces[1] / ".lockgate").write_text("in the way of its records")
    done = lab.sh(script, also=(second,))
    assert done.judgement == "hold"
    assert "`.lockgate` of the workspace is not a folder" in done.message
    assert not (lab.ws / "one").exists()
    (lab.workspaces[1] / ".lockgate").unlink()
    assert lab.run(lab.supervisor.land(done.id)).landed
    assert (lab.ws / "one").exists()
    assert (lab.workspaces[1] / "two").exists()
