# SPDX-License-Identifier: Apache-2.0
"""Characters beyond ASCII reach the grammar encoded: its scanner is not defined for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Verdict, Workspace
from policy.shell.syntax import guards as shell_guards

CONTEXT = Context((Workspace("/w"),), home="/home/me")
CASES = {
    "a character after a brace ends nothing": ("echo {\U0010ffff", "allow"),
    "a name in another script is a name": ("cat 文档/说明.md", "allow"),
    "a letter beyond ASCII ends a variable's name": ("x=rm; ${x} -rf é", "deny"),
    "what looks like an assignment is none": ("é=1 rm -rf src", "deny"),
    "a protected name may be spelled in Unicode": ("echo x > devkit.con\ufb01g.json", "deny"),
    "control characters cannot pose as others": ("eval $'echo \\x03\\x04 ; rm -rf src'", "ask"),
}


@pytest.mark.parametrize("command, verdict", CASES.values(), ids=CASES)
def test_reading(command: str, verdict: str) -> None:
    plan = ActionPlan.model_validate(
        {"tool": "Bash", "params": {"command": command}, "workspace": "/w"}
    )
    found = decide(plan, CONTEXT, Policy.default()).verdict
    assert found is Verdict(verdict) or (verdict == "ask" and found is Verdict.DENY)


@given(st.text())
def test_encoding_is_ascii_and_can_be_taken_back(text: str) -> None:
    encoded = shell_guards.encode(text)
    assert encoded.isascii()
    assert shell_guards.decode(encoded) == text.encode("utf-8", "replace").decode("utf-8")


def test_no_character_ends_the_process() -> None:
    program = (
        "from policy.shell.syntax import guards as g\n"
        "for first in ('{', 'echo {', '${', '$', 'a=', '<<', '[[ a =~ '):\n"
        "    for point in (0x80, 0x100, 0x2028, 0xE000, 0xFFFF, 0x10000, 0xF0000, 0x10FFFF):\n"
        "        for _ in range(20):\n"
        "            g.parse(g.encode(first + chr(point)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
