# SPDX-License-Identifier: Apache-2.0
"""What a call gives back: statuses, streams, limits, and several calls at once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from policy.model import Limits
from sandbox.cells.work import ON_DELAY
from sandbox.errors import BadInput
from sandbox.results import CallResult, Ending
from tests.container.conftest import MakeLab
from tests.container.lab import OWNERS, READ, WAIT_SECONDS, WRITE, Lab, after, repository


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


STATUSES = {
    "success": ("true", 0),
    "failure": ("exit 3", 3),
    "the last of a list": ("false; true", 0),
    "a pipe": ("false | true", 0),
    "not found": ("no-such-program", 127),
    "not executable": ("./README.md", 126),
    "a folder": ("./src", 126),
    "no interpreter": ("printf '#!/no/such\\n' > /tmp/x; chmod +x /tmp/x; /tmp/x", 127),
    "a syntax error": ("if", 2),
    "killed": ("kill -KILL $$", 137),
    "terminated": ("kill -TERM $$", 143),
    "interrupted": ("kill -INT $$", 130),
    "a fault": ("kill -SEGV $$", 139),
    "an abort of a child": ("bash -c 'kill -ABRT $$'", 134),
    "beyond a byte": ("exit 259", 3),
}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("access", [READ, WRITE])
def test_the_status_is_as_the_shell_gives_it(lab: Lab, access: str) -> None:
    found = {what: lab.sh(command, access).exit_status for what, (command, _) in STATUSES.items()}
    assert found == {what: status for what, (_, status) in STATUSES.items()}


def test_what_no_cell_can_do_says_why(lab: Lab) -> None:
    assert lab.sh("true").message == ""
    assert "--for go" in lab.sh("go version").message
    assert "has no network" in lab.sh("git clone -q https://host.invalid/x.git").message
    assert "nothing listens there" in lab.sh("curl -sS http://localhost:9").message
    assert lab.sh("python3 -c 'import no_such_module'").message == ""


def test_output_streams_in_order_while_the_command_runs(lab: Lab) -> None:
    heard: list[tuple[str, bytes]] = []

    async def stdin() -> AsyncIterator[bytes]:
        # Each line is sent only after the answer to the one before was heard.
        for count in range(1, 4):
            yield b"go\n"
            while len(heard) < count:
                await asyncio.sleep(0.005)

    done = lab.sh(
        "read x; printf one; read x; printf two >&2; read x; printf three",
        stdin=stdin(),
        on_output=lambda stream, data: heard.append((stream, data)),
    )
    assert heard == [("stdout", b"one"), ("stderr", b"two"), ("stdout", b"three")]
    assert (done.stdout, done.stderr) == ("onethree", "two")


@pytest.mark.parametrize("access", [READ, WRITE])
def test_five_megabytes_pass_through_a_command_unchanged(lab: Lab, access: str) -> None:
    data = bytes(range(256)) * 20_480
    heard = bytearray()
    done = lab.sh(
        "tee /tmp/copy; sha256sum < /tmp/copy >&2",
        access,
        stdin=data,
        on_output=lambda stream, piece: heard.extend(piece) if stream == "stdout" else None,
    )
    assert done.exit_status == 0
    assert bytes(heard) == data
    assert done.stderr.startswith(hashlib.sha256(data).hexdigest())


def test_input_may_be_text_and_what_is_neither_is_refused_before_anything_runs(lab: Lab) -> None:
    assert lab.sh("cat", stdin="gr\u00fc\u00dfe\n").stdout == "gr\u00fc\u00dfe\n"
    with pytest.raises(TypeError, match="`stdin` is text, bytes or an async iterator of bytes"):
        lab.sh("echo ran > ran.txt", stdin=7)
    assert not (lab.ws / "ran.txt").exists()


def test_a_command_that_closes_its_input_early_ends_well(lab: Lab) -> None:
    done = lab.sh("head -c 3; exec < /dev/null; echo; echo done", stdin=b"abc" + b"x" * 5_000_000)
    assert (done.exit_status, done.stdout) == (0, "abc\ndone\n")
    assert lab.sh("cat", stdin=b"again").stdout == "again"


def test_a_command_may_end_while_its_input_goes_on(lab: Lab) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100
            await asyncio.sleep(0.001)

    assert lab.sh("head -c 1000 | wc -c", stdin=endless()).stdout == "1000\n"


def test_without_input_a_command_reads_nothing(lab: Lab) -> None:
    assert lab.sh("cat; echo end").stdout == "end\n"
    assert lab.sh("test -t 0 || test -t 1 || echo none").stdout == "none\n"


def test_the_clock_of_a_call_is_the_hosts(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    lab = make_lab()
    for call in (lab.sh, lab.read):
        assert call("date +%Z%z").stdout == "JST+0900\n"
    assert lab.tool("Read", file_path="README.md").exit_status == 0
    assert lab.sh("TZ=America/New_York date -d 2026-01-01 +%Z").stdout == "EST\n"


def test_a_command_starts_in_the_workspace_or_the_folder_that_is_named(lab: Lab) -> None:
    (lab.ws / "sp ace'd").mkdir()
    assert lab.read("pwd").stdout == f"{lab.ws}\n"
    for name in ("src/deep", "sp ace'd"):
        assert lab.read("pwd", cwd=f"{lab.ws}/{name}").stdout == f"{lab.ws}/{name}\n"
    missing = lab.read("pwd", cwd=f"{lab.ws}/none")
    assert (missing.exit_status, missing.stdout) == (125, "")
    assert missing.stderr == f"lockgate: directory `{lab.ws}/none`: No such file or directory\n"
    file = lab.sh("pwd", cwd=f"{lab.ws}/README.md")
    assert file.stderr == f"lockgate: directory `{lab.ws}/README.md`: Not a directory\n"
    outside = lab.read("pwd", cwd=f"{lab.ws.parent}/lab0")
    assert "No such file or directory" in outside.stderr


@pytest.mark.parametrize("access", [READ, WRITE])
def test_the_time_limit_ends_a_call_with_status_124(lab: Lab, access: str) -> None:
    stays = "trap '' TERM INT HUP; echo before; setsid sleep 262 & sleep 262; echo after"
    done = lab.sh(stays, access, timeout=500)
    if not done.stdout:  # a busy machine had not begun it by then
        done = lab.sh(stays, access, timeout=30_000)
    assert (done.ending, done.exit_status, done.stdout) == (Ending.TIMED_OUT, 124, "before\n")
    assert done.message == "the time limit ended it"
    assert not any("sleep" in one for one in lab.processes())
    assert lab.sh("echo on", access).stdout == "on\n"


def test_the_time_limit_of_the_rights_holds_whatever_the_call_says(make_lab: MakeLab) -> None:
    lab = make_lab(limits=Limits(seconds=0.5))
    done = lab.sh("sleep 262", timeout=200_000)
    assert (done.ending, done.exit_status) == (Ending.TIMED_OUT, 124)


def test_long_output_is_cut_with_a_note_and_the_whole_is_in_a_file(make_lab: MakeLab) -> None:
    lab = make_lab(limits=Limits(answer_bytes=1000))
    done = lab.sh("seq 100000; seq 5 >&2")
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    assert done.stdout_file is not None
    assert Path(done.stdout_file).read_text() == whole
    assert done.stdout == whole[:1000] + (
        f"\n[lockgate: {len(whole)} bytes were written, 1000 are shown; "
        f"the whole is in {done.stdout_file}]\n"
    )
    assert (done.stderr, done.stderr_file) == ("1\n2\n3\n4\n5\n", None)
    assert Path(done.stdout_file).parent.stat().st_mode & 0o077 == 0


def test_all_output_of_a_call_is_kept(lab: Lab) -> None:
    done = lab.sh("echo out; echo err >&2; head -c 100000 /dev/zero")
    lab.run(lab.supervisor._record.flush())
    kept = lab.supervisor._record.store.output(done.id)
    assert kept == (b"out\n" + bytes(100_000), b"err\n")


def test_a_flood_is_ended_and_the_call_says_so(make_lab: MakeLab) -> None:
    lab = make_lab(limits=Limits(output_bytes=2_000_000, answer_bytes=100))
    done = lab.sh("yes; echo never > never.txt")
    assert done.ending is Ending.FLOODED
    assert done.message == "it wrote more than 2000000 bytes and was ended"
    assert done.stdout_file is not None
    assert Path(done.stdout_file).stat().st_size <= 2_000_000
    assert not (lab.ws / "never.txt").exists()
    assert not any("yes" in one for one in lab.processes())
    assert lab.sh("echo on").stdout == "on\n"


def test_a_flood_of_errors_is_ended_too(make_lab: MakeLab) -> None:
    lab = make_lab(limits=Limits(output_bytes=2_000_000, answer_bytes=100))
    assert lab.read("yes >&2").ending is Ending.FLOODED


def test_output_is_made_safe_for_a_terminal_and_kept_byte_for_byte(lab: Lab) -> None:
    raw = b"a\0b\xff\xfe\xc3(c \x1b]0;title\x07 \x1b[31mred\x1b[0m \x1b[2J \rover\b\b\n"
    heard = bytearray()
    done = lab.sh(
        "head -c 1000",
        stdin=raw,
        on_output=lambda _, data: heard.extend(data),
    )
    assert bytes(heard) == raw
    assert done.stdout == (
        "a\\x00b\ufffd\ufffd\ufffd(c \\x1b]0;title\\x07 \x1b[31mred\x1b[0m "
        "\\x1b[2J \\x0dover\\x08\\x08\n"
    )
    lab.run(lab.supervisor._record.flush())
    assert lab.supervisor._record.store.output(done.id)[0] == raw


def test_output_that_looks_like_a_frame_is_output(lab: Lab) -> None:
    frame = b'\0\0\0\x2e\0{"op":"exit","call":1,"status":0,"oom":false}'
    block = b"\x01\0\0\0\0\0\0\x05hello"
    done = lab.sh("cat; cat >&2 < /dev/null; exit 7", stdin=(frame + block) * 3)
    assert done.exit_status == 7
    lab.run(lab.supervisor._record.flush())
    assert lab.supervisor._record.store.output(done.id)[0] == (frame + block) * 3


def test_bad_input_is_one_clear_line(make_lab: MakeLab) -> None:
    lab = make_lab()
    bad = {
        "echo a\0b": "the command holds a NUL byte, which no program can be given; remove it",
        "#" + "x" * 1_000_000: "the command is 1000001 bytes long, the kernel takes 131071; "
        "write it to a file in the workspace and run that",
    }
    for command, message in bad.items():
        with pytest.raises(BadInput) as caught:
            lab.sh(command)
        assert str(caught.value) == message
    with pytest.raises(BadInput, match="is no name of an environment variable"):
        lab.sh("true", env={"A B": "x"})
    with pytest.raises(BadInput, match="holds a NUL byte"):
        lab.sh("true", env={"A": "x\0y"})
    with pytest.raises(BadInput, match="is not a registered workspace"):
        lab.sh("true", workspace="/somewhere/else")
    assert lab.containers() == []  # nothing was started for any of them


def test_the_longest_command_that_the_kernel_takes_runs(lab: Lab) -> None:
    command = "echo " + "x" * 131_066
    assert len(command) == 131_071
    assert len(lab.sh(command).stdout) == 131_067


def test_what_runs_is_byte_for_byte_what_was_given(lab: Lab) -> None:
    command = (
        "cat /proc/self/cmdline > /tmp/c; tr '\\0' '\\n' < /proc/$$/cmdline | tail -n +3 #é\t\\n"
    )
    assert lab.sh(command).stdout == command + "\n"


def test_many_reading_calls_run_at_once(lab: Lab) -> None:
    count = 8
    meet = (
        "touch /tmp/meet.$$; for i in $(seq 2400); do "
        f"[ $(ls /tmp/meet.* | wc -l) -ge {count} ] && echo met && exit; sleep 0.05; done"
    )

    async def all_of_them() -> list[str]:
        calls = (lab.call(meet, READ) for _ in range(count))
        return [one.stdout for one in await asyncio.gather(*calls)]

    assert lab.run(all_of_them()) == ["met\n"] * count
    assert len(lab.containers("cell")) == 1


def test_a_writing_call_has_the_cell_alone(lab: Lab) -> None:
    """Two that read may run side by side, as they do where they come to wait beside each other."""
    meets = "ls -d /tmp/reads.* 2>/dev/null && echo overlap"
    writes = f"mkdir /tmp/alone || echo overlap; {meets}; sleep 0.1; {meets}; rmdir /tmp/alone"
    looks = "test ! -e /tmp/alone || echo overlap"
    reads = f"touch /tmp/reads.$$; {looks}; sleep 0.1; {looks}; rm /tmp/reads.$$"

    async def at_once() -> list[str]:
        texts = {WRITE: writes, READ: reads}
        order = (WRITE, READ, WRITE, WRITE, READ, WRITE)
        calls = (lab.call(texts[access], access) for access in order)
        return [one.stdout for one in await asyncio.gather(*calls)]

    assert lab.run(at_once()) == [""] * 6


def test_writing_calls_run_in_the_order_in_which_they_began_to_wait(lab: Lab) -> None:
    async def in_a_row() -> None:
        last = asyncio.Event()

        async def held_up() -> AsyncIterator[bytes]:
            await last.wait()
            yield b"0\n"

        calls = [asyncio.ensure_future(lab.call("cat >> order.txt", stdin=held_up()))]
        for n in range(1, 10):
            calls.append(asyncio.ensure_future(lab.call(f"echo {n} >> order.txt")))
            while len(lab.supervisor.running()) <= n:
                await asyncio.sleep(0.01)
        last.set()
        await asyncio.gather(*calls)

    lab.run(in_a_row())
    assert lab.text("order.txt").split() == [str(n) for n in range(10)]


def test_a_call_that_is_cancelled_while_it_waits_leaves_the_others_alone(lab: Lab) -> None:
    async def race() -> tuple[bool, bool]:
        heard = asyncio.Event()
        first = asyncio.ensure_future(
            lab.call("echo a > a; echo x; sleep 0.5", on_output=lambda *_: heard.set())
        )
        await heard.wait()
        second = asyncio.ensure_future(lab.call("echo b > b"))
        third = asyncio.ensure_future(lab.call("echo c > c"))
        await asyncio.sleep(0)
        second.cancel()
        return (await first).landed, (await third).landed

    assert lab.run(race()) == (True, True)
    assert [(lab.ws / name).exists() for name in "abc"] == [True, False, True]


def test_a_background_call_serves_the_calls_after_it_and_lands_when_ended(lab: Lab) -> None:
    started = lab.sh(
        "echo serving > served.txt; exec python3 -m http.server 8125", run_in_background=True
    )
    assert (started.ending, started.exit_status) == (Ending.RUNNING, None)
    fetched = lab.sh(
        "for i in $(seq 1200); do curl -sf localhost:8125/README.md && break; sleep 0.05; done"
    )
    assert fetched.stdout == lab.text("README.md")
    assert [(one["id"], one["background"]) for one in lab.supervisor.running()] == [
        (started.id, True)
    ]
    assert not (lab.ws / "served.txt").exists()
    ended = lab.run(lab.supervisor.end(started.id))
    assert (ended.id, ended.ending, ended.landed) == (started.id, Ending.CANCELLED, True)
    assert lab.text("served.txt") == "serving\n"
    assert lab.supervisor.running() == []
    assert len(lab.containers("cell")) == 1
    with pytest.raises(BadInput, match="no background call"):
        lab.run(lab.supervisor.end(started.id))


def test_a_background_call_that_is_left_running_ends_with_the_supervisor(make_lab: MakeLab) -> None:
    lab = make_lab()
    started = lab.sh("sleep 263", run_in_background=True)
    assert started.ending is Ending.RUNNING  # the lab checks at its end that nothing is left


def test_several_workspaces_in_one_cell_land_together_or_not_at_all(
    make_lab: MakeLab, tmp_path: Path, owner: int
) -> None:
    first, second = repository(tmp_path / "a b", owner), repository(tmp_path / "it's", owner)
    lab = make_lab(first, second)
    both: dict[str, Any] = {"also": (str(second),)}
    done = lab.sh(f'echo 1 > one.txt; echo 2 > "{second}/two.txt"', **both)
    assert [one.path for one in done.changes] == ["one.txt", f"{second}/two.txt"]
    assert ((first / "one.txt").read_text(), (second / "two.txt").read_text()) == ("1\n", "2\n")
    refused = lab.sh(f'echo 3 > three.txt; echo x > "{second}/.devkit-waiver.yml"', **both)
    assert (refused.judgement, (first / "three.txt").exists()) == ("discard", False)
    lab.run(lab.supervisor.undo(done.id))
    assert not (first / "one.txt").exists()
    assert not (second / "two.txt").exists()


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("name", ["sp ace", "quo'te", 'dou"ble', "back\\slash", "ünïcode", "a:b,c"])
def test_a_workspace_may_have_any_name(
    make_lab: MakeLab, tmp_path: Path, owner: int, name: str
) -> None:
    lab = make_lab(repository(tmp_path / name, owner))
    done = lab.sh("pwd; echo x > new.txt; git status --short")
    assert done.stdout == f"{lab.ws}\n?? new.txt\n"
    assert done.landed
    assert lab.read("cat new.txt").stdout == "x\n"


def test_a_call_that_waits_for_another_says_for_which(lab: Lab) -> None:
    before = lab.sh("echo 1 > before.txt")
    states: dict[str, str] = {}
    told: list[str] = []

    async def look_until(seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not seen():
                await asyncio.sleep(0.02)
                states.update({call["id"]: call["state"] for call in lab.supervisor.running()})

    async def work() -> list[CallResult]:
        over = asyncio.Event()
        first = asyncio.create_task(
            lab.call("cat > first.txt", stdin=after(over), call_id="first"), context=Context()
        )
        await look_until(lambda: states.get("first") == "runs")
        ON_DELAY.set(told.append)
        second = asyncio.create_task(lab.call("cat first.txt > second.txt", call_id="second"))
        await look_until(lambda: bool(told))
        undone = await lab.supervisor.undo(before.id)  # what runs holds no undo up
        assert (undone.undone, lab.ws.joinpath("before.txt").exists()) == (before.id, False)
        over.set()
        return [await first, await second]

    results = lab.run(work())
    assert [result.landed for result in results] == [True, True]
    why = "call `first` of agent `main`, which runs"
    assert (states["second"], told) == (f"waits for {why}", [f"it waits for {why}"])
    assert lab.supervisor.running() == []
