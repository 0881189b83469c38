# SPDX-License-Identifier: Apache-2.0
"""The scripts of docs/ci.md, as they stand there: the hook, the publishing, the step of CI."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from sandbox.audit.store import Store
from tests.sandbox.guard.test_verify import Project, change
from tests.sandbox.shells import ROOT, Shell

CI = (ROOT / "docs" / "ci.md").read_text("utf-8")


def script(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", CI, re.DOTALL)
    assert found is not None
    return found[1]


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class Machine:
    """A person's machine with a project, a hook in it, and the server that it is pushed to."""

    def __init__(self, folder: Path) -> None:
        self.shell = Shell(folder)
        self.project = Project(folder)
        self.project.store = Store(self.shell.dirs)
        self.project.record("decided", call="c0", workspace=str(self.project.top), also=[])
        self.server = folder / "server.git"
        command = f'#!/bin/sh\nexec {sys.executable} -m sandbox.cli.main "$@"\n'
        executable(folder / "bin/lockgate", command)
        who = {
            f"GIT_{one}_{what}": "a@b"
            for one in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        self.env = {**self.shell.env, "PATH": f"{folder}/bin:{os.environ['PATH']}", **who}
        self.git("init", "-q", "--bare", "-b", "main", str(self.server))
        self.git("remote", "add", "origin", str(self.server))
        self.git("push", "-q", "origin", "main")
        executable(self.project.top / ".git/hooks/pre-push", script("hook"))

    def git(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(["git", *words], check=check)

    def run(
        self, command: list[str], *, check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        options = {"cwd": self.project.top, "env": self.env, **more}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0 or not check, done.stderr
        return done


@pytest.fixture
def machine() -> Iterator[Machine]:
    with TemporaryDirectory(prefix="lg-") as folder:
        yield Machine(Path(folder))


def test_the_hook_lets_through_what_is_approved_alone(machine: Machine) -> None:
    project = machine.project
    project.write("README.md", "two")
    project.commit()
    assert machine.git("push", "origin", "work", check=False).returncode == 0
    project.write(".envrc", "x")
    project.commit()
    done = machine.git("push", "origin", "work", check=False)
    assert done.returncode != 0
    assert "MISSING  .envrc" in done.stdout + done.stderr
    project.landed(change(".envrc"), answered=True)
    assert machine.git("push", "origin", "work", check=False).returncode == 0


def test_the_hook_looks_at_what_is_pushed_not_at_what_is_checked_out(machine: Machine) -> None:
    project = machine.project
    machine.git("checkout", "-q", "-b", "other", "main")
    project.write(".envrc", "x")
    project.commit()
    machine.git("checkout", "-q", "main")
    assert machine.git("push", "origin", "other", check=False).returncode != 0
    assert machine.git("push", "origin", "main:new", check=False).returncode == 0  # nothing new


def test_the_hook_lets_branches_be_deleted(machine: Machine) -> None:
    machine.project.write("a", "1")
    machine.project.commit()
    machine.git("push", "-q", "origin", "work")
    assert machine.git("push", "-q", "origin", ":work").returncode == 0


def test_the_hook_refuses_where_nothing_can_be_checked(machine: Machine) -> None:
    machine.project.write("a", "1")
    machine.project.commit()
    machine.project.store.log.unlink()
    done = machine.git("push", "origin", "work", check=False)
    assert done.returncode != 0
    assert "lockgate: no audit log: " in done.stderr


def test_the_step_of_ci_checks_a_clone_with_the_published_log(machine: Machine) -> None:
    project = machine.project
    project.write(".envrc", "x")
    project.commit()
    machine.git("push", "-q", "--no-verify", "origin", "work")
    publish = executable(machine.shell.workspace / "publish", script("publish"))
    assert "origin/lockgate-audit" in _ci(machine).stderr  # no log yet: it fails
    machine.run([str(publish)])
    done = _ci(machine)
    assert (done.returncode, "MISSING  .envrc" in done.stdout) == (1, True)
    project.landed(change(".envrc"), answered=True)
    machine.run([str(publish)])
    done = _ci(machine)
    assert done.returncode == 0, done.stderr
    assert "note " not in done.stdout  # the head came along
    assert done.stdout.count("ok       .envrc") == 1


def _ci(machine: Machine) -> subprocess.CompletedProcess[str]:
    """Do what the step does, in a fresh clone, with pip replaced by what is here already."""
    job = yaml.safe_load(script("actions"))["jobs"]["verify"]
    checkout, step = job["steps"]
    assert (checkout["with"]["fetch-depth"], checkout["with"]["persist-credentials"]) == (0, False)
    assert set(step["env"]) == {"LOCKGATE", "WORKSPACE", "BASE"}
    base = machine.git("rev-parse", "main").stdout.strip()
    with TemporaryDirectory(prefix="lg-ci-") as folder:
        temp = Path(folder)
        machine.git("clone", "-q", "-b", "work", str(machine.server), str(temp / "clone"))
        lockgate = (machine.shell.workspace.parent / "bin/lockgate").read_text()
        fake = f"#!/bin/sh\nmkdir -p $3/bin\ncp {temp}/tools/* $3/bin\n"
        executable(temp / "tools/lockgate", lockgate)
        executable(temp / "tools/pip", "#!/bin/sh\nexit 0\n")
        executable(temp / "fake/python3", fake)
        env = {
            **machine.env,
            "PATH": f"{temp}/fake:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(temp / "nobody"),  # CI has the log, not the state folder
            "RUNNER_TEMP": str(temp),
            "LOCKGATE": "a-wheel",
            "WORKSPACE": str(machine.project.top),
            "BASE": base,
        }
        command = ["bash", "-c", step["run"]]
        return machine.run(command, check=False, cwd=temp / "clone", env=env)


def test_the_scripts_are_plain_shell(tmp_path: Path) -> None:
    for name in ("hook", "publish"):
        file = executable(tmp_path / name, script(name))
        assert file.read_text().startswith("#!/bin/sh\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o755
        subprocess.run(["sh", "-n", str(file)], check=True)
