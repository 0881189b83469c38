# SPDX-License-Identifier: Apache-2.0
"""The grammar made two words of `$A/$B/c`, so that a path put together so named something else."""

from __future__ import annotations

import pytest

from policy.model import Verdict
from tests.policy.asking import bash

ALLOW, REPORT, ASK, DENY = Verdict.ALLOW, Verdict.REPORT, Verdict.ASK, Verdict.DENY
PARTS = "D=.github; W=workflows; F=ci.yml; "
CASES = {
    "a redirection": (PARTS + "echo x > $D/$W/x.yml", ASK),
    "an argument": (PARTS + "touch $D/$W/x.yml", ASK),
    "three of them": (PARTS + "cp a $D/$W/$F", ASK),
    "in pieces": ("A=.git; B=hub; echo x > $A$B/workflows/a.yml", ASK),
    "behind another character": ("A=.env; B=local; cat $A.$B", DENY),
    "a governance file": ("A=devkit; B=config; echo x > ./$A.$B.json", DENY),
    "what is read": ("A=.ssh; B=id_rsa; cat ~/$A/$B", DENY),
    "in a condition": (PARTS + "[[ -f $D/$W/x ]] && rm $D/$W/x", ASK),
    "with a document": (PARTS + "cat > $D/$W/a.yml <<EOF\n$D/$W/x\nEOF", ASK),
    "a harmless place": ("A=src; B=deep; touch $A/$B/x", REPORT),
    "text that stays as it is": ("awk '{print $1/$NF}' a.txt", ALLOW),
    "quoted text": ("A=a; B=b; echo '$A/$B/c' \"$A/$B/c\"", ALLOW),
}


@pytest.mark.parametrize("command, verdict", CASES.values(), ids=CASES)
def test_a_path_of_several_variables(command: str, verdict: Verdict) -> None:
    found = bash(command)
    assert found.verdict is verdict, found.message


def test_a_deletion_is_named_as_it_runs() -> None:
    assert bash("A=a; B=b; rm $A/$B/c d").named_deletions == ("a/b/c", "d")
