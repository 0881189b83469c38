# SPDX-License-Identifier: Apache-2.0
"""However a command is written, it is judged as what it is.

Every command of the corpora is rewritten (`rewriting`). One that is denied stays denied where the
rewriting can be read, and is at least asked about where it cannot; one that needs a person never
runs unasked; work that is allowed is not refused because of how it is written. Each run takes a
sample by a fixed seed, so that a failure can be seen again; `make fuzz` takes all.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Verdict, Workspace
from tests.property import rewriting
from tests.property.rewriting import (
    OPAQUE,
    PRIVILEGED,
    SETTINGS,
    SHOWN,
    SPELLINGS,
    WRAPPINGS,
    fits,
    whole,
    words,
)

CORPUS = Path(__file__).parents[1] / "corpus"
CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/root")
SAMPLE = 12
"""Commands that each rewriting is tried with."""
FAMILIES = {
    **{f"wrapped: {name}": name for name in WRAPPINGS},
    **{f"set: {name}": name for name in SETTINGS},
    **{f"spelled: {name}": name for name in SPELLINGS},
}


@lru_cache
def commands(name: str) -> tuple[str, ...]:
    """Return the commands of one corpus."""
    lines = (CORPUS / f"{name}.jsonl").read_text("utf-8").split("\n")
    return tuple(json.loads(line)["command"] for line in lines if line)


def rewritten(family: str, corpus: str) -> list[str]:
    """Return a sample of one corpus, rewritten in one way."""
    kind, _, name = family.partition(": ")
    chosen = random.Random(f"{family} {corpus}")
    able: Callable[[str], str | None] = {
        "wrapped": lambda text: WRAPPINGS[name](text) if fits(name, text) else None,
        "set": lambda text: SETTINGS[name](text) if whole(text) else None,
        "spelled": lambda text: SPELLINGS[name](found) if (found := words(text)) else None,
    }[kind]
    done = []
    for text in chosen.sample(commands(corpus), len(commands(corpus))):
        if (made := able(text)) is not None:
            done.append(made)
        if len(done) == SAMPLE:
            break
    return done


def verdict(command: str) -> tuple[Verdict, str]:
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/workspace")
    decision = decide(plan, CONTEXT, Policy.default())
    return decision.verdict, decision.message


@pytest.mark.parametrize("family", FAMILIES)
def test_a_denied_command_stays_denied(family: str) -> None:
    right = {Verdict.DENY, Verdict.ASK} if FAMILIES[family] in OPAQUE else {Verdict.DENY}
    wrong = [
        (one, message)
        for one in rewritten(family, "denied")
        for said, message in (verdict(one),)
        if said not in right
    ]
    assert wrong == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_command_that_needs_a_person_never_runs_unasked(family: str) -> None:
    wrong = [
        (one, message)
        for one in rewritten(family, "asked")
        for said, message in (verdict(one),)
        if said not in (Verdict.ASK, Verdict.DENY)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "family", [one for one in FAMILIES if FAMILIES[one] not in PRIVILEGED | SHOWN]
)
def test_allowed_work_is_not_refused_for_how_it_is_written(family: str) -> None:
    wrong = [
        (one, message)
        for one in rewritten(family, "allowed")
        for said, message in (verdict(one),)
        if said is Verdict.DENY
    ]
    assert wrong == []


def test_every_rewriting_has_commands_that_it_fits() -> None:
    empty = [one for one in FAMILIES if len(rewritten(one, "denied")) < SAMPLE // 3]
    assert empty == []


def test_a_rewriting_that_hides_nothing_changes_nothing() -> None:
    """The control: what is tested here tells an allowed command from a denied one."""
    assert verdict("sh -c 'ls -la'")[0] is Verdict.ALLOW
    assert verdict("sh -c 'rm -rf src'")[0] is Verdict.DENY
    assert rewriting.WRAPPINGS["sh -c"]("ls -la") == "sh -c 'ls -la'"
