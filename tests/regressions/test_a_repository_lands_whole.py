# SPDX-License-Identifier: Apache-2.0
"""A part of a held call was a reference without its objects: the repository was broken by it."""

from __future__ import annotations

import subprocess

import pytest

from sandbox.errors import BadInput
from tests.container.lab import Lab

COMMIT = (
    "echo 'use flake' > .envrc; git add .envrc; git commit -qm one; echo more >> README.md;"
    "git commit -qam two; git config core.hooksPath src"
)


def read_heads(lab: Lab) -> str:
    """Return what git says of all that its references hold; it fails where something is missing."""
    done = subprocess.run(
        ["git", "rev-list", "--objects", "--all"],
        cwd=lab.ws, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_what_git_keeps_lands_as_a_whole_or_not_at_all(lab: Lab) -> None:
    assert lab.sh("echo x > first").landed  # a workspace's first landing makes `.lockgate`
    supervisor, before = lab.supervisor, read_heads(lab)
    held = lab.sh(f"python3 -c '{_script(COMMIT)}'")
    assert held.judgement == "hold", held
    for names in (
        [".git/refs/heads/main"],
        [".git/refs/**"],
        [".git/objects", ".git/refs"],
        [".git/index"],
        ["README.md", ".git/HEAD", ".git/logs"],
    ):
        with pytest.raises(BadInput, match=r"belong to one repository, .* name `\.git`"):
            lab.run(supervisor.land(held.id, names))
    assert read_heads(lab) == before
    assert lab.run(supervisor.land(held.id, [".git/config"])).landed  # git writes it apart
    assert read_heads(lab) == before
    assert lab.run(supervisor.land(held.id, [".git"])).landed
    assert len(read_heads(lab)) > len(before)
    assert lab.run(supervisor.land(held.id, ["README.md"])).landed  # nothing of it
    assert lab.run(supervisor.land(held.id, [".envrc"])).landed
    assert lab.text(".envrc") == "use flake\n"


def _script(commands: str) -> str:
    text = commands.encode().hex()
    return f'import subprocess; subprocess.run(bytes.fromhex("{text}").decode(), shell=True)'
