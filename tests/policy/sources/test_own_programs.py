# SPDX-License-Identifier: Apache-2.0
"""Programs that a person names in a policy file: they run and are reported, and nothing more."""

from __future__ import annotations

import pytest

from policy.gate1.decide import Policy, decide
from policy.gate1.relief import milder
from policy.model import Decision, Verdict
from policy.protected.paths import PathPolicy
from policy.shell.state import NOTHING_SEEN, Disk, Seen
from policy.sources.document import read_document
from policy.sources.examples import check, without_effect
from policy.sources.precedence import Layer, Source, combine
from policy.values.strict_yaml import PolicyError
from tests.policy.asking import CONTEXT, bash, plan

REPORT, ASK, DENY = Verdict.REPORT, Verdict.ASK, Verdict.DENY
FILE = """
version: 1
programs:
  - id: ours
    programs: [nginx, tools/release.sh, frob]
    tier: caution
    because: it is ours
    match: [nginx -s reload, ./tools/release.sh]
    miss: [ls]
  - id: fetcher
    programs: [forge]
    tier: caution
    network: true
    reads: [forge.conf]
    writes: [out]
    because: it is ours
    match: [forge get]
  - id: never
    programs: [shiny]
    tier: forbidden
    because: it loses data
    match: [shiny]
"""


def asked(
    command: str, text: str = FILE, *, trusted: bool = True, disk: Disk = NOTHING_SEEN
) -> Decision:
    document = read_document(text, "p.yaml")
    check(document, Policy.default())
    source = Source(Layer.WORKSPACE, document, trusted)
    policy = combine(Policy.default(), PathPolicy.default(), [source]).policy
    return decide(plan("Bash", command=command), CONTEXT, policy, disk)


CALLS = {
    "a program that a person names": ("nginx -t", REPORT),
    "whatever it is started with": ("timeout 5 nginx -s stop", REPORT),
    "by its path": ("./tools/release.sh --dry-run", REPORT),
    "from another folder": ("cd tools && ./release.sh", REPORT),
    "another of that name": ("./other/release.sh", ASK),
    "one that the call changes first": ("sed -i s/a/b/ tools/release.sh; ./tools/release.sh", ASK),
    "with what is asked about": ("nginx -t; git push", ASK),
    "with what is denied": ("nginx -t && rm -rf src", DENY),
    "its arguments are judged": ("frob --output=devkit.config.json", DENY),
    "what it prints is no code": ("forge get | sh", DENY),
    "what it writes is judged": ("forge get", REPORT),
    "one that is forbidden": ("shiny --all", DENY),
}


@pytest.mark.parametrize("command, verdict", CALLS.values(), ids=CALLS)
def test_a_person_names_programs(command: str, verdict: Verdict) -> None:
    found = asked(command)
    assert found.verdict is verdict, found.message


def test_what_a_script_is_seen_to_do_still_counts() -> None:
    script = {"/workspace/tools/release.sh": Seen("git push\n", foreign=False)}
    assert asked("./tools/release.sh", disk=script).verdict is ASK
    script = {"/workspace/tools/release.sh": Seen("rm -rf src\n", foreign=False)}
    assert asked("./tools/release.sh", disk=script).verdict is DENY


def test_what_is_written_by_it_is_judged() -> None:
    text = FILE.replace("writes: [out]", "writes: [devkit.config.json]")
    assert asked("forge get", text).verdict is DENY


def test_a_workspaces_word_that_nobody_trusts_only_tightens() -> None:
    assert bash("nginx -t").verdict is ASK
    assert asked("nginx -t", trusted=False).verdict is ASK
    assert asked("shiny", trusted=False).verdict is DENY
    assert bash("shiny").verdict is REPORT


def test_the_strictest_of_several_words_counts() -> None:
    more = (
        FILE
        + """
  - {id: asked, programs: [nginx], tier: danger, because: look, match: [nginx]}
"""
    )
    assert asked("nginx -t", more).verdict is ASK


def test_a_known_program_is_not_made_milder() -> None:
    text = (
        FILE
        + """
  - {id: known, programs: [docker], tier: caution, because: ours, match: [frob x]}
"""
    )
    with pytest.raises(PolicyError, match="does not match its example"):
        asked("docker run x", text)


@pytest.mark.parametrize("name", ["../x", "a b", "/usr/bin/x", "x*", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(PolicyError):
        read_document(FILE.replace("frob]", f'"{name}"]'), "p.yaml")


def test_safe_is_no_tier_for_it() -> None:
    with pytest.raises(PolicyError):
        read_document(FILE.replace("tier: forbidden", "tier: safe"), "p.yaml")


def test_what_has_no_effect_is_told() -> None:
    text = """
version: 1
commands:
  - {id: idle, programs: [frob], tier: caution, because: x, match: [frob a]}
  - {id: counts, programs: [frob], tier: danger, because: x, match: [frob a]}
  - {id: tighter, programs: [make], tier: danger, because: x, match: [make all]}
programs:
  - {id: known, programs: [docker, frob], tier: caution, because: x, match: [frob a]}
"""
    told = list(without_effect(read_document(text, "p.yaml"), Policy.default()))
    assert [line.split("`")[1] for line in told] == ["known", "idle"]


def test_following_the_hint_gives_the_verdict() -> None:
    """`explain` says what a milder verdict needs; this does it."""
    decision = bash("nginx -t")
    rest, needs = milder(decision)
    assert rest is not None and [one.rule for one in needs] == ["unknown-program"]
    assert "`programs`" in needs[0].needs
    assert asked("nginx -t").verdict is REPORT
    decision = bash("./tools/release.sh")
    rest, needs = milder(decision)
    assert [one.rule for one in needs] == ["script"] and "`programs`" in needs[0].needs
    assert asked("./tools/release.sh").verdict is REPORT
