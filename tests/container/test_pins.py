# SPDX-License-Identifier: Apache-2.0
"""What is protected and exists is read-only while a call runs, and the call goes on."""

from __future__ import annotations

import pytest

from sandbox.cell.overlay.masks import MOST_PINS
from sandbox.results import Ending
from tests.container.lab import OWNERS, Lab, give

POLICY = """\
rules:
  - id: plans
    name: Plans
    because: plans are agreed on
    triggers: {file_patterns: ["/governance/**", "/plans/**/*.lock"]}
    enforcement:
      checks:
        - id: no-writes
          writes: ["/governance/**", "/plans/**/*.lock"]
          decision: deny
          allowed_path: ask
    match: [touch governance/rules.yml]
"""
FILES = ("governance/rules.yml", "governance/deep/er.yml", "plans/a.lock", "plans/deep/b.lock",
         "plain/rules.yml", "plain/deep/er.yml", "plans/a.txt")  # fmt: skip
READ_ONLY, BUSY = "Read-only file system", "Device or resource busy"
REFUSED = {
    "echo x > governance/rules.yml": READ_ONLY,
    "echo x >> governance/deep/er.yml": READ_ONLY,
    "echo x > governance/new.yml": READ_ONLY,
    "mkdir governance/new": READ_ONLY,
    "rm governance/rules.yml": READ_ONLY,
    "chmod 777 governance": READ_ONLY,
    "touch governance/rules.yml": READ_ONLY,
    "mv governance other": BUSY,
    "rm -rf governance": READ_ONLY,
    "echo x > plans/a.lock": READ_ONLY,
    "rm plans/a.lock": BUSY,
    "mv plans/deep/b.lock plans/deep/c": BUSY,
}


@pytest.mark.parametrize("owner", OWNERS)
def test_protected_files_and_folders_are_read_only_and_the_call_goes_on(lab: Lab) -> None:
    for name in FILES:
        (lab.ws / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.ws / name).write_text("old\n")
    (lab.ws / ".lockgate").mkdir(exist_ok=True)
    (lab.ws / ".lockgate" / "policy.yaml").write_text(POLICY)
    give(lab.ws, lab.ws.stat().st_uid)
    for number, (command, said) in enumerate(REFUSED.items()):
        done = lab.sh(f"{command}; echo $?; echo y > beside{number}")
        assert done.stdout != "0\n", command
        assert said in done.stderr, command
        assert (done.ending, done.judgement, done.landed) == (Ending.RAN, "land", True), command
        assert [one.path for one in done.changes] == [f"beside{number}"], command
        assert all(lab.text(name) == "old\n" for name in FILES), command
    away = lab.sh("mv plans/deep plans/shallow; echo y > beside")  # the kernel lets this be
    assert (away.judgement, away.landed) == ("discard", False)
    assert all(lab.text(name) == "old\n" for name in FILES)
    control = lab.sh(
        "echo x > plain/rules.yml; mkdir plain/new; chmod 750 plain; echo x > plans/a.txt;"
        "mv plain/deep plain/shallow",
        derived_from="deletes",
    )
    assert (control.stderr, control.landed) == ("", True)


def test_more_protected_files_than_are_pinned_are_protected_all_the_same(lab: Lab) -> None:
    names = [f"p{number}/devkit.config.json" for number in range(MOST_PINS + 5)]
    for name in names:
        (lab.ws / name).parent.mkdir()
        (lab.ws / name).write_text("old\n")
    give(lab.ws, lab.ws.stat().st_uid)
    ways = set()
    for name in names[:3] + names[-10:]:
        done = lab.sh(f"echo x > {name}; echo y > beside")
        ways.add((READ_ONLY in done.stderr, done.judgement))
        assert lab.text(name) == "old\n"
    assert ways == {(True, "land"), (False, "discard")}
