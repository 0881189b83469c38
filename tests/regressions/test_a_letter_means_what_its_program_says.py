# SPDX-License-Identifier: Apache-2.0
"""Found: a letter that means "only check" or takes a value with one formatter was read so for all:
`black -l 100 FILE` counted as reading, and of `rustfmt -l FILE` the file was not seen at all."""

from __future__ import annotations

import pytest

from policy.model import Verdict
from tests.policy.asking import bash

GOVERNED = "devkit.config.json"

REWRITES = (
    "black -l 100 {}",
    "black {} -l 88",
    "isort -l 100 {}",
    "ktlint -F {}",
    "rustfmt -l {}",
    "gofmt -l -w {}",
    "gofmt -d -w {}",
    "shfmt -l -w {}",
    "shfmt -w -p {}",
    "prettier -l -w {}",
    "prettier --check --write {}",
    "npx prettier --list-different -w {}",
    "dprint fmt --diff {}",
    "ruff check --fix -n {}",
    "rubocop -a -l {}",
    "codespell -w -c {}",
    "golangci-lint run --fix -n {}",
    "yapf -i -p {}",
    "ktlint --format {}",
    "clang-tidy -fix {}",
    "sqlfluff fix {}",
    "python -m black -l 100 {}",
)
CHECKS = (
    "black -l 100 --check {}",
    "black --diff {} -l 88",
    "isort -c {}",
    "gofmt -l {}",
    "gofmt {}",
    "gofmt -d {}",
    "shfmt -l {}",
    "shfmt -i 2 -d {}",
    "prettier -l {}",
    "prettier -c {}",
    "prettier --list-different {}",
    "yapf -d {}",
    "clang-format -n {}",
    "ruff check -n {}",
    "rustfmt --check -l {}",
)


@pytest.mark.parametrize("command", REWRITES)
def test_what_rewrites_a_governance_file_is_denied(command: str) -> None:
    assert bash(command.format(GOVERNED)).verdict is Verdict.DENY
    assert bash(command.format("src/a.py")).verdict is Verdict.REPORT  # the control


@pytest.mark.parametrize("command", CHECKS)
def test_what_only_looks_at_it_is_not(command: str) -> None:
    assert bash(command.format(GOVERNED)).rules == bash(command.format("src/a.py")).rules
