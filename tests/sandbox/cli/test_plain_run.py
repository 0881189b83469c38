# SPDX-License-Identifier: Apache-2.0
"""The installed `lockgate run`, which is thin, against the whole program: what each call shows,
returns and sends is the same, and what is not plain is handed over."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.cli.calls.making import text_of
from sandbox.text.plain import PlainStream, plain_line
from sandbox.text.terminal import SafeStream, safe_line
from tests.fakes import Served, wait_for
from tests.sandbox.shells import ROOT, WAIT_SECONDS, Shell

HEAVY = {
    "click",
    "re",
    "enum",
    "json",
    "site",
    "signal",
    "socket",
    "typing",
    "pathlib",
    "selectors",
}
"""What makes a program slow that is run all day."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script `lockgate` as pip puts it beside the other one."""
    prefix = tmp_path_factory.mktemp("an installation")
    place = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (prefix / place).mkdir(parents=True)
    (prefix / place / "_editable_impl_lockgate.pth").write_text(f"{ROOT}\n")
    (prefix / "bin").mkdir()
    (prefix / "bin/lockgate-shell").write_text(f"#!{sys.executable}\n")
    script = prefix / "bin/lockgate"
    script.write_bytes((ROOT / "sandbox/cli/lockgate").read_bytes())
    script.chmod(0o755)
    return script


@pytest.fixture
def thin(shell: Shell, installed: Path) -> Shell:
    """Return a shell over the same folders that starts the installed script."""
    other = object.__new__(Shell)
    other.__dict__.update(shell.__dict__, program=(str(installed),))
    return other


CALLS: dict[str, tuple[list[str], bytes | None]] = {
    "status 0": (["exit 0"], None),
    "another status": (["exit 3"], None),
    "a signal's": (["exit 137"], None),
    "too late": (["late"], None),
    "denied": (["deny"], None),
    "nobody to ask": (["ask"], None),
    "stopped": (["stopped"], None),
    "the sandbox fails": (["broken"], None),
    "a defect": (["crash"], None),
    "held": (["hold"], None),
    "landed": (["land"], None),
    "landed, quietly": (["-q", "land"], None),
    "output": (["--", "say", "hi there"], None),
    "output with letters": (["say", "schöner Gruß"], None),
    "unsafe output": (["bytes"], None),
    "raw output": (["--raw", "bytes"], None),
    "much output": (["flood 3"], None),
    "input": (["cat"], b"one\ntwo\n\xff" * 100_000),
    "json": (["--json", "say é"], None),
    "background": (["--background", "background serve"], None),
    "quoting": (["nothing", "a b", "--flag", "it's", "", "é", "$x"], None),
    "options": (
        ["--agent=coder", "--role", "Critic", "--cwd", ".", "--intent", "a b", "exit 0"],
        None,
    ),
    "options of a program": (["exit", "--agent", "-q"], None),
    "a task and a user": (["--task", "t1", "--user", "me", "-i", "exit 0"], None),
    "a workspace": (["-w", ".", "exit 0"], None),
    "a workspace that is not there": (["-w", "/nowhere", "exit 0"], None),
    "a ticket that is none": (["--ticket", "none"], None),
    # the whole program's
    "no command": ([], None),
    "no option": (["--no-such", "exit 0"], None),
    "an option cut short": (["--work", ".", "exit 0"], None),
    "an option twice": (["--agent", "a", "--agent", "b", "exit 0"], None),
    "an empty option": (["--agent", " ", "exit 0"], None),
    "an option without a value": (["--agent"], None),
    "short options together": (["-qi", "exit 0"], None),
    "a time limit": (["--timeout", "2.5", "exit 0"], None),
    "no time limit": (["--timeout", "0", "exit 0"], None),
    "variables": (["--env", "A=1=2", "--env", "B=", "exit 0"], None),
    "no yes": (["--yes", "ask"], None),
    "waiting": (["--wait", "exit 0"], None),
    "help": (["--help"], None),
}  # fmt: skip


def run(shell: Shell, running: Served, words: list[str], data: bytes | None) -> tuple[object, ...]:
    """Return what a call showed, and what of it came to the supervisor."""
    fake = running.fake
    before = len(fake.plans)
    with shell.start(
        "run", *words, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE
    ) as process:
        out, err = process.communicate(data, timeout=WAIT_SECONDS)
    said = [re.sub(rb"\bc\d+\b", b"CALL", one) for one in (out, err)]
    came = [list(all_[before:]) for all_ in (fake.plans, fake.environments, fake.shown)]
    return process.returncode, *said, *came


@pytest.mark.parametrize("words, data", CALLS.values(), ids=CALLS)
def test_both_programs_do_the_same(
    shell: Shell, thin: Shell, running: Served, words: list[str], data: bytes | None
) -> None:
    assert run(thin, running, words, data) == run(shell, running, words, data)


TERMINALS = {
    "output": (["say é \x1b[31mred"], {"NO_COLOR": "1"}),
    "output where only ASCII is wanted": (["say é \x1b[31mred"], {"LC_ALL": "C"}),
    "a question": (["ask rm x"], {"NO_COLOR": "1"}),
    "a question to an agent": (["ask rm x"], {"LOCKGATE_AGENT": "a:b"}),
    "a landing": (["land"], {}),
}


@pytest.mark.parametrize("words, env", TERMINALS.values(), ids=TERMINALS)
def test_both_programs_do_the_same_at_a_terminal(
    shell: Shell, thin: Shell, running: Served, words: list[str], env: dict[str, str]
) -> None:
    typing = [(b"[yes/no]", b"yes\n")]
    found = [one.at_terminal("run", *words, typing=typing, env=env) for one in (thin, shell)]
    (status, shown), other = [(a, re.sub(r"\bc\d+\b", "CALL", b)) for a, b in found]
    assert (status, shown) == other
    assert ("Lockgate asks" in shown) == (words == ["ask rm x"] and "LOCKGATE_AGENT" not in env)


def test_both_programs_take_the_second_name_of_a_command(
    shell: Shell, thin: Shell, running: Served, tmp_path: Path
) -> None:
    (tmp_path / "lockgate-shell").symlink_to(thin.program[0])
    thin.program = (str(tmp_path / "lockgate-shell"),)
    with thin.start("-c", "exit 4") as process:
        assert (*process.communicate(timeout=WAIT_SECONDS), process.returncode) == (b"", b"", 4)


PLAIN = {"run": ["run", "--", "exit", "0"], "run with a message": ["run", "land"]}


@pytest.mark.parametrize("words", PLAIN.values(), ids=PLAIN)
def test_a_plain_call_loads_nothing_heavy(thin: Shell, running: Served, words: list[str]) -> None:
    thin.program = (sys.executable, "-I", "-S", "-X", "importtime", thin.program[0])
    status, _, err = thin(*words)
    names = {line.rpartition("|")[2].strip() for line in err.split("\n") if "|" in line}
    assert (status, names & HEAVY) == (0, set())
    assert "sandbox.cli.calls.plain_run" in names  # it was this program that did it


def test_another_version_is_the_whole_programs_business(thin: Shell, running: Served) -> None:
    assert running.server is not None
    running.server.freshness.code = "another"
    assert running.server.code is not None
    running.server.code.close()
    running.fake.background.append({"id": "c1", "agent": "main"})
    status, _, err = thin("run", "exit 0")
    assert (status, running.fake.plans) == (125, [])
    assert "runs other code or settings than this program" in err


def test_other_settings_are_the_whole_programs_business(thin: Shell, running: Served) -> None:
    thin.dirs.config.mkdir(parents=True, exist_ok=True)
    thin.dirs.settings.write_text("limits: {seconds: 9}\n")
    running.fake.background.append({"id": "c1", "agent": "main"})
    status, _, err = thin("run", "exit 0")
    assert (status, running.fake.plans) == (125, [])
    assert "runs other code or settings than this program" in err
    thin.dirs.settings.write_text("{}\n")
    status, _, err = thin("run", "exit 0")
    assert (status, len(running.fake.plans)) == (0, 1)
    assert "goes on with the settings that it began with" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_signal_ends_the_call(thin: Shell, running: Served, number: signal.Signals) -> None:
    with thin.start("run", "wait") as process:
        assert running.fake.started.wait(WAIT_SECONDS)
        process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_SECONDS)
    wait_for(lambda: running.fake.cancelled == ["c1"], "cancelled")
    interrupted = number is signal.SIGINT
    assert process.returncode == (130 if interrupted else -number)
    assert (b"cancelled: the command was ended" in err) == interrupted


def test_a_reader_that_leaves_ends_the_call(thin: Shell, running: Served) -> None:
    with thin.start("run", "flood 100") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) == 141
        assert process.stderr.read() == b""


def test_a_script_without_its_python_blocks_a_hook(installed: Path, tmp_path: Path) -> None:
    alone = tmp_path / "lockgate"
    alone.write_bytes(installed.read_bytes())
    alone.chmod(0o755)
    words = [str(alone), "hook", "codex"]
    done = subprocess.run(words, capture_output=True, check=False, input=b"{}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"install Lockgate again" in done.stderr


@pytest.mark.parametrize("line", ['\'\'\'exec\' "{}" "$0" "$@"', "'''exec' '{}' \"$0\" \"$@\""])
def test_an_interpreter_with_a_long_path_is_found(
    installed: Path, tmp_path: Path, line: str
) -> None:
    home = tmp_path / "with blanks"
    home.mkdir()
    (home / "python").symlink_to(sys.executable)
    (tmp_path / "lockgate-shell").write_text(f"#!/bin/sh\n{line.format(home / 'python')}\n' '''\n")
    (tmp_path / "lockgate").symlink_to(installed)  # its Python is named beside the real one
    copied = tmp_path / "copied/bin"
    copied.mkdir(parents=True)
    for name in ("lockgate", "lockgate-shell"):
        (copied / name).write_bytes((tmp_path / name).read_bytes())
    (copied / "lockgate").chmod(0o755)
    (copied.parent / "lib").symlink_to(installed.parents[1] / "lib")
    for script in (copied / "lockgate", tmp_path / "lockgate"):
        words = [str(script), "hook", "--help"]
        done = subprocess.run(
            words, capture_output=True, check=True, env={"PATH": os.environ["PATH"]}
        )
        assert done.stdout.startswith(b"Usage: lockgate hook")


QUOTED = ["a", "a b", "", "it's", "$x", "é", "-", "a/b=c,d:e@f%g+h", "~", "\n", "'", "a\\b", "*"]


@pytest.mark.parametrize("word", QUOTED)
def test_words_are_quoted_as_the_shell_reads_them(word: str) -> None:
    assert text_of(["x", word]) == shlex.join(["x", word])


PIECES = [
    b"plain\n",
    b"\xc3",
    b"\xa9",
    b"\x1b[3",
    b"1mred",
    b"\x1b[0m",
    b"\r",
    b"\n",
    b"\x00",
    b"\t",
]


@pytest.mark.parametrize("first", PIECES)
@pytest.mark.parametrize("second", PIECES)
def test_a_plain_stream_shows_what_a_safe_one_does(first: bytes, second: bytes) -> None:
    plain, safe = PlainStream(), SafeStream()
    for piece in (b"a", first, second, b"z"):
        assert plain.feed(piece) == safe.feed(piece).encode()
    assert plain.close() == safe.close().encode()


@pytest.mark.parametrize("text", ["plain", "", "é", "a\tb", "\x1b[0m", "\u202e", "\x7f", "~"])
def test_a_plain_line_is_a_safe_one(text: str) -> None:
    assert plain_line(text) == safe_line(text)
