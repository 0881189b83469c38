# SPDX-License-Identifier: Apache-2.0
"""In a cell: a call's own ignore rules excuse no deletion, and none keeps anybody waiting."""

from __future__ import annotations

import shlex

from tests.container.lab import Lab

REMOVE = "python3 -c 'import os, sys; [os.unlink(one) for one in sys.argv[1:]]' "


def test_what_a_call_may_remove(lab: Lab) -> None:
    (lab.ws / ".gitignore").write_text("*.log\n")
    (lab.ws / "sub").mkdir()
    for name in ("a.log", "b.log", "mine.md", "sub/plan.md", "kept.txt"):
        (lab.ws / name).write_text("x\n")
    lab.git("add", ".gitignore", "kept.txt")
    lab.git("commit", "-q", "-m", "x")

    assert lab.sh(REMOVE + "a.log").landed  # a person ignores it
    for own in ("> .gitignore", "> sub/.gitignore", "| tee -a sub/.gitignore"):
        assert lab.sh(f"echo '*' {own}").landed
    lab.sh("mv sub/.gitignore sub/x && ln sub/x sub/.gitignore && rm sub/x")
    assert lab.sh("git rm -q --cached kept.txt").landed

    for name in ("mine.md", "sub/plan.md", "kept.txt"):
        result = lab.sh(REMOVE + name)
        assert (result.judgement, result.landed) == ("hold", False), name
        assert (lab.ws / name).exists()
    assert lab.sh(REMOVE + "b.log").landed

    held = lab.sh("printf '*.md\\n*.log\\n' > .gitignore && " + REMOVE + "kept.txt")
    lab.run(lab.supervisor.land(held.id))  # with the rules, which a person saw
    assert lab.sh(REMOVE + "mine.md").landed


def test_rules_that_once_took_for_ever(lab: Lab) -> None:
    name = "a" * 200
    (lab.ws / name).write_text("x\n")
    rules = shlex.quote("*a" * 30 + "*b")
    assert lab.sh(f"yes {rules} | head -1000 > .gitignore").landed
    assert lab.sh(REMOVE + name).judgement == "hold"
    assert lab.read(f"test -e {name}").exit_status == 0


def test_rules_that_come_by_another_way(lab: Lab) -> None:
    """With a folder that is moved, from a branch, with a work tree, a clone, or an undo."""
    for name in ("cache/.gitignore", "other/.gitignore"):
        (lab.ws / name).parent.mkdir()
        (lab.ws / name).write_text("*\n")
    moved = lab.sh("mv cache moved")
    assert moved.landed  # what ignores itself may go
    assert lab.sh(
        "git checkout -q -b tidy && echo '*' > src/.gitignore && git add -f src/.gitignore && "
        "git -c user.name=a -c user.email=a@b.invalid commit -q -m x && git checkout -q main"
    ).landed
    assert not (lab.ws / "src" / ".gitignore").exists()
    assert lab.sh("git checkout -q tidy").landed
    lab.sh("mkdir fresh && cp src/.gitignore fresh/ && git clone -q . cloned")
    written = lab.sh("echo '*' > src/deep/.gitignore")
    lab.run(lab.supervisor.undo(lab.run(lab.supervisor.undo(written.id)).id))
    assert (lab.ws / "src" / "deep" / ".gitignore").exists()

    plans = ["moved/plan.md", "src/plan.md", "fresh/plan.md", "src/deep/plan.md", "other/plan.md"]
    plans += ["cloned/src/plan.md"] if (lab.ws / "cloned" / "src").exists() else []
    for name in plans:
        (lab.ws / name).write_text("x\n")  # a person's
        result = lab.sh(REMOVE + name)
        if name.startswith("other/"):
            assert result.landed, name  # by a person's own rules
        else:
            assert (result.judgement, result.landed) == ("hold", False), name
