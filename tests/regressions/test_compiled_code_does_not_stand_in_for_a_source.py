# SPDX-License-Identifier: Apache-2.0
"""Compiled code runs on the host in place of a source beside it, which is what a person reads."""

from __future__ import annotations

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Outcome, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.cell.overlay.shadows import note_shadows
from sandbox.cell.overlay.walk import Walk
from sandbox.gates.shown_changes import changes_of
from tests.conftest import cannot_run
from tests.container.lab import Lab
from tests.sandbox.overlays import Overlay, missing

DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    named_deletions=("**",),
    message="",
)
PREPARE = """
mkdir -p pkg/__pycache__ other/__pycache__ lib
echo 'x = 1' >pkg/x.py; echo old >pkg/__pycache__/x.cpython-311.pyc; echo notes >notes.txt
echo 'y = 1' >other/y.py; echo theirs >other/__pycache__/y.cpython-311.pyc
echo 'z = 1' >lib/z.py; touch -d 2020-01-01 pkg/x.py other/y.py lib/z.py
touch -d 2020-01-01 notes.txt pkg/__pycache__/* other/__pycache__/*
"""


@pytest.fixture
def overlay() -> Overlay:
    if reason := missing():
        cannot_run(reason)
    return Overlay(prepare=PREPARE)


def _judged(overlay: Overlay, script: str) -> tuple[Outcome, Walk]:
    with overlay:
        overlay.call(script)
        walked = overlay.walk()
        note_shadows(walked, str(overlay.lower))
        found = judge(DECISION, changes_of(walked.changes), PathPolicy.default(), workspace="/w")
        if found.outcome is Outcome.LAND and not walked.empty:
            overlay.land(walked)
        return found.outcome, walked


LEFT_OUT = {
    "a planted one": "cd pkg/__pycache__; echo bad >x.cpython-311.pyc.1;"
    " mv x.cpython-311.pyc.1 x.cpython-311.pyc; cd ../..",
    "one in a new cache": "mkdir lib/__pycache__; echo bad >lib/__pycache__/z.cpython-312.pyc",
    "one of a test runner": "echo bad >pkg/__pycache__/x.cpython-311-pytest-8.3.4.pyc",
    "one of numba": "echo bad >pkg/__pycache__/x.f-1.py311.nbi",
    "one in a cache that was removed": "rm -r pkg/__pycache__; mkdir pkg/__pycache__;"
    " echo bad >pkg/__pycache__/x.cpython-311.pyc",
    "one in a new package": "mkdir -p new/__pycache__; echo bad >new/__pycache__/a.cpython-311.pyc",
}


@pytest.mark.parametrize("script", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_a_call_compiles_is_left_out(overlay: Overlay, script: str) -> None:
    outcome, walked = _judged(overlay, f"{script}; echo 'w = 1' >pkg/w.py")
    assert outcome is Outcome.LAND
    assert not [one for one in walked.changes if "__pycache__" in one["path"]]


def test_what_is_beside_it_lands() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call("echo bad >pkg/__pycache__/w.cpython-311.pyc; echo 'w = 1' >pkg/w.py")
        overlay.call("mkdir -p new/__pycache__; echo a >new/a.py; echo b >new/__pycache__/a.pyc")
        overlay.land(overlay.walk())
        assert (overlay.lower / "pkg/w.py").read_text() == "w = 1\n"
        assert (overlay.lower / "pkg/__pycache__/x.cpython-311.pyc").read_text() == "old\n"
        assert not (overlay.lower / "pkg/__pycache__/w.cpython-311.pyc").exists()
        assert [one.name for one in (overlay.lower / "new").iterdir()] == ["a.py"]


HELD = {
    "another's that is moved there": "mv other/__pycache__/y.cpython-311.pyc"
    " pkg/__pycache__/x.cpython-311.pyc",
    "a whole cache that is moved": "rm -r pkg/__pycache__; mv other/__pycache__ pkg/__pycache__",
    "a file that becomes one": "mv notes.txt pkg/__pycache__/x.cpython-312.pyc",
    "a link": "ln -s ../../notes.txt pkg/__pycache__/x.cpython-312.pyc",
    "a cache that is a link": "ln -s ../other lib/__pycache__",
    "one without a source": "echo bad >json.pyc",
    "one beside the source, without a cache": "echo bad >pkg/x.pyc",
    "a native module": "echo bad >pkg/x.cpython-311-x86_64-linux-gnu.so",
    "one that is loaded first": "echo bad >lib/z.so",
    "one that is moved there": "echo ok >a.so; mv a.so lib/z.so",
}


@pytest.mark.parametrize("script", HELD.values(), ids=HELD)
def test_what_would_run_unseen_is_held(overlay: Overlay, script: str) -> None:
    assert _judged(overlay, script)[0] is Outcome.HOLD


HONEST = {
    "a package that is moved with its cache": "mv pkg package",
    "a folder of packages that is moved": "mkdir src; mv pkg other src/",
    "a cache that is removed": "rm -r pkg/__pycache__",
    "what is compiled that is removed": "find . -name '*.pyc' -delete",
    "a native module without a source": "echo ok >pkg/speedups.cpython-311-x86_64-linux-gnu.so",
    "installed packages": "mkdir -p .venv/lib/python3.11/site-packages/a/__pycache__; cd .venv/lib/"
    "python3.11/site-packages/a; echo 1 >a.py; echo 1 >a.so; echo 1 >__pycache__/a.cpython-311.pyc",
}


@pytest.mark.parametrize("script", HONEST.values(), ids=HONEST)
def test_honest_work_lands(overlay: Overlay, script: str) -> None:
    assert _judged(overlay, script)[0] is Outcome.LAND


def test_installed_packages_keep_theirs(overlay: Overlay) -> None:
    _, walked = _judged(overlay, HONEST["installed packages"])
    assert any(one["path"].endswith("a.cpython-311.pyc") for one in walked.changes)


def _judged_commit(**held: tuple[str, ...]) -> Outcome:
    """Return what gate 2 says of an object of a new commit that holds some paths."""
    objects = Change(
        ".git/objects/ab/" + "c" * 38,
        Kind.CREATED,
        FileType.FILE,
        git_folders=(".git",),
        git_checked="object",
        **held,  # type: ignore[arg-type]
    )
    return judge(DECISION, [objects], PathPolicy.default(), workspace="/w").outcome


@pytest.mark.parametrize(
    "path, outcome",
    [
        ("pkg/__pycache__/x.cpython-311.pyc", Outcome.HOLD),
        ("x.pyc", Outcome.HOLD),
        ("pkg/x.py", Outcome.LAND),
    ],
)
def test_a_commit_that_holds_compiled_python_is_held(path: str, outcome: Outcome) -> None:
    assert _judged_commit(commits=(path,)) is outcome


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("src/a.so", Outcome.HOLD),
        ("src/a.cpython-311-x86_64-linux-gnu.so", Outcome.HOLD),
        ("src/a.abi3.so", Outcome.HOLD),
        ("a.pyd", Outcome.HOLD),
        ("jni/arm64/libnative.so", Outcome.LAND),
        ("lib/site-packages/x/a.so", Outcome.LAND),
        ("libs/z.so.1", Outcome.LAND),
    ],
)
def test_a_commit_that_holds_a_native_module_is_held(path: str, outcome: Outcome) -> None:
    assert _judged_commit(commits_others=(path,)) is outcome


PLANT = """
import importlib.util, pathlib, py_compile
bad = pathlib.Path("/tmp/bad.py"); bad.write_text("open('PWNED', 'w').write('x')")
place = pathlib.Path(importlib.util.cache_from_source("helper.py"))
place.parent.mkdir(exist_ok=True)
py_compile.compile(str(bad), cfile=str(place),
                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""


def test_in_a_cell_nothing_planted_reaches_the_host(lab: Lab) -> None:
    (lab.ws / "helper.py").write_text("VALUE = 1\n")
    (lab.ws / "plant.py").write_text(PLANT)
    assert lab.sh("python3 plant.py && ls __pycache__ && touch done").landed
    assert (lab.ws / "done").exists()
    assert not (lab.ws / "__pycache__").exists()
    assert lab.sh("python3 -c 'import helper; print(helper.VALUE)'").stdout == "1\n"
