# SPDX-License-Identifier: Apache-2.0
"""The fixture `lockgate_cell`, used as a project's tests would use it, and its documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_STATE
from sandbox.host.dirs import Dirs

pytest_plugins = ("pytester",)
DOCS = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.fixture
def nothing_left(
    docker_client: docker.DockerClient, images: object, pytester: pytest.Pytester
) -> Iterator[None]:
    """Check that the tests' cells left no container and no volume."""
    yield
    states = [state_label(Dirs.under(one)) for one in pytester.path.glob("runpytest-*/*/state")]
    assert states
    volumes = {one.name for one in docker_client.volumes.list()}
    for state in states:
        label: dict[str, Any] = {"label": f"{LABEL_STATE}={state}"}
        assert docker_client.containers.list(all=True, filters=label, ignore_removed=True) == []
        assert docker_client.volumes.list(filters=label) == []
        assert f"lockgate-layers-{state}" not in volumes


def run(pytester: pytest.Pytester, *arguments: str, **outcomes: int) -> pytest.RunResult:
    """Run the tests in a process of their own and compare how many passed, failed and so on."""
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=250)
    result.assert_outcomes(**outcomes)
    return result


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    look = (
        "import pytest, sys; before = set(sys.modules); import sandbox.testing.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "['sandbox', 'sandbox.testing', 'sandbox.testing.pytest_plugin']\n"


@pytest.mark.docker
def test_the_documented_example_works(pytester: pytest.Pytester, nothing_left: None) -> None:
    blocks = re.findall(r"```python\n(# test_\w+\.py\n.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert blocks
    pytester.makefile(".toml", pyproject="[project]\nname = 'demo'\nversion = '1'\n")
    pytester.makefile("", Makefile="test:\n\tpython3 -c 'print(6 * 7)' > answer.txt\n")
    for block in blocks:
        name = block.split("\n", 1)[0].removeprefix("# ")
        (pytester.path / name).write_text(block)
    count = sum(block.count("def test_") for block in blocks)
    run(pytester, passed=count)
    assert not (pytester.path / "answer.txt").exists()


@pytest.mark.docker
def test_a_cell_is_contained_judged_and_lands_in_its_own_workspace(
    pytester: pytest.Pytester, nothing_left: None
) -> None:
    (pytester.path / "project.txt").write_text("mine\n")
    pytester.makepyfile(
        """
        import pytest

        def test_empty(lockgate_cell):
            assert lockgate_cell.run("ls").stdout == ""
            assert lockgate_cell.write("a/b.txt", "text\\n").landed
            assert lockgate_cell.read("a/b.txt") == "text\\n"
            done = lockgate_cell.run("cat a/b.txt > c.txt; id -u; exit 3")
            assert done.exit_status == 3 and done.stdout.strip() != "0"
            assert [one.path for one in lockgate_cell.changes] == ["c.txt"]
            with pytest.raises(AssertionError, match="status 1"):
                lockgate_cell.run("false", check=True)
            with pytest.raises(ValueError, match="not in the workspace"):
                lockgate_cell.read("../../etc/passwd")

        def test_input_and_limits(lockgate_cell):
            assert lockgate_cell.run("cat", stdin=b"in").stdout == "in"
            assert lockgate_cell.run("echo $A", env={"A": "b"}).stdout == "b\\n"
            assert lockgate_cell.run("sleep 60", seconds=0.5).exit_status == 124
            lockgate_cell.run("mkdir sub", check=True)
            assert lockgate_cell.run("pwd", cwd="sub").stdout.endswith("/sub\\n")

        @pytest.mark.lockgate(workspace="copy")
        def test_copy(lockgate_cell):
            assert lockgate_cell.read("project.txt") == "mine\\n"
            held = lockgate_cell.run("python3 -c 'import os; os.remove(\\"project.txt\\")'")
            if held.judgement == "hold":
                assert lockgate_cell.read("project.txt") == "mine\\n"
                lockgate_cell.land()
            assert not (lockgate_cell.workspace / "project.txt").exists()

        def test_governance(lockgate_cell):
            lockgate_cell.write("t.yml", "waive: all\\n")
            done = lockgate_cell.run("n=.devkit-waiver; mv t.yml $n.yml")
            assert not done.landed
            with pytest.raises(AssertionError, match="nothing of the last command is held"):
                lockgate_cell.land()

        @pytest.mark.lockgate(fresh=True)
        def test_fresh(lockgate_cell):
            lockgate_cell.run("echo x > ~/left; echo y > y.txt", check=True)
            assert lockgate_cell.run("cat ~/left y.txt").stdout == "y\\n"

        def test_kept(lockgate_cell):
            lockgate_cell.run("echo x > ~/left", check=True)
            assert lockgate_cell.run("cat ~/left | tee seen.txt").stdout == "x\\n"

        @pytest.mark.lockgate(approve=False)
        def test_asked(lockgate_cell):
            assert lockgate_cell.run("git push").ending.value == "not-approved"
        """
    )
    run(pytester, passed=7)
    assert (pytester.path / "project.txt").read_text() == "mine\n"


def test_without_an_engine_it_fails_and_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{pytester.path}/none.sock")
    pytester.makepyfile("def test_it(lockgate_cell): pass")
    result = run(pytester, errors=1)
    result.stdout.fnmatch_lines(["*lockgate: *none.sock*`--lockgate-skip` skips such tests*"])
    run(pytester, "--lockgate-skip", skipped=1)


def test_a_wrong_option_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.lockgate(work="copy")
        def test_name(lockgate_cell): pass

        @pytest.mark.lockgate(network="host")
        def test_network(lockgate_cell): pass

        @pytest.mark.lockgate(workspace="nosuch")
        def test_folder(lockgate_cell): pass
        """
    )
    result = run(pytester, "--strict-markers", errors=3)
    result.stdout.fnmatch_lines(
        [
            "*the marker has no option `work`*",
            "*`network` can only be None*",
            "*`workspace`: no folder*nosuch*",
        ]
    )
