# SPDX-License-Identifier: Apache-2.0
"""A workspace's policy file holds in real cells, and from the next call on when it changes."""

from __future__ import annotations

from tests.container.lab import Lab

HIDES = "secrets: {hide: ['*.vault'], match: [a.vault]}\n"
FINAL = """\
rules:
  - id: final
    name: Final
    because: it is final
    triggers: {file_patterns: [final.txt]}
    enforcement:
      checks: [{id: no-writes, writes: [final.txt], decision: deny, allowed_path: ask}]
    match: [touch final.txt]
"""
LOOK = "cat a.vault 2>/dev/null || echo hidden"


def write(lab: Lab, text: str) -> None:
    """Write the workspace's policy file, as a person does."""
    folder = lab.ws / ".lockgate"
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(text)


def test_what_a_policy_file_hides_is_not_there_from_the_next_call_on(lab: Lab) -> None:
    (lab.ws / "a.vault").write_text("held\n")
    assert lab.read(LOOK).stdout == "held\n"
    write(lab, HIDES)
    assert lab.read(LOOK).stdout == "hidden\n"
    assert lab.sh(LOOK).stdout == "hidden\n"
    write(lab, "")
    assert lab.read(LOOK).stdout == "held\n"


def test_a_rule_on_a_file_holds_however_it_is_written(lab: Lab) -> None:
    (lab.ws / "final.txt").write_text("old\n")
    write(lab, FINAL)
    for command in (
        "echo new > final.txt",
        "echo new > x; mv x final.txt; true",
        "rm -f final.txt",
    ):
        lab.sh(command)
        assert lab.text("final.txt") == "old\n", command
    done = lab.sh("echo new > other.txt")
    assert done.landed
