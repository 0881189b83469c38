# SPDX-License-Identifier: Apache-2.0
"""What the documents name exists: code and tests of promises, commands, options, examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from policy.model import Frozen
from policy.values import strict_yaml
from sandbox.cli import main as cli
from sandbox.config.settings import Settings
from sandbox.testing.replay import ReplayLine, parse

ROOT = Path(__file__).parent.parent
PENDING = "pending"


def _rows(text: str) -> list[list[str]]:
    """Return the cells of every table row of a Markdown text."""
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


PROMISES = {
    row[0]: row
    for row in _rows((ROOT / "docs" / "SECURITY.md").read_text("utf-8"))
    if re.fullmatch(r"P\d+", row[0])
}


def test_every_promise_is_listed() -> None:
    assert list(PROMISES) == [f"P{number}" for number in range(1, 13)]


@pytest.mark.parametrize("row", PROMISES.values(), ids=PROMISES)
def test_a_promise_names_code_and_a_test_that_exist(row: list[str]) -> None:
    _, promise, code, shown = row
    assert promise
    files = re.findall(r"`([\w./]+\.\w+)`", code)
    assert files or PENDING in code
    for name in files:
        assert (ROOT / name).is_file(), name
    tests = re.findall(r"`(tests/[\w./]+\.py)::(\w+)`", shown)
    assert tests or PENDING in shown
    for name, test in tests:
        assert (ROOT / name).is_file(), name
        assert re.search(rf"^(?:async )?def {test}\(", (ROOT / name).read_text("utf-8"), re.M), test


def _command(words: list[str]) -> click.Command | None:
    """Return the command that words name, or None."""
    found: click.Command = cli.lockgate
    for word in words:
        if not isinstance(found, click.Group):
            return None
        inner = found.get_command(click.Context(found), word)
        if inner is None:
            return None
        found = inner
    return found


README = (ROOT / "README.md").read_text("utf-8")
TABLE = [row[0] for row in _rows(README) if row[0].startswith("`lockgate")]


def test_the_readme_lists_the_commands() -> None:
    assert TABLE
    listed = " ".join(TABLE)
    missing = [name for name in cli.COMMANDS if not re.search(rf"\b{name}\b", listed + README)]
    assert missing == []


@pytest.mark.parametrize("cell", TABLE)
def test_a_command_of_the_readme_exists(cell: str) -> None:
    for code in re.findall(r"`([^`]+)`", cell):
        words = code.replace("\\|", "|").removeprefix("lockgate ").split()
        head, *rest = words
        alternatives = rest[0].split("|") if rest and "|" in rest[0] else []
        command = _command([head])
        assert command is not None, head
        for name in alternatives:
            assert _command([head, name]) is not None, f"{head} {name}"
        options = {one for parameter in command.params for one in parameter.opts}
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", code):
            assert option in options, f"{head} {option}"


@pytest.mark.parametrize("line", re.findall(r"^\$ lockgate (.+)$", README, re.M))
def test_an_example_of_the_readme_names_a_command(line: str) -> None:
    assert _command([line.split()[0]]) is not None


SESSION = (ROOT / "examples" / "session.jsonl").read_text("utf-8").strip().split("\n")


def _session() -> list[ReplayLine]:
    return [parse(text, number) for number, text in enumerate(SESSION, start=1)]


def test_the_example_session_expects_something_of_every_call() -> None:
    lines = _session()
    assert len(lines) >= 25
    assert len({line.id for line in lines}) == len(lines)
    for line in lines:
        assert line.expect is not None, line.id
        assert line.expect.model_fields_set, line.id
        assert line.intent, line.id


def test_the_example_session_has_the_scenarios_of_the_policy_check() -> None:
    lines = {str(line.id): line for line in _session()}
    assert lines["waiver"].params.file_path == ".devkit-waiver.yml"
    assert (lines["waiver-pr"].params.command or "").startswith("gh pr create")
    assert (lines["waiver-echo"].params.command or "").endswith(">> .devkit-waiver.yml")


def test_the_configuration_page_shows_the_defaults() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    example = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    shown = strict_yaml.parse(example, "configuration.md")
    assert strict_yaml.build(Settings, shown, "page") == Settings()
    assert _missing_keys(Settings, shown) == []


def _missing_keys(model: type[Frozen], shown: Mapping[str, Any], above: str = "") -> list[str]:
    """Return the keys of a settings model that an example does not show."""
    missing = [f"{above}{key}" for key in model.model_fields if key not in shown]
    for key, field in model.model_fields.items():
        kind = field.annotation
        if key in shown and isinstance(kind, type) and issubclass(kind, Frozen):
            missing += _missing_keys(kind, shown[key], f"{above}{key}.")
    return missing
