# SPDX-License-Identifier: Apache-2.0
"""An agent's own search tool, which runs on the host, read a hidden file in a folder's course."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from policy.model import Verdict
from tests.policy.tools.test_agent_tools import asked
from tests.sandbox.hooks.test_hook_door import Hooks


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    found = Hooks(tmp_path)
    subprocess.run(["git", "init", "-q", str(found.place)], check=True)
    (found.place / "src").mkdir()
    (found.place / "src" / "a.py").write_text("x = 1\n")
    return found


def _allowed(said: Any) -> bool:
    return bool(said["permissionDecision"] == "allow")


ALL = [
    {},
    {"type": "sh"},
    {"glob": "*"},
    {"glob": "!src"},
    {"glob": "*.py,.env"},
    {"glob": "*.py .env"},
]
NAMES = (".{env,x}", ".[e]nv", ".[!x]nv", "\\.env", "**/.e*", "{a,.{env,b}}")
BY_NAME = [{"glob": one} for one in NAMES]
OTHERS = [{"glob": "*.py"}, {"glob": "!.env"}, {"glob": "*.{ts,tsx}"}, {"glob": "src/[a-z]*.py"}]
TYPES = [{"type": one} for one in ("py", "js", "ts", "rust", "go", "md", "json")]


@pytest.mark.parametrize("more", [*ALL, *BY_NAME])
def test_a_search_that_shows_a_secret_is_denied(hooks: Hooks, more: dict[str, str]) -> None:
    (hooks.place / ".env").write_text("DB_PASSWORD=x\n")
    said = hooks.claude("Grep", pattern="PASS", output_mode="content", **more)
    assert not _allowed(said)
    assert "`secrets`" in said["permissionDecisionReason"]


@pytest.mark.parametrize("more", [*OTHERS, *TYPES])
def test_one_that_leaves_it_out_is_not(hooks: Hooks, more: dict[str, str]) -> None:
    (hooks.place / ".env").write_text("DB_PASSWORD=x\n")
    assert _allowed(hooks.claude("Grep", pattern="x", **more))
    assert _allowed(hooks.claude("Grep", pattern="x", path=str(hooks.place / "src")))


def test_a_type_that_takes_it_in_shows_it(hooks: Hooks) -> None:
    (hooks.place / "credentials.json").write_text("{}")
    assert not _allowed(hooks.claude("Grep", pattern="x", type="json"))
    assert _allowed(hooks.claude("Grep", pattern="x", type="py"))


@pytest.mark.parametrize("glob", ["{" * 2000, "[[[[[:alpha:" * 500, "a" * 300 + "*"])
def test_a_glob_that_names_no_file_is_denied_in_words(hooks: Hooks, glob: str) -> None:
    for more in ({"glob": glob}, {"glob": f"!{glob}"}):
        said = hooks.claude("Grep", pattern="x", **more)
        assert not _allowed(said)
        assert "too long" in said["permissionDecisionReason"]
    assert _allowed(hooks.claude("Grep", pattern="x", glob="{a,b{c,d}}/*.{ts,tsx}"))


def test_what_git_ignores_is_not_searched(hooks: Hooks) -> None:
    assert _allowed(hooks.claude("Grep", pattern="x"))
    (hooks.place / ".env").write_text("DB_PASSWORD=x\n")
    (hooks.place / ".gitignore").write_text(".env\n")
    assert _allowed(hooks.claude("Grep", pattern="x"))
    (hooks.place / ".aws").mkdir()
    (hooks.place / ".aws" / "config.json").write_text("{}")
    assert not _allowed(hooks.claude("Grep", pattern="x", glob="*.json"))


@pytest.mark.parametrize("glob", [".{env,x}", ".[e]nv", "{a,{.env,b}}", "\\.env", "!a,.env"])
def test_globs_that_name_a_secret_are_denied_anywhere(glob: str) -> None:
    assert asked("claude", "Grep", {"pattern": ".", "glob": glob}).verdict is Verdict.DENY
