# SPDX-License-Identifier: Apache-2.0
"""Programs that start others are looked through: each carrier of the catalog, with each payload."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from policy.model import Verdict
from policy.programs.builtin_catalog import default
from policy.programs.catalog_schema import Carrier
from tests.policy.asking import bash

CARRIERS = list({id(one): one for rows in default().carriers.values() for one in rows}.values())
TEMPLATES = [template for carrier in CARRIERS for template in carrier.carries]
FORBIDDEN = (
    "rm -rf src",
    "rm -r -f /",
    "chmod 777 run.sh",
    "sh -c 'rm -rf src'",
    "env X=1 rm -rf src",
    "nice rm -rf src",
)
HARMLESS = ("ls -la src", "git status", "grep -rn 'rm -rf' docs", "python3 -m pytest -q")


def filled(template: str, payload: str) -> str:
    """Return a call that carries the payload."""
    return (
        template.replace("{text}", shlex.quote(payload))
        .replace("{line}", payload.replace("'", "'\\''"))
        .replace("{}", payload)
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_program_carries_is_denied_where_it_is_forbidden(template: str) -> None:
    for payload in FORBIDDEN:
        command = filled(template, payload)
        assert bash(command).verdict is Verdict.DENY, command


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_program_carries_is_not_denied_where_it_is_harmless(template: str) -> None:
    for payload in HARMLESS:
        command = filled(template, payload)
        decision = bash(command)
        assert decision.verdict is not Verdict.DENY, (command, decision.message)


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda one: one.carries[0])
def test_every_program_of_a_carrier_is_known(carrier: Carrier) -> None:
    assert [one for one in carrier.programs if default().lookup(one) is None] == []


_LINES = (Path(__file__).parents[1] / "carried.txt").read_text("utf-8").split("\n")
SPELLINGS = [line for line in _LINES if line]
"""Calls that carry a command; `!` before those that are denied whatever they carry."""


@pytest.mark.parametrize("line", SPELLINGS)
def test_every_way_to_carry_a_command_is_seen_through(line: str) -> None:
    template = line.removeprefix("!")
    for payload in ("rm -rf src", "chmod 777 run.sh"):
        command = filled(template, payload)
        assert bash(command).verdict is Verdict.DENY, command
    if not line.startswith("!"):
        decision = bash(filled(template, "ls -la"))
        assert decision.verdict is not Verdict.DENY, decision.message


CARRIED_UNASKED = (
    "poetry run pytest -q",
    "uv run pytest",
    "uv run ruff check .",
    "pipenv run pytest",
    "hatch run pytest",
    "bundle exec rspec",
    "npx cross-env NODE_ENV=test jest",
    "npx dotenv -e .env.example -- jest",
    "npx concurrently 'npm:build' 'npm:test'",
    "npx concurrently \"npm run lint\" \"npm test\"",
    "tox exec -e py311 -- pytest -q",
    "just --command pytest -q",
    "stack exec -- ls",
    "cargo run -- --help",
    "cargo run",
    "yarn run build",
    "yarn run format",
    "pnpm run lint",
    "bun run test",
    "turbo run build",
    "nx run app:build",
    "cmake -E env X=1 ls",
)  # fmt: skip


@pytest.mark.parametrize("command", CARRIED_UNASKED)
def test_ordinary_work_through_a_carrier_runs_unasked(command: str) -> None:
    decision = bash(command)
    assert decision.verdict in (Verdict.ALLOW, Verdict.REPORT), decision.message
