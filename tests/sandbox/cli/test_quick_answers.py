# SPDX-License-Identifier: Apache-2.0
"""What a person types while something goes wrong loads no more than it needs: most of such a
process is Python's imports, and beside busy agents each tenth of a second becomes three."""

from __future__ import annotations

import sys

import pytest

from tests.fakes import Served
from tests.sandbox.shells import Shell

GATES = ("policy.gate1", "policy.gate2", "policy.shell", "policy.programs", "bashlex")
QUICK = {
    "ps": (("ps",), "sandbox.agents.view", (*GATES, "pydantic", "docker", "rich")),
    "ps of a program": (("ps", "--json"), "sandbox.agents.view", (*GATES, "pydantic", "docker")),
    "undo": (("undo", "c1"), "pydantic", (*GATES, "docker", "rich")),
    "stop": (("stop",), "sandbox.stopping.stop", (*GATES, "rich")),
}
"""What is typed, a module that it needs, and what it does not."""


@pytest.mark.parametrize(("words", "needed", "others"), QUICK.values(), ids=QUICK)
def test_what_is_typed_in_a_hurry_loads_nothing_that_it_does_not_need(
    shell: Shell, running: Served, words: tuple[str, ...], needed: str, others: tuple[str, ...]
) -> None:
    shell.program = (sys.executable, "-X", "importtime", "-m", "sandbox.cli.main")
    status, _, err = shell(*words)
    assert status == 0, err
    loaded = {line.rpartition("|")[2].strip() for line in err.split("\n") if "|" in line}
    assert needed in loaded
    assert not {
        name for name in loaded for other in others if name == other or name.startswith(f"{other}.")
    }
