# SPDX-License-Identifier: Apache-2.0
"""Test runners and linters: code of the project, run in the cell."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages.python import run_code
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, unknown

_WRITES = (
    "--write",
    "-w",
    "--fix",
    "-i",
    "--in-place",
    "--inplace",
    "--apply",
    "format",
    "fmt",
    "--unsafe",
    "-a",
    "--autocorrect",
    "--autocorrect-all",
    "--auto-correct",
    "--auto-correct-all",
    "-A",
    "fix",
    "-fix",
    "-F",
    "--fix-errors",
    "-fix-errors",
    "--fix-suggestions",
    "--fix-dangerously",
    "--apply-unsafe",
    "--reformat",
    "--add-noqa",
)
"""Words with which a program of the row rewrites what it looks at."""


_WRITERS = frozenset(
    (
        "black",
        "isort",
        "rustfmt",
        "autopep8",
        "yapf",
        "pyupgrade",
        "autoflake",
        "clang-format",
    )
)
"""Programs that are taken to rewrite files unless they are told only to check."""

_PRINTERS = frozenset(("gofmt", "shfmt", "prettier"))
"""Programs that rewrite files with `-w` alone, and then whatever else they are told."""

_CHECKS = ("--check", "--diff", "--noEmit", "--dry-run")

_OWN_CHECKS = {
    "isort": ("-c", "--check-only"),
    "autoflake": ("-c",),
    "autopep8": ("-d",),
    "yapf": ("-d",),
    "clang-format": ("-n",),
}
"""Short options that mean "only check", by program; to others the letter says something else."""

_OWN_WRITES = {"ktlint": ("--format",)}
"""Options that rewrite files with this program, and say another thing to others."""

_WITHOUT_VALUE = {
    "autoflake": ("-c",),
    "bandit": ("-l",),
    "clang-format": ("-n",),
    "codespell": ("-c",),
    "gofmt": ("-l",),
    "golangci-lint": ("-n",),
    "isort": ("-c",),
    "ktlint": ("--format",),
    "prettier": ("-c", "-l"),
    "rubocop": ("-l",),
    "ruff": ("-n",),
    "rustfmt": ("-l",),
    "shfmt": ("-l", "-p"),
    "yapf": ("-p",),
}
"""Options of the row that take no value with this program: the next word is a file."""


_PYTEST = frozenset(("pytest", "py.test"))
_WRITTEN = frozenset(("cache_dir", "log_file"))
"""Settings of pytest that name what it writes."""


def read_linter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read a linter or a formatter."""
    valued = frozenset((*entry.values, *entry.uses))
    parsed = parse(call.args, valued.difference(_WITHOUT_VALUE.get(call.name, ())))
    catalog.apply(shell, call, entry, Parsed(parsed.flags, []))
    for text in parsed.values("--init-hook"):
        run_code(catalog, shell, text, [], None)
    outputs.record(catalog, shell, call)
    writes = _rewrites(call, parsed)
    for path in parsed.operands:
        if "/" in path or "." in path:
            shell.touch(How.WRITE if writes else How.READ, path, program=call.name)
    return HOLE


def _rewrites(call: Call, parsed: Parsed) -> bool:
    """Return whether a linter or formatter rewrites the files that it is given."""
    if call.name in _PRINTERS:
        if parsed.has("-w", "--w", "--write") or any(unknown(word) for word in parsed.flags):
            return True
        looks = parsed.has("-l", "-d", "-c", *_CHECKS, "--list-different")
        return not looks and any(unknown(word[:1]) for word in parsed.operands)
    if call.name != "dprint" and parsed.has(*_CHECKS, *_OWN_CHECKS.get(call.name, ())):
        return False  # dprint shows what differs while it rewrites
    return (
        call.name in _WRITERS
        or any(argument in _WRITES for argument in call.args)
        or parsed.has(*_OWN_WRITES.get(call.name, ()))
    )


def read_runner(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read a test runner."""
    if call.name == "playwright":
        return _playwright(catalog, shell, call, entry)
    parsed = parse(call.args, frozenset((*entry.values, *entry.uses)))
    catalog.apply(shell, call, entry, Parsed(parsed.flags, []))
    outputs.record(catalog, shell, call)
    if call.name == "pre-commit" and parsed.operands[:1] == ["uninstall"]:
        shell.find(Tier.DANGER, "security", "`pre-commit uninstall` removes checks of the project")
    if call.name in ("coverage", "nyc", "c8") and parsed.operands:
        words = parsed.operands
        if words[0] in ("run", "html", "xml", "json", "lcov", "report"):
            for path in parsed.values("-o", "-d", "--directory"):
                catalog.use(shell, Use.WRITE, path, call)
        elif call.name != "coverage":
            start = list(call.args).index(words[0])
            return shell.call(Call(call.args[start:], call.stdin, call.env, plain=False))
    for value in call.args:
        found = re.match(r"--cov-report=(?:\w+):(.+)", value)
        if found:
            catalog.use(shell, Use.WRITE, found[1], call)
        elif value.startswith("--debug="):
            catalog.use(shell, Use.WRITE, value[8:], call)
        elif re.match(r"--pastebin|-p\s*no:", value) and value.startswith("--paste"):
            shell.find(Tier.DANGER, "network", "it sends results to another machine")
    for at, value in enumerate(call.args[:-1]):
        found = re.match(r"\w+:(.+)", call.args[at + 1])
        if value == "--cov-report" and found:
            catalog.use(shell, Use.WRITE, found[1], call)
    if call.name in _PYTEST:
        for text in parsed.values("-o", "--override-ini"):
            key, _, setting = text.partition("=")
            if key.strip() in _WRITTEN and setting.strip():  # empty: the setting is unset
                catalog.use(shell, Use.WRITE, setting.strip(), call)
            elif key.strip() == "addopts":
                inner = replace(call, words=(call.name, *_split(setting)))
                read_runner(catalog, shell, inner, entry)
    for path in parsed.operands:
        if "/" in path or "." in path:
            shell.touch(How.RUN, path.split("::")[0], program=call.name)
    return HOLE


def _split(text: str) -> list[str]:
    """Return the arguments that a setting holds; pytest refuses what is not quoted to its end."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _playwright(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        frozenset(
            (
                *entry.values,
                *entry.uses,
                "-o",
                "--save-storage",
                "--load-storage",
                "--save-har",
                "--viewport-size",
                "--device",
            )
        ),
    )
    catalog.apply(shell, call, entry, Parsed(parsed.flags, []))
    words = parsed.operands
    verb = words[0] if words else ""
    if verb in ("open", "codegen", "screenshot", "pdf", "cr", "ff", "wk"):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`playwright {verb}` opens a page")
        for path in words[2:]:
            catalog.use(shell, Use.WRITE, path, call)
        for path in parsed.values("-o", "--save-storage", "--save-har"):
            catalog.use(shell, Use.WRITE, path, call)
    elif verb in ("install", "install-deps", "uninstall"):
        shell.find(
            Tier.DANGER if verb != "install" else Tier.CAUTION,
            "packages",
            f"`playwright {verb}` changes installed browsers",
        )
    return HOLE
