# SPDX-License-Identifier: Apache-2.0
"""Imports point one way, and only the edges read, print or exit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
POLICY = sorted((ROOT / "policy").rglob("*.py"))
SANDBOX = sorted((ROOT / "sandbox").rglob("*.py"))
CELL = sorted((ROOT / "sandbox" / "cell").rglob("*.py"))
MOST_MODULES = 16
IO_IN_POLICY = {"strict_yaml.py", "bashlex_worker.py"}
"""Modules of policy that may read files or start a process: files of rules, and the worker."""
IO_MODULES = {"asyncio", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets",
              "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time",
              "urllib", "uuid"}  # fmt: skip
PURE_SANDBOX = {
    "containers/plan.py",
    "cells/request.py",
    "audit/chain.py",
    "results.py",
    "errors.py",
}
FRONT_DOORS = {"agents/run.py", "setup/bootstrap.py", "policy_tools/batch.py",
               "doctor/__main__.py", "doctor/diagnose.py",
               "hooks/service.py", "containers/progress.py", "policy_tools/rates.py",
               "testing/replay.py", "server/server.py", "client/connect.py"}  # fmt: skip


def name(path: Path) -> str:
    """Return a module's name for a test's id."""
    return str(path.relative_to(ROOT))


def inside(path: Path) -> str:
    """Return where a module stands in `sandbox`, or in the project if it stands elsewhere."""
    home = ROOT / "sandbox"
    return str(path.relative_to(home if path.is_relative_to(home) else ROOT))


@cache
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


def module_name(path: Path) -> str:
    """Return a module's full name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported_modules(path: Path) -> set[str]:
    """Return the full names that a module imports: of modules, and of what may be one."""
    package = list(path.relative_to(ROOT).parts[:-1])
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


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


def offending(paths: Iterable[Path], finds: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """Return what is wrong in each module, by name; those in which nothing is are left out."""
    return {name(path): wrong for path in paths if (wrong := finds(path))}


def test_policy_imports_nothing_of_sandbox() -> None:
    foreign = {"sandbox", "tests", "docker", "psutil", "click", "rich"}
    assert offending(POLICY, lambda path: tops(path) & foreign) == {}


def test_policy_is_pure() -> None:
    modules = IO_MODULES - {"pathlib"}  # a path may be handed on to `strict_yaml`
    calls = {"open", "print", "input", "exec", "eval", "__import__", "Path"}
    reads = {"read_text", "read_bytes", "write_text", "write_bytes", "exists", "stat", "iterdir"}

    def finds(path: Path) -> set[str]:
        names = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
        wrong = (tops(path) & modules) | (called(path) & calls)
        return wrong | (names & reads if "pathlib" in tops(path) else set())

    assert offending([path for path in POLICY if path.name not in IO_IN_POLICY], finds) == {}


def test_programs_in_containers_need_the_standard_library_alone() -> None:
    known = {*sys.stdlib_module_names, "sandbox", "watchdog"}
    own = {module_name(path).removesuffix(".__init__") for path in CELL}

    def finds(path: Path) -> set[str]:
        absolute = {  # inside a container the package has another name
            str(node.module) for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sandbox")
        }  # fmt: skip
        theirs = {one for one in imported(path) if one.startswith("sandbox")} - own
        return (tops(path) - known) | theirs | absolute

    assert offending(CELL, finds) == {}


def test_only_the_second_opinion_imports_bashlex() -> None:
    users = offending([*POLICY, *SANDBOX], lambda path: tops(path) & {"bashlex"})
    assert users.keys() == {"policy/gate1/bashlex_worker.py"}


def test_what_is_pure_in_sandbox_stays_pure() -> None:
    modules = IO_MODULES | {"docker", "psutil", "fcntl"}
    paths = [ROOT / "sandbox" / one for one in sorted(PURE_SANDBOX)]

    def finds(path: Path) -> set[str]:
        return (tops(path) & modules) | (called(path) & {"open", "print", "input"})

    assert offending(paths, finds) == {}


def test_only_front_doors_print_and_exit() -> None:
    def finds(path: Path) -> set[str]:
        exits = {
            ast.unparse(node) for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and node.attr in ("exit", "_exit")
            and isinstance(node.value, ast.Name) and node.value.id in ("sys", "os")
        }  # fmt: skip
        return exits | (called(path) & {"print", "exit", "quit"})

    doors = {
        path for path in SANDBOX
        if inside(path).startswith(("cli/", "cell/")) or inside(path) in FRONT_DOORS
    }  # fmt: skip
    others = [path for path in (*POLICY, *SANDBOX) if path not in doors]
    assert offending([p for p in others if p.name != "bashlex_worker.py"], finds) == {}


def test_only_the_engine_and_what_sets_it_up_speak_to_docker() -> None:
    users = offending([p for p in SANDBOX if p not in CELL], lambda path: tops(path) & {"docker"})
    homes = ("sandbox/containers/", "sandbox/setup/", "sandbox/doctor/")
    assert [one for one in users if not one.startswith(homes)] == []


def test_the_supervisor_is_above_everything_but_the_front_doors() -> None:
    allowed = {"calls/blocking.py", "cli/calls/replay.py", "testing/replay.py", "server/server.py"}
    users = [p for p in SANDBOX if "sandbox.calls.supervisor" in set(imported(p))]
    assert {inside(one) for one in users} <= allowed


def test_every_module_says_its_licence_and_what_it_does() -> None:
    def finds(path: Path) -> set[str]:
        first = path.read_text("utf-8").split("\n", 2)[:2]
        lines = first[1:] if first[0].startswith("#!") else first
        missing = set() if lines[0].startswith("# SPDX-License-Identifier: ") else {"licence"}
        return missing if ast.get_docstring(tree(path)) else {*missing, "docstring"}

    assert offending([*POLICY, *SANDBOX], finds) == {}


def test_nothing_happens_on_import() -> None:
    def finds(path: Path) -> set[str]:
        calls = {
            ast.unparse(node.value.func)
            for node in tree(path).body
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        }
        # A reader of YAML of its own kind can only be made by telling its class.
        return {call for call in calls if not call.startswith("_Strict.add_")}

    assert offending([*POLICY, *SANDBOX], finds) == {}


def test_no_decision_is_made_on_the_text_of_an_error() -> None:
    """What must be told apart is a class of its own, or has an attribute."""
    looks = {"startswith", "endswith", "find", "index", "count"}

    def reads(node: ast.AST, names: set[str]) -> bool:
        return (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("str", "repr")
            and any(isinstance(one, ast.Name) and one.id in names for one in node.args)
        )

    def finds(path: Path) -> set[str]:
        names = {
            str(node.name) for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler)
        }
        compared = {
            ast.unparse(node) for node in ast.walk(tree(path))
            if isinstance(node, ast.Compare)
            and any(reads(one, names) for one in (node.left, *node.comparators))
        }  # fmt: skip
        looked = {
            ast.unparse(node) for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and node.attr in looks and reads(node.value, names)
        }  # fmt: skip
        return compared | looked

    assert offending([*POLICY, *SANDBOX], finds) == {}


def test_packages_are_small() -> None:
    """At most 16 modules at one level: what more there is wants a package of its own."""
    sizes = {
        str(folder.relative_to(ROOT)): len([p for p in folder.glob("*.py") if p.stem != "__init__"])
        for top in ("policy", "sandbox")
        for folder in (ROOT / top).rglob("*")
        if folder.is_dir()
    }
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_each_package_names_the_modules_that_others_import() -> None:
    named = {}
    for init in [p for p in (*POLICY, *SANDBOX) if p.stem == "__init__"]:
        package = ".".join(init.parent.relative_to(ROOT).parts)
        lists = [
            ast.literal_eval(node.value)
            for node in tree(init).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        if "." in package and package != "sandbox.cell":
            named[package] = {f"{package}.{each}" for names in lists for each in names}
    used: dict[str, set[str]] = {package: set() for package in named}
    modules = {module_name(p) for p in (*POLICY, *SANDBOX) if p.stem != "__init__"}
    for path in (*POLICY, *SANDBOX):
        for module in imported_modules(path) & modules:
            home = module.rpartition(".")[0]
            if home in used and home != module_name(path).rpartition(".")[0]:
                used[home].add(module)
    assert named == used
