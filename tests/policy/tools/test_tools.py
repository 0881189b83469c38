# SPDX-License-Identifier: Apache-2.0
"""Tools other than Bash: where they read and write decides."""

from __future__ import annotations

from typing import Any

import pytest

from policy.model import Access, Verdict
from tests.policy.asking import bash, tool

CASES: dict[str, tuple[str, dict[str, Any], Verdict]] = {
    "reading inside the workspace": ("Read", {"file_path": "/workspace/a.py"}, Verdict.ALLOW),
    "reading a relative path": ("Read", {"file_path": "src/a.py"}, Verdict.ALLOW),
    "reading outside asks": ("Read", {"file_path": "/etc/hostname"}, Verdict.ASK),
    "reading a key is denied": ("Read", {"file_path": "~/.ssh/id_rsa"}, Verdict.DENY),
    "reading secrets is denied": ("Read", {"file_path": "/workspace/.env"}, Verdict.DENY),
    "reading a template is fine": ("Read", {"file_path": ".env.example"}, Verdict.ALLOW),
    "dots do not hide a key": (
        "Read",
        {"file_path": "/workspace/../home/me/.ssh/id_rsa"},
        Verdict.DENY,
    ),
    "proc does not hide the outside": (
        "Read",
        {"file_path": "/proc/self/cwd/../etc/passwd"},
        Verdict.ASK,
    ),
    "proc root does not hide a key": (
        "Read",
        {"file_path": "/proc/7/root/root/.ssh/id_rsa"},
        Verdict.DENY,
    ),
    "proc cwd is the workspace": ("Read", {"file_path": "/proc/self/cwd/a.py"}, Verdict.ALLOW),
    "listing inside": ("LS", {"path": "/workspace/src"}, Verdict.ALLOW),
    "listing another home": ("LS", {"path": "/home/alice"}, Verdict.DENY),
    "a glob inside": ("Glob", {"pattern": "**/*.py"}, Verdict.ALLOW),
    "a glob outside asks": ("Glob", {"pattern": "/etc/*"}, Verdict.ASK),
    "a search inside": ("Grep", {"pattern": "rm -rf", "path": "src"}, Verdict.ALLOW),
    "a search of keys": ("Grep", {"pattern": "x", "path": "~/.ssh"}, Verdict.DENY),
    "writing inside": ("Write", {"file_path": "a.py", "content": "x"}, Verdict.REPORT),
    "editing inside": (
        "Edit",
        {"file_path": "a.py", "old_string": "x", "new_string": "y"},
        Verdict.REPORT,
    ),
    "several edits inside": ("MultiEdit", {"file_path": "a.py"}, Verdict.REPORT),
    "writing outside asks": ("Write", {"file_path": "/opt/x", "content": ""}, Verdict.ASK),
    "writing system files": ("Write", {"file_path": "/etc/hosts", "content": ""}, Verdict.DENY),
    "writing a hook asks": (
        "Write",
        {"file_path": ".git/hooks/pre-commit", "content": ""},
        Verdict.ASK,
    ),
    "writing a workflow asks": (
        "Write",
        {"file_path": ".github/workflows/ci.yml", "content": ""},
        Verdict.ASK,
    ),
    "another case of the waiver": (
        "Write",
        {"file_path": ".DevKit-Waiver.YML", "content": ""},
        Verdict.DENY,
    ),
    "a waiver with a trailing dot": (
        "Write",
        {"file_path": ".devkit-waiver.yml.", "content": ""},
        Verdict.DENY,
    ),
    "a waiver with a trailing blank": (
        "Write",
        {"file_path": ".devkit-waiver.yml ", "content": ""},
        Verdict.DENY,
    ),
    "a waiver as a data stream": (
        "Write",
        {"file_path": ".devkit-waiver.yml::$DATA", "content": ""},
        Verdict.DENY,
    ),
    "a waiver with an ignorable character": (
        "Write",
        {"file_path": ".devkit-\u200cwaiver.yml", "content": ""},
        Verdict.DENY,
    ),
    "a waiver with backslashes": (
        "Write",
        {"file_path": "a\\.devkit-waiver.yml", "content": ""},
        Verdict.DENY,
    ),
    "lockgate's own state": (
        "Write",
        {"file_path": ".lockgate/undo/x", "content": ""},
        Verdict.DENY,
    ),
    "a path with a NUL": ("Write", {"file_path": "a\x00b", "content": ""}, Verdict.DENY),
    "no path at all": ("Write", {"content": ""}, Verdict.ASK),
    "an unknown tool asks": ("Teleport", {}, Verdict.ASK),
    "no command at all": ("Bash", {}, Verdict.ASK),
}


@pytest.mark.parametrize("name, params, verdict", CASES.values(), ids=CASES)
def test_the_place_decides(name: str, params: dict[str, Any], verdict: Verdict) -> None:
    assert tool(name, **params).verdict is verdict


RIGHTS = {
    "a reader gets read rights": ("cat a | sort | head", Access.READ),
    "read-only git gets read rights": ("git status", Access.READ),
    "a writer gets write rights": ("echo x > a", Access.WRITE),
    "tests get write rights": ("pytest", Access.WRITE),
    "python gets write rights": ("python3 -c 'print(1)'", Access.WRITE),
    "a build gets write rights": ("make", Access.WRITE),
    "what is asked about may write": ("./x.sh", Access.WRITE),
    "what is denied gets none": ("rm -rf src", Access.NONE),
}


@pytest.mark.parametrize("command, access", RIGHTS.values(), ids=RIGHTS)
def test_rights_follow_what_a_call_does(command: str, access: Access) -> None:
    assert bash(command).rights.workspace is access


DELETIONS = {
    "the operands of rm": ("rm a.txt src/b.py", ("a.txt", "src/b.py")),
    "git rm": ("git rm x.py", ("x.py",)),
    "a glob stays a glob": ("rm *.log", ("*.log",)),
    "what cannot be known is anything": ("rm $X", ("**",)),
    "names from a listing are anything": ("ls | xargs rm", ("**",)),
    "find by name": ("find src -name '*.pyc' -delete", ("src/*.pyc",)),
    "a checkout is anything": ("git checkout main", ("**",)),
    "python's own deletion": ("python3 -c 'import os; os.remove(\"a\")'", ("a",)),
    "from another directory": ("cd src && rm a", ("src/a",)),
    "nothing": ("ls", ()),
}


@pytest.mark.parametrize("command, named", DELETIONS.values(), ids=DELETIONS)
def test_named_deletions_are_what_the_plan_itself_names(
    command: str, named: tuple[str, ...]
) -> None:
    assert bash(command).named_deletions == named


@pytest.mark.parametrize(
    "command, moved, gone",
    [
        ("mv a b", ("a", "a/**"), ()),
        ("git mv a b", ("a", "a/**"), ()),
        ("mv $X b", ("**",), ()),
        ("rm a", (), ("a",)),
    ],
)
def test_what_is_moved_is_not_named_as_deleted(
    command: str, moved: tuple[str, ...], gone: tuple[str, ...]
) -> None:
    found = bash(command)
    assert (found.named_moves, found.named_deletions) == (moved, gone)
