# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, and only the edges read, print or exit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POLICY = sorted((ROOT / "policy").rglob("*.py"))
SANDBOX = sorted((ROOT / "sandbox").rglob("*.py"))
CELL = sorted((ROOT / "sandbox" / "cell").glob("*.py"))
IO_IN_POLICY = {"load.py", "second_opinion.py"}
"""Modules of policy that may read files or start a process: files of rules, and the worker."""
IO_MODULES = {"asyncio", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets",
              "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time",
              "urllib", "uuid"}  # fmt: skip
PURE_SANDBOX = {"plan.py", "launch.py", "audit/chain.py", "results.py", "errors.py"}
FRONT_DOORS = {"agents/run.py", "bootstrap.py", "check.py", "cli.py", "doctor.py", "entry.py",
               "hooks/door.py", "progress.py", "rates.py", "replay.py", "serving/server.py",
               "serving/start.py"}  # fmt: skip


def name(path: Path) -> str:
    """Return a module's name for a test's id."""
    return str(path.relative_to(ROOT))


def inside(path: Path) -> str:
    """Return where a module stands in `sandbox`, or in the project if it stands elsewhere."""
    home = ROOT / "sandbox"
    return str(path.relative_to(home if path.is_relative_to(home) else ROOT))


def tree(path: Path) -> ast.Module:
    """Return a module's syntax."""
    return ast.parse(path.read_text("utf-8"), str(path))


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of what a module imports, wherever in it."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])


def tops(path: Path) -> set[str]:
    """Return the top-level packages that a module imports."""
    return {one.split(".")[0] for one in imported(path)}


def called(path: Path) -> set[str]:
    """Return the plain names that a module calls."""
    return {
        node.func.id
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


@pytest.mark.parametrize("path", POLICY, ids=name)
def test_policy_imports_nothing_of_sandbox(path: Path) -> None:
    assert not tops(path) & {"sandbox", "tests", "docker", "psutil", "click", "rich"}


@pytest.mark.parametrize("path", [p for p in POLICY if p.name not in IO_IN_POLICY], ids=name)
def test_policy_is_pure(path: Path) -> None:
    assert not tops(path) & (IO_MODULES - {"pathlib"})  # a path may be handed on to `load`
    assert not called(path) & {"open", "print", "input", "exec", "eval", "__import__", "Path"}
    reads = {"read_text", "read_bytes", "write_text", "write_bytes", "exists", "stat", "iterdir"}
    assert not {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)} & (
        reads if "pathlib" in tops(path) else set()
    )


@pytest.mark.parametrize("path", CELL, ids=name)
def test_programs_in_containers_need_the_standard_library_alone(path: Path) -> None:
    foreign = tops(path) - set(sys.stdlib_module_names) - {"sandbox"}
    assert foreign <= {"watchdog"}
    assert {one for one in imported(path) if one.startswith("sandbox")} <= {
        f"sandbox.cell{suffix}" for suffix in ("", *(f".{p.stem}" for p in CELL))
    }
    relative = [
        node for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sandbox")
    ]  # fmt: skip
    assert relative == []  # inside a container the package has another name


@pytest.mark.parametrize("path", [*POLICY, *SANDBOX], ids=name)
def test_only_the_second_opinion_imports_bashlex(path: Path) -> None:
    assert "bashlex" not in tops(path) or path.name == "second_opinion.py"


@pytest.mark.parametrize("path", [ROOT / "sandbox" / one for one in sorted(PURE_SANDBOX)], ids=name)
def test_what_is_pure_in_sandbox_stays_pure(path: Path) -> None:
    assert not tops(path) & (IO_MODULES | {"docker", "psutil", "fcntl"})
    assert not called(path) & {"open", "print", "input"}


@pytest.mark.parametrize("path", [*POLICY, *SANDBOX], ids=name)
def test_only_front_doors_print_and_exit(path: Path) -> None:
    if path.parent.name in ("bench", "commands", "cell") or path.name == "second_opinion.py":
        return
    if inside(path) in FRONT_DOORS:
        return
    assert not called(path) & {"print", "exit", "quit"}
    exits = [
        node for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in ("exit", "_exit")
        and isinstance(node.value, ast.Name) and node.value.id in ("sys", "os")
    ]  # fmt: skip
    assert exits == []


@pytest.mark.parametrize("path", [p for p in SANDBOX if p.parent.name != "cell"], ids=name)
def test_only_the_engine_and_what_sets_it_up_speak_to_docker(path: Path) -> None:
    allowed = {"bootstrap.py", "doctor.py", "endpoints.py", "engine.py"}
    set_up = path.parent.name in ("bench", "setup")
    assert "docker" not in tops(path) or set_up or inside(path) in allowed


def test_the_supervisor_is_above_everything_but_the_front_doors() -> None:
    allowed = {"blocking.py", "commands/replay.py", "replay.py", "serving/server.py"}
    users = [p for p in SANDBOX if "sandbox.supervisor" in set(imported(p))]
    assert {inside(one) for one in users if one.parent.name != "bench"} <= allowed


@pytest.mark.parametrize("path", [*POLICY, *SANDBOX], ids=name)
def test_every_module_says_its_licence_and_what_it_does(path: Path) -> None:
    first = path.read_text("utf-8").split("\n", 2)[:2]
    lines = first[1:] if first[0].startswith("#!") else first
    assert lines[0].startswith("# SPDX-License-Identifier: ")
    assert ast.get_docstring(tree(path))


@pytest.mark.parametrize("path", [*POLICY, *SANDBOX], ids=name)
def test_nothing_happens_on_import(path: Path) -> None:
    calls = [
        ast.unparse(node.value.func)
        for node in tree(path).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    # A reader of YAML of its own kind can only be made by telling its class.
    assert [call for call in calls if not call.startswith("_Strict.add_")] == []
