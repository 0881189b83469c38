# SPDX-License-Identifier: Apache-2.0
"""Closed forms of calls that do less than their programs can: each runs unasked, its kin do not."""

from __future__ import annotations

from importlib import resources

import pytest

from policy.model import Verdict
from policy.programs.catalog_schema import CatalogFile
from policy.values import strict_yaml
from tests.policy.asking import bash

TEXT = resources.files("policy").joinpath("catalog", "forms.yaml").read_text("utf-8")
FORMS = strict_yaml.build(CatalogFile, strict_yaml.parse(TEXT, "forms.yaml"), "forms.yaml").forms
MATCH = [one for form in FORMS for one in form.match]
MISS = [one for form in FORMS for one in form.miss]


@pytest.mark.parametrize("command", MATCH)
def test_a_form_runs_unasked(command: str) -> None:
    decision = bash(command)
    assert decision.allowed, decision.message


@pytest.mark.parametrize("command", MISS)
def test_its_kin_are_asked_about_or_denied(command: str) -> None:
    decision = bash(command)
    assert not decision.allowed, decision.message


@pytest.mark.parametrize("command", MATCH)
def test_a_word_that_cannot_be_known_fits_no_form(command: str) -> None:
    if command.startswith(("terraform", "helm", "pm2", "tmux", "vim")):
        return  # a word more is a word of theirs
    decision = bash(f'{command} "$(cat .env)"')
    assert decision.verdict in (Verdict.ASK, Verdict.DENY), decision.message


@pytest.mark.parametrize("program", sorted({one for form in FORMS for one in form.programs}))
def test_a_long_call_is_matched_without_going_back(program: str) -> None:
    for word in ("-a", "--all", "a", "-n a", "x=y"):
        assert bash(" ".join([program, *[word] * 60, "!"])).message  # exponential never ends
