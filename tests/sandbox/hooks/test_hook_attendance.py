# SPDX-License-Identifier: Apache-2.0
"""Whether somebody sits at an agent: by its terminal, its words, and what it says of itself."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import pytest

from sandbox.hooks.attendance import ATTENDED, is_attended
from sandbox.processes.table import Host

WAITS = "import sys; print(1, flush=True); sys.stdin.read()"


class Shown(Host):
    """A host with one process, as it shows itself."""

    def __init__(self, words: tuple[str, ...], terminal: bool) -> None:
        self._words = words
        self._terminal = terminal

    def words(self, pid: int) -> list[str]:
        return list(self._words)

    def has_terminal(self, pid: int) -> bool:
        return self._terminal


ALONE = {"claude": "-p", "codex": "exec", "gemini": "--prompt=go", "cursor": "--print"}
SEATS: dict[str, tuple[str, tuple[str, ...], bool, Mapping[str, str], bool]] = {
    "claude says that nobody sits there": ("claude", ("claude",), True, {ATTENDED: "0"}, False),
    "claude in an editor says so": ("claude", ("node",), False, {ATTENDED: "1"}, True),
    "codex within an editor": ("codex", ("codex", "app-server"), False, {}, True),
    "gemini within an editor": ("gemini", ("node", "gemini", "--acp"), False, {}, True),
    "an editor has no terminal": ("cursor", ("cursor",), False, {}, True),
    "any other agent without a terminal": ("generic", ("mine",), False, {}, False),
    "any other agent with one": ("generic", ("mine", "-p"), True, {}, True),
    **{f"{agent} at a terminal": (agent, (agent,), True, {}, True) for agent in ALONE},
    **{
        f"{agent} for one task": (agent, (agent, word, "x"), True, {ATTENDED: "1"}, False)
        for agent, word in ALONE.items()
    },
    **{
        f"{agent} without a terminal": (agent, (agent,), False, {}, False)
        for agent in ("claude", "codex", "gemini")
    },
}  # fmt: skip


@pytest.mark.parametrize("agent, words, terminal, said, sits", SEATS.values(), ids=SEATS)
def test_somebody_sits_there(
    agent: str, words: tuple[str, ...], terminal: bool, said: Mapping[str, str], sits: bool
) -> None:
    assert is_attended(agent, 7, said, Shown(words, terminal)) is sits


def test_a_process_that_is_not_known_has_nobody() -> None:
    assert not is_attended("cursor", None, {ATTENDED: "1"}, Host())


def test_a_process_shows_its_words_and_its_terminal() -> None:
    words = [sys.executable, "-c", WAITS, "a  b"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as without:
        assert without.stdout is not None
        without.stdout.readline()
        assert Host().words(without.pid) == words
        assert not Host().has_terminal(without.pid)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, words)
    try:
        os.read(terminal, 100)
        assert Host().has_terminal(pid)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
