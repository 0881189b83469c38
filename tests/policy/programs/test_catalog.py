# SPDX-License-Identifier: Apache-2.0
"""The catalog does what its entries say: every example is run, every reason is given."""

from __future__ import annotations

import time

import pytest

from policy.facts import Facts
from policy.model import Tier, worst
from policy.programs.builtin_catalog import default
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry, Pattern, Programs, Variable
from policy.programs.readers import READERS
from policy.shell.reading import read

CATALOG = default()
ENTRIES = list({id(one): one for one in CATALOG.entries.values()}.values())
VARIABLES = list(
    {id(one): one for one in [*CATALOG.exact.values(), *(v for _, v in CATALOG.globbed)]}.values()
)
PATTERNS = [one for rows in CATALOG.patterns.values() for _, one in rows]


def facts(command: str) -> Facts:
    return read(CATALOG, command, "/workspace", "/home/me")


def reached(found: Facts) -> Tier:
    return worst([Tier.SAFE, *(one.tier for one in found.findings)])


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.programs[0])
def test_an_entry_does_what_its_examples_say(entry: Programs) -> None:
    for command in entry.match:
        found = facts(command)
        assert set(entry.programs) & set(found.programs), command
        assert reached(found) is entry.tier or entry.handler, command
        assert reached(found) is not Tier.FORBIDDEN or entry.tier is Tier.FORBIDDEN or entry.handler
    for command in entry.miss:
        found = facts(command)
        named = bool(set(entry.programs) & set(found.programs))
        touched = [
            one for one in found.touches if one.how.value not in ("reads", "lists", "searches")
        ]
        assert not named or reached(found) is not entry.tier or touched, command


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.programs[0])
def test_an_entry_says_why_and_has_its_reader(entry: Programs) -> None:
    def reasons(one: Entry) -> None:
        assert one.because
        for inner in one.verbs.values():
            reasons(inner)

    reasons(entry)
    assert not entry.handler or entry.handler in READERS


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda one: one.names[0])
def test_a_variable_counts_where_it_is_set(variable: Variable) -> None:
    said = f": {variable.because}"
    for command in variable.match:
        assert any(one.reason.endswith(said) for one in facts(command).findings), command
    for command in variable.miss:
        assert not any(one.reason.endswith(said) for one in facts(command).findings), command


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.id)
def test_a_pattern_matches_its_examples_only(pattern: Pattern) -> None:
    (wanted,) = {
        w.pattern: w for w, one in CATALOG.patterns[pattern.where[0]] if one is pattern
    }.values()
    assert all(wanted.search(text) for text in pattern.match)
    assert not any(wanted.search(text) for text in pattern.miss)


def test_every_program_has_one_entry() -> None:
    names = [name for one in ENTRIES for name in one.programs]
    assert sorted({one for one in names if names.count(one) > 1}) == []


def test_the_policy_loads_quickly() -> None:
    default.cache_clear()
    started = time.process_time()
    assert isinstance(default(), Catalog)
    assert time.process_time() - started < 0.5  # 0.04 s
