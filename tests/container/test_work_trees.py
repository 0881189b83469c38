# SPDX-License-Identifier: Apache-2.0
"""Git works in a linked work tree, in one inside the workspace, and in a submodule."""

from __future__ import annotations

from pathlib import Path

from sandbox.projects.git_elsewhere import also_needed
from tests.container.conftest import MakeLab
from tests.container.lab import ME, git, repository

COMMIT = "git status --short && echo x >> README.md && git add -A && git commit -qm more"


def test_a_commit_in_a_linked_work_tree_lands_in_its_repository(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    shop = repository(tmp_path / "shop", ME)
    git(shop, "worktree", "add", "-q", "../feat")
    lab = make_lab(tmp_path / "feat", shop)
    blind = lab.sh("git log -1")
    assert (blind.exit_status, "lockgate init" in blind.message) == (128, True)

    also = also_needed(str(lab.ws), lambda folder: folder)
    assert also == (str(shop),)
    before = git(shop, "rev-parse", "main")
    done = lab.sh(COMMIT, also=also)
    assert (done.exit_status, done.landed) == (0, True), done.message + done.stderr
    assert git(shop, "log", "-1", "--format=%s", "feat") == "more\n"
    assert git(shop, "rev-parse", "main") == before
    assert lab.git("status", "--short") == ""
    assert lab.read("git log -1 --format=%s", also=also).stdout == "more\n"

    hook = lab.sh(
        'echo "#!/bin/sh" > "$(git rev-parse --git-common-dir)/hooks/pre-push"', also=also
    )
    assert (hook.judgement, hook.landed) == ("hold", False)
    settings = lab.sh("git config core.fsmonitor ./x", also=also)
    assert (settings.judgement, settings.landed) == ("hold", False)

    lab.run(lab.supervisor.undo(done.id))
    assert git(shop, "rev-parse", "feat") == before
    assert lab.git("status", "--short") == ""


def test_a_work_tree_inside_and_a_submodule_work_as_they_are(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    shop = repository(tmp_path / "shop", ME)
    lib = repository(tmp_path / "lib", ME)
    git(shop, "worktree", "add", "-q", ".claude/worktrees/x")
    git(shop, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(lib), "lib")
    git(shop, "commit", "-qm", "module")
    lab = make_lab(shop)
    for folder in (".claude/worktrees/x", "lib"):
        done = lab.sh(f"cd {folder} && {COMMIT}")
        assert (done.exit_status, done.landed) == (0, True), done.message + done.stderr
        assert git(shop / folder, "log", "-1", "--format=%s") == "more\n"
        assert git(shop / folder, "status", "--short") == ""
