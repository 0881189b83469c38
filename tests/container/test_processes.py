# SPDX-License-Identifier: Apache-2.0
"""Every process of a call ends with it, however it tried to stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandbox.results import Ending
from tests.container.lab import READ, WRITE, Lab, after, wait_for

MARK = "264.25"
"""What a process that tries to stay has in its arguments."""
STAYING = {
    "a background process": f"sleep {MARK} &",
    "a new session": f"setsid sleep {MARK} &",
    "without the hang-up signal": f"nohup sleep {MARK} >/dev/null 2>&1 &",
    "disowned": f"sleep {MARK} & disown -a",
    "a double fork": f"( ( setsid sleep {MARK} & ) & )",
    "a co-process": f"coproc sleep {MARK}",
    "with its streams closed": f"setsid sleep {MARK} <&- >&- 2>&- &",
    "signals ignored": f"(trap '' TERM HUP INT QUIT; exec sleep {MARK}) &",
    "stopped": f"sleep {MARK} & kill -STOP $!",
    "a daemon": (
        "python3 -c 'import os, sys, time\n"
        "if os.fork(): sys.exit()\n"
        "os.setsid()\n"
        "if os.fork(): sys.exit()\n"
        f'os.execvp("sleep", ["sleep", "{MARK}"])\''
    ),
    "respawning": f"(while :; do setsid sleep {MARK} & sleep 0.01; done) &",
    "after its host was killed": f"setsid sleep {MARK} & kill -KILL $PPID; sleep 0.3",
    "after everything was killed": f"setsid sleep {MARK} & sleep 0.05; kill -KILL -1",
}


def marked(lab: Lab) -> list[str]:
    """Return the processes in the cell that tried to stay."""
    return [one for one in lab.processes() if MARK in one]


@pytest.mark.parametrize("access", [READ, WRITE])
def test_no_process_outlives_its_call(lab: Lab, access: str) -> None:
    found = {}
    for what, command in STAYING.items():
        heard: list[list[str]] = []

        def look(_stream: str, data: bytes, heard: list[list[str]] = heard) -> None:
            if b"look" in data:
                heard.append(marked(lab))

        if "kill -KILL" not in command:  # the control: while the call runs, the process is there
            lab.sh(
                f"{command}\nsleep 0.05; echo look; read x",
                access,
                stdin=_line(heard),
                on_output=look,
            )
            assert heard[0] != [], what
        done = lab.sh(command, access)
        found[what] = (done.ending, marked(lab), lab.sh("echo on", access).stdout)
    assert found == dict.fromkeys(STAYING, (Ending.RAN, [], "on\n"))


async def _line(heard: list[list[str]]) -> AsyncIterator[bytes]:
    """Give a line once the look was taken."""
    while not heard:
        await asyncio.sleep(0.005)
    yield b"\n"


def test_a_fork_bomb_ends_with_its_call(lab: Lab) -> None:
    for access in (READ, WRITE):
        done = lab.sh(
            "bomb() { bomb | bomb & }; bomb; sleep 1; echo survived", access, timeout=4000
        )
        assert done.ending in (Ending.RAN, Ending.TIMED_OUT)
        wait_for(lambda: not any("bomb" in one for one in lab.processes()), "the bomb is gone")
        assert lab.sh("echo on").stdout == "on\n"


def test_processes_of_another_reading_call_are_left_alone(lab: Lab) -> None:
    async def two() -> tuple[int | None, str]:
        heard, over = asyncio.Event(), asyncio.Event()

        def on(_stream: str, _data: bytes) -> None:
            heard.set()

        long = asyncio.ensure_future(
            lab.call("echo x; read x; echo whole", READ, stdin=after(over), on_output=on)
        )
        await heard.wait()
        short = await lab.call("setsid sleep 265 & sleep 262", READ, timeout=200)
        over.set()
        return short.exit_status, (await long).stdout

    assert lab.run(two()) == (124, "x\nwhole\n")


def test_signals_to_everybody_do_not_reach_the_runner(lab: Lab) -> None:
    for signal in ("TERM", "INT", "HUP", "USR1", "STOP", "KILL"):
        lab.sh(f"kill -{signal} 1; kill -{signal} -1", timeout=3000)
        assert lab.sh("echo on").stdout == "on\n"


def test_a_command_that_ends_while_its_children_hold_the_output_returns_at_once(lab: Lab) -> None:
    done = lab.sh(f"echo first; sleep {MARK} &", timeout=200_000)
    assert (done.ending, done.stdout, done.exit_status) == (Ending.RAN, "first\n", 0)
