# SPDX-License-Identifier: Apache-2.0
"""`lockgate check --batch`: one answer per line, whatever the line holds."""

from __future__ import annotations

import json
import time

import pytest

from sandbox.policy_tools.batch import check_batch


def answers(*lines: str) -> list[dict[str, object]]:
    return [json.loads(one) for one in check_batch(lines, home="/home/me")]


def test_a_command_is_answered_in_full() -> None:
    (said,) = answers('{"id": "a", "command": "rm -rf src"}')
    assert said == {
        "id": "a",
        "verdict": "deny",
        "tier": "forbidden",
        "rules": ["recursive-delete"],
        "message": "denied: `rm` with a recursive option deletes a whole tree "
        "(rule `recursive-delete`); "
        "instead: name the single files that should go, and a person is asked; a person moves a "
        "folder that git ignores away with `lockgate clean PATH`",
    }


def test_a_tool_is_answered() -> None:
    (said,) = answers('{"id": 7, "tool": "Read", "params": {"file_path": "/workspace/a"}}')
    assert (said["id"], said["verdict"], said["tier"]) == (7, "allow", "safe")


def test_another_workspace_counts() -> None:
    line = '{"id": 1, "command": "cat /srv/app/a", "workspace": "/srv/app"}'
    assert answers(line)[0]["verdict"] == "allow"


def test_a_call_that_stands_outside_the_workspace_is_asked_about() -> None:
    assert answers('{"id": 1, "command": "cat passwd", "cwd": "/etc"}')[0]["verdict"] == "ask"
    assert answers('{"id": 1, "command": "ls", "cwd": "/workspace/src"}')[0]["verdict"] == "allow"


BAD = {
    "parameters that are no object": '{"id": 1, "tool": "Read", "params": []}',
    "not JSON": "rm -rf /",
    "not an object": "[1]",
    "no command": '{"id": 1}',
    "a command that is no text": '{"id": 1, "command": 5}',
    "a wrong parameter": '{"id": 1, "tool": "Read", "params": {"limit": "x"}}',
    "deeply nested": "[" * 100_000,
    "a command that a tool hides": '{"id": 1, "command": "rm -rf a", "tool": "LS", "params": {}}',
    "a lone surrogate": '{"id": 1, "command": 5, "x": "\\ud800"}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_bad_line_is_denied_without_a_traceback(line: str) -> None:
    (said,) = answers(line)
    assert (said["verdict"], said["tier"], said["rules"]) == ("deny", "forbidden", ["bad-input"])


LARGE = {
    "one word of a megabyte": "a" * 1_000_000,
    "ten thousand parentheses": "(" * 10_000 + "ls" + ")" * 10_000,
    "ten thousand substitutions": "$(" * 10_000,
    "twenty thousand commands": "ls;" * 20_000,
    "sixty thousand quotes": "'" * 60_001,
    "sixty thousand backticks": "`" * 60_000,
    "thousands of loops": "while :; do " * 4_000,
    "growing variables": "x=a;" + "x=$x$x;" * 40 + "echo $x",
    "loops in loops": "for a in {1..99}; do for b in {1..99}; do for c in {1..99}; do ls"
    + "; done" * 3,
    "a costly pattern": "x=" + "a" * 3_000 + "; echo ${x%%*a*b*c} ${x//*a*b*c/d}",
    "a function that calls itself": "f() { f; f; }; f",
    "a text that evaluates itself": 'x=\'eval "$x"\'; eval "$x"',
    "many redirections": "ls" + " >a" * 10_000,
    "every byte": bytes(range(256)).decode("latin-1") * 100,
}


@pytest.mark.parametrize("command", LARGE.values(), ids=LARGE)
def test_a_large_text_is_answered_quickly_and_never_allowed_unread(command: str) -> None:
    started = time.process_time()
    (said,) = answers(json.dumps({"id": 1, "command": command}))
    assert time.process_time() - started < 10  # 0.1 s where nothing else runs
    assert said["verdict"] in ("allow", "report", "ask", "deny")
