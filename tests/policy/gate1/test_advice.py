# SPDX-License-Identifier: Apache-2.0
"""Each answer that stops a call says in one short line what, why, which rule and what instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy.gate1.alternatives import ADVICE, advice
from policy.model import LayerAnswer, Verdict
from tests.policy.asking import bash, tool

CORPUS = Path(__file__).parents[2] / "corpus"
STOPPED = [
    json.loads(line)["command"]
    for name in ("asked", "denied")
    for line in (CORPUS / f"{name}.jsonl").read_text("utf-8").splitlines()
    if line.strip()
]


def test_every_stopped_command_of_the_corpus_says_what_to_do() -> None:
    silent = {}
    for command in STOPPED:
        decision = bash(command)
        said = decision.message
        assert len(said) <= 400
        assert "\n" not in said
        if decision.verdict in (Verdict.ASK, Verdict.DENY):
            assert f"(rule `{decision.layers[0].rule}`)" in said
            answered = "; instead: " in said or any(one in said for one in ADVICE.values())
            if not answered:
                silent[decision.layers[0].rule] = said
    assert silent == {}


@pytest.mark.parametrize("layer", ["trust", "mode", "level", "role", "rules", "tier", "workspace"])
def test_a_rule_of_somebodys_own_has_the_advice_of_its_layer(layer: str) -> None:
    answer = LayerAnswer(layer=layer, verdict=Verdict.ASK, reason="x", rule="my-own")
    assert advice(answer)


def test_advice_is_not_given_twice() -> None:
    said = bash("git push").message
    assert said.count("commit locally if that is enough") == 1
    said = tool("Write", file_path=".devkit-waiver.yml").message
    assert said.count("instead") == 1
