# SPDX-License-Identifier: Apache-2.0
"""A project's environment, made with an interpreter of the person's home, works in a cell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sandbox.projects.toolchain_trial import try_toolchains
from sandbox.projects.toolchains import ToolchainRecord
from sandbox.workspaces.registry import Registry
from tests.container.conftest import MakeLab
from tests.container.lab import Lab, repository

TEST = "import sys\n\ndef test_it():\n    assert sys.base_prefix == {prefix!r}\n"
PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")


def interpreter(prefix: Path) -> None:
    """Copy the interpreter of the tests to a folder in which it finds itself."""
    name = f"python3.{sys.version_info.minor}"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    base = sys._base_executable  # type: ignore[attr-defined]
    libraries = os.fsencode(sysconfig.get_config_var("LIBDIR"))
    beside = b"$ORIGIN/../lib"  # where a shared one looks for its library
    program = Path(base).resolve().read_bytes()
    (prefix / "bin" / name).write_bytes(
        program.replace(libraries + b"\0", beside.ljust(len(libraries), b"\0") + b"\0")
    )
    (prefix / "bin" / name).chmod(0o755)
    (prefix / "bin/python3").symlink_to(name)
    shared = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY") or "")
    if shared.name.endswith(".so"):
        for file in shared.parent.glob(f"{shared.name}*"):
            shutil.copy(file, prefix / "lib")
    left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__")
    shutil.copytree(sysconfig.get_path("stdlib"), prefix / "lib" / name, ignore=left_out)
    (prefix / "lib" / name / "server.pem").write_text("planted-in-toolchain\n")


def environment(ws: Path, prefix: Path) -> None:
    """Make a virtual environment with that interpreter, in which pytest is installed."""
    subprocess.run(
        [prefix / "bin/python3", "-m", "venv", "--without-pip", ws / ".venv"],
        check=True,
    )
    (packages,) = (ws / ".venv/lib").glob("python3*/site-packages")
    for one in PYTEST:
        found = Path(sysconfig.get_path("purelib"), one)
        if found.is_dir():
            shutil.copytree(found, packages / one)
        elif found.is_file():
            shutil.copy(found, packages / one)
    (ws / "test_it.py").write_text(TEST.format(prefix=str(prefix)))


@pytest.fixture
def lab(make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int) -> Lab:
    """Return a lab whose person has pyenv in a home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id_rsa").write_text("planted-in-home\n")
    interpreter(tmp_path / "home/.pyenv/versions/3.x")
    ws = repository(tmp_path / "home/work", owner)
    environment(ws, tmp_path / "home/.pyenv/versions/3.x")
    found = make_lab(ws)
    Registry(found.dirs).add(ws)
    return found


def test_the_projects_own_python_works_once_a_person_agreed(lab: Lab, tmp_path: Path) -> None:
    home = tmp_path / "home"
    python = f"{home}/.pyenv/versions/3.x"
    assert lab.read(".venv/bin/python -c 'print(1)'").exit_status == 127

    record = ToolchainRecord(lab.dirs)
    record.agree(str(lab.ws), (python,))
    shown = record.shown((str(lab.ws),))
    assert [one.path for one in shown] == [python]
    ran = lab.read(".venv/bin/python -c 'import sys; print(sys.base_prefix)'")
    assert (ran.exit_status, ran.stdout) == (0, f"{python}\n")
    tests = lab.sh(".venv/bin/python -m pytest -q -p no:cacheprovider")
    assert "1 passed" in tests.stdout, tests.stdout + tests.stderr

    # It is read-only, what is secret in it is hidden, and nothing else of the home is there.
    assert (home / ".ssh/id_rsa").read_text() == "planted-in-home\n"
    wrote = lab.sh(f"echo x > {python}/bin/python3; echo x > {python}/new")
    assert wrote.stderr.count("Read-only file system") == 2
    (secret,) = Path(python).rglob("server.pem")
    assert secret.read_text() == "planted-in-toolchain\n"
    assert lab.read(f"cat {secret}").stdout == ""
    assert lab.read(f"ls -A {home} {home}/.pyenv {home}/.pyenv/versions").stdout.split() == [
        f"{home}:", ".pyenv", "work", f"{home}/.pyenv:", "versions",
        f"{home}/.pyenv/versions:", "3.x",
    ]  # fmt: skip

    # What an agent writes into the environment shows nothing more.
    lab.sh(f"echo 'home = {home}/.ssh' > .venv/pyvenv.cfg")
    assert lab.read(f"cat {home}/.ssh/id_rsa").exit_status == 1

    record.agree(str(lab.ws), ())
    assert lab.read(".venv/bin/python -c 'print(1)'").exit_status == 127


def test_an_interpreter_that_lacks_a_library_is_told(
    docker_client: object, images: object, lab: Lab, tmp_path: Path
) -> None:
    python = tmp_path / "home/.pyenv/versions/3.x"
    record = ToolchainRecord(lab.dirs)
    record.agree(str(lab.ws), (str(python),))
    home = str(tmp_path / "home")
    assert try_toolchains(lab.dirs, home, record.shown((str(lab.ws),))) == []
    program = python / "bin/python3"
    program.unlink()
    program.write_text("#!/lib/no-such-interpreter\n")
    program.chmod(0o755)
    (line,) = try_toolchains(lab.dirs, home, record.shown((str(lab.ws),)))
    assert "does not work wholly in the cell's image: " in line
    assert "not found" in line or "No such file" in line
