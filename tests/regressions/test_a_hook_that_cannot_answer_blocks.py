# SPDX-License-Identifier: Apache-2.0
"""An agent takes a hook that ends with 0 and says nothing, or with 1, for a yes.

So did a hook whose standard output was closed, and one whose Python could not start: because of the
agent's environment (PYTHONHOME), a limit on open files, or a folder as standard input. And a folder
that the environment names for imports (PYTHONPATH) may be one that the agent writes.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sandbox.connect.edits import GUARDED, Places
from sandbox.host.relaunch import environment, program
from tests.sandbox.hooks.test_hook_entry import EVENT, GOOD, blocks, home, hook, says, serving

__all__ = ["home"]
WAIT_SECONDS = 120
ROOT = Path(__file__).parents[2]
SILENT = {**GOOD, "stdout": ""}


def line(words: tuple[str, ...]) -> str:
    """Return the command that `connect` writes for a hook which is started with these words."""
    return Places(Path("/"), None, words).line("codex")


def run(command: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    streams: dict[str, Any] = {"input": EVENT, "stdout": subprocess.PIPE}
    return subprocess.run(
        ["/bin/sh", "-c", command],
        **{**streams, **options},
        stderr=subprocess.PIPE,
        timeout=WAIT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("status", [1, 3, 77, 126, 127, 137, 255])
def test_a_hook_that_ends_with_any_other_status_is_a_block(status: int) -> None:
    done = run(line(("/bin/sh", "-c", f"exit {status}")))
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", GUARDED.encode() + b"\n")


def test_a_hook_that_is_killed_is_a_block() -> None:
    assert blocks_with_a_reason(run(line(("/bin/sh", "-c", "kill -9 $$"))))


def test_a_hook_that_is_not_there_is_a_block() -> None:
    assert blocks_with_a_reason(run(line(("/nowhere/lockgate",))))


def test_what_a_hook_says_itself_is_left_as_it_is() -> None:
    done = run(line(("/bin/sh", "-c", "cat; echo no >&2; exit 2")))
    assert (done.returncode, done.stdout, done.stderr) == (2, EVENT, b"no\n")
    done = run(line(("/bin/sh", "-c", "cat; echo yes >&2")))
    assert (done.returncode, done.stdout, done.stderr) == (0, EVENT, b"yes\n")


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_folder_of_the_program_may_have_any_name(tmp_path: Path, shell: str) -> None:
    folder = tmp_path / "a 'b' \"$c\" !d {e} ü"
    folder.mkdir()
    script = folder / "lockgate"
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o755)
    done = run(f"exec {shell} -c {shlex.quote(line((str(script),)))}")
    assert (done.returncode, done.stdout) == (0, b"hook codex\n")


def blocks_with_a_reason(done: subprocess.CompletedProcess[bytes]) -> bool:
    return done.returncode == 2 and not done.stdout and bool(done.stderr.strip())


def _no_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))


CANNOT_START: dict[str, dict[str, Any]] = {
    "Python's home is elsewhere": {"env": {"PYTHONHOME": "/nowhere"}},
    "hardly a file can be opened": {"preexec_fn": _no_files},
    "standard input is a folder": {"input": None, "stdin": os.open("/", os.O_RDONLY)},
}


@pytest.mark.parametrize("options", CANNOT_START.values(), ids=CANNOT_START)
def test_a_python_that_cannot_start_is_a_block(options: dict[str, Any]) -> None:
    python = (sys.executable, "-P", "-c", "print('yes')")
    assert run(line(python)).returncode == 0
    assert blocks_with_a_reason(run(line(python), **options))


@pytest.mark.parametrize("stream", ["closed", os.devnull])
def test_an_answer_that_nobody_reads_is_a_block(home: Path, stream: str) -> None:
    options: dict[str, Any] = {"stdout": None, "preexec_fn": lambda: os.close(1)}
    with serving(home, says(GOOD)), Path(os.devnull).open("wb") as nowhere:
        done = hook(home, **(options if stream == "closed" else {"stdout": nowhere}))
        assert done.returncode == 2
        assert b"nobody reads the answer" in done.stderr
    with serving(home / "b", says(SILENT)):  # no opinion is an answer, too
        assert hook(home / "b", **options).returncode == 0


def test_standard_input_that_is_closed_is_a_block(home: Path) -> None:
    def asked(taken: Any) -> None:
        said = json.loads(taken.recv(1 << 20))["said"]
        says({"stdout": "", "stderr": f"{said!r} is no JSON\n", "status": 2})(taken)

    with serving(home, lambda taken: asked(taken)):
        assert blocks(hook(home, input=None, preexec_fn=lambda: os.close(0)))


def test_a_hook_ends_when_the_shell_around_it_does(home: Path, tmp_path: Path) -> None:
    asked, left = threading.Event(), threading.Event()

    def wait(taken: Any) -> None:
        taken.recv(1 << 20)
        asked.set()
        taken.recv(1)
        left.set()

    words = (sys.executable, "-P", str(tmp_path / "lockgate"))
    (tmp_path / "lockgate").write_text("from sandbox.cli.entry import main\nmain()\n")
    xdg = {f"XDG_{one}": str(home / one[0].lower()) for one in ("STATE_HOME", "CONFIG_HOME")}
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
        **xdg,
        "XDG_RUNTIME_DIR": str(home / "r"),
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    with serving(home, wait):
        with subprocess.Popen(
            Places(Path("/"), None, words).hook("codex"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
        ) as shell:
            assert shell.stdin is not None
            shell.stdin.write(EVENT)
            shell.stdin.close()
            assert asked.wait(WAIT_SECONDS)
            shell.send_signal(signal.SIGKILL)
        assert left.wait(WAIT_SECONDS)


def test_nothing_is_imported_from_where_the_environment_says(tmp_path: Path) -> None:
    for name in ("json", "socket", "sitecustomize", "sandbox"):
        (tmp_path / f"{name}.py").write_text("print('mine', flush=True)\nraise SystemExit(0)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = (*program(), "--version")
    if words[1] in ("-IS", "-EP"):  # Lockgate is installed in this interpreter
        done = subprocess.run(words, env=env, capture_output=True, check=False, text=True)
        assert (done.returncode, done.stdout[:9]) == (0, "lockgate ")
    heeding = [word for word in words if word not in ("-IS", "-EP")]  # the control
    done = subprocess.run(heeding, env=env, capture_output=True, check=False, text=True)
    assert done.stdout == "mine\n"


def test_programs_of_ours_that_it_starts_do_not_import_from_there_either(tmp_path: Path) -> None:
    given = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere", "PATH": "/bin"}
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from sandbox.host.relaunch import environment\n"
        "print(json.dumps(environment(json.loads(sys.argv[2]))))"
    )
    words = [sys.executable, "-EP", "-c", code, str(ROOT), json.dumps(given)]
    done = subprocess.run(words, capture_output=True, check=True)
    assert json.loads(done.stdout) == {"PATH": "/bin", "PYTHONPATH": str(ROOT)}
    kept = environment({"PYTHONPATH": str(tmp_path)})  # where it may be how Lockgate is found
    assert kept == {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
