# SPDX-License-Identifier: Apache-2.0
"""What tests start by a fork answers as a Python that they start does."""

from __future__ import annotations

import pytest

from tests.sandbox import forking
from tests.sandbox.shells import WAIT_SECONDS, Shell

WORDS = {
    "it works": ("workspace", "status", "--json"),
    "it is used wrongly": ("undo", "--last", "x"),
    "it fails": ("show", "no-such-call"),
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_fork_answers_as_python_does(shell: Shell, words: tuple[str, ...]) -> None:
    with shell.start(*words) as process:
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert shell(*words) == (process.returncode, out.decode(), err.decode())


def test_where_the_process_that_forks_was_killed_there_is_another(shell: Shell) -> None:
    assert shell("--version")[0] == 0
    before = forking.forks()
    before._process.kill()
    before._process.wait()
    assert shell("--version")[0] == 0
    assert forking.forks() is not before
