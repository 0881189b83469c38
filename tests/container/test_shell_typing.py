# SPDX-License-Identifier: Apache-2.0
"""What a person types into `lockgate shell` while a command runs goes to who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.container.served import served
from tests.sandbox.shells import Shell


@pytest.fixture
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        yield made


BEGUN = "printf 'be%s\\n' gun"  # so that what is typed does not look like what is printed


def test_lines_that_no_command_read_are_the_next_commands(shell: Shell) -> None:
    typing = [
        (b"$ ", f"{BEGUN}; sleep 1\n".encode()),
        (b"begun\r\n", b"echo $((40 + 2)) > made.txt\necho $((50 + 5))\nexit 7\n"),
    ]
    status, shown = shell.at_terminal("shell", typing=typing)
    assert status == 7
    assert "\n55\n" in shown
    assert (shell.workspace / "made.txt").read_text() == "42\n"


def test_lines_that_a_command_read_are_not(shell: Shell) -> None:
    typing = [
        (b"$ ", f"{BEGUN}; read x; echo got:$x; sleep 1\n".encode()),
        (b"begun\r\n", b"touch made.txt\necho $((50 + 5))\nexit\n"),
    ]
    status, shown = shell.at_terminal("shell", typing=typing)
    assert status == 0
    assert "got:touch made.txt" in shown
    assert "\n55\n" in shown
    assert not (shell.workspace / "made.txt").exists()


def test_input_that_was_ended_is_the_commands(shell: Shell) -> None:
    typing = [
        (b"$ ", f"{BEGUN}; sleep 1; wc -l\n".encode()),
        (b"begun\r\n", b"touch made.txt\n\x04"),
        (b"\n1\r\n", b"exit\n"),
    ]
    status, _ = shell.at_terminal("shell", typing=typing)
    assert status == 0
    assert not (shell.workspace / "made.txt").exists()


def test_lines_behind_a_call_that_is_refused_stay(shell: Shell) -> None:
    typing = [(b"$ ", b"rm -rf /\n"), (b"denied", b"echo $((50 + 5))\nexit 3\n")]
    status, shown = shell.at_terminal("shell", typing=typing)
    assert status == 3
    assert "\n55\n" in shown
