# SPDX-License-Identifier: Apache-2.0
"""A writing call is watched: a protected path that appears ends it at once, and floods do not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from functools import partial

import psutil
import pytest

from sandbox.cli.calls.outcome import status_of
from sandbox.present.render import record
from sandbox.results import Ending
from tests.container.lab import Lab, eventually, give, wait_for
from tests.container.routes import ROUTES, take

WAIVER = ".devkit-waiver.yml"
LONG = 60
"""Seconds that a call would go on for if nobody ended it."""
APPEARS = {
    "it is written": f"echo x > {WAIVER}",
    "it is moved there": f"echo x > tmp1; mv tmp1 {WAIVER}",
    "it is a hard link": f"echo x > t; ln t {WAIVER}",
    "it is a symbolic link": f"ln -s README.md {WAIVER}",
    "it is a folder": f"mkdir {WAIVER}",
    "the folder that it lies in is renamed": f"mkdir d; echo x > d/{WAIVER}; mv d e",
    "it is written through a linked folder": f"ln -s src l; echo x > l/{WAIVER}",
    "it is spelled otherwise": "echo x > '.DevKit-Waiver.YML.'",
    "it is gone again": f"echo x > {WAIVER}; rm {WAIVER}",
    "it is an old one in a dependency folder": "echo x >> node_modules/devkit.config.json",
    "it is deleted in a dependency folder": "rm node_modules/devkit.config.json",
    "its folder is renamed": "mv node_modules modules",
}


def test_a_protected_path_that_appears_ends_the_call(lab: Lab) -> None:
    (lab.ws / "node_modules").mkdir()
    for name in ("devkit.config.json", "plain.json"):
        (lab.ws / "node_modules" / name).write_text("{}\n")
    give(lab.ws, lab.ws.stat().st_uid)
    seen = {}
    for what, command in APPEARS.items():
        done = lab.sh(f"{command}; sleep {LONG}; echo survived", derived_from="deletes")
        seen[what] = (done.ending, done.judgement, done.landed, bool(done.events), done.stdout)
    assert seen == dict.fromkeys(APPEARS, (Ending.PROTECTED, "discard", False, True, ""))
    assert not list(lab.ws.rglob("*evkit-?aiver*"))
    plain = {}
    for what, command in APPEARS.items():  # the control
        shutil.rmtree(lab.ws / "e", ignore_errors=True)
        other = command.replace("evkit-waiver", "evkit").replace("evKit-Waiver", "evKit")
        other = other.replace("devkit.config", "plain")
        if "mv node_modules" in command:
            other = "mv src source"
        done = lab.sh(f"{other}; sleep 0.3; echo survived", derived_from="deletes")
        plain[what] = (done.ending, done.judgement, done.events, done.stdout)
    assert plain == dict.fromkeys(APPEARS, (Ending.RAN, "land", (), "survived\n"))


def test_what_led_there_is_in_the_answer_the_record_and_the_display(lab: Lab) -> None:
    done = lab.sh(f"echo x > tmp1; mv tmp1 {WAIVER}; sleep {LONG}")
    events = [(one.kind, one.path, one.source) for one in done.events]
    assert events == [("created", "tmp1", None), ("moved", WAIVER, "tmp1")]
    assert f"what led there: `tmp1` created, `tmp1` moved onto `{WAIVER}`" in done.message
    assert "gh pr create" in done.message
    lab.run(lab.supervisor._record.flush())
    entry = lab.supervisor._record.store.call(done.id)
    assert entry.ending == "protected"
    assert entry.events == [
        {"kind": "created", "path": "tmp1"},
        {"kind": "moved", "path": WAIVER, "source": "tmp1"},
    ]
    shown = record(entry, "", "", "")
    assert (
        f"what led to the protected path:\n  `tmp1` created\n  `tmp1` moved onto `{WAIVER}`"
        in shown
    )
    assert status_of(done.model_dump(mode="json")) == 126


def test_the_next_call_is_not_ended_for_the_last_one(lab: Lab) -> None:
    for number in range(15):  # the alarm comes about when the call has ended by itself
        bad = lab.sh(f"echo x > {WAIVER}")
        assert (bad.judgement, bad.landed, bool(bad.events)) == ("discard", False, True)
        good = lab.sh(f"echo {number} > n; sleep 0.05; echo done")
        assert (good.ending, good.landed, good.stdout) == (Ending.RAN, True, "done\n")


@pytest.mark.timeout(1200)  # some eighty calls
def test_the_lowest_routes_are_closed(lab: Lab) -> None:
    def call(command: str) -> object:
        return lab.sh(command, derived_from="deletes")

    clean = {".lockgate", *(path.name for path in lab.ws.iterdir())}
    (lab.ws / "devkit.config.json").unlink()
    held = {}
    for name, route in ROUTES.items():
        for protected in (True, False):
            held[name, protected] = take(lab.ws, route, protected=protected, call=call)
            for path in [path for path in lab.ws.iterdir() if path.name not in clean]:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            (lab.ws / "devkit.config.json").unlink(missing_ok=True)
    assert held == {(name, protected): True for name in ROUTES for protected in (True, False)}


# Floods and losses

# More than the kernel keeps for a reader (16,384 events), where that is what can be lost.
FLOODS = {
    "20,000 files in one folder": "for i in range(20_000): open(f'f{i}', 'w').close()",
    "10,000 files in folders, as an installation makes": (
        "import os\nfor i in range(200):\n os.makedirs(f'm/p{i}/lib')\n"
        " for j in range(50): open(f'm/p{i}/lib/{j}.js', 'w').write('x')"
    ),
    "20,000 files that are removed again": (
        "import os\nfor i in range(20_000):\n open(f'f{i}', 'w').close()\n"
        "for i in range(20_000): os.unlink(f'f{i}')\nopen('last', 'w').close()"
    ),
    "folders renamed, made anew and deleted": (
        "import os\nfor i in range(300):\n os.makedirs('a/x'); os.rename('a', 'b'); os.mkdir('a')\n"
        " os.rmdir('a'); os.rmdir('b/x'); os.rmdir('b')\nopen('last', 'w').close()"
    ),
}


@pytest.mark.parametrize("program", FLOODS.values(), ids=FLOODS)
def test_a_harmless_flood_lands(lab: Lab, program: str) -> None:
    done = lab.sh("python3 -", stdin=program.encode())
    assert (done.ending, done.exit_status, done.message) == (Ending.RAN, 0, "")
    assert (done.judgement, done.landed, done.events) == ("land", True, ())
    assert (lab.ws / "last").exists() or len(done.changes) >= 1000
    again = lab.sh("echo y > after; echo fine")
    assert (again.landed, again.stdout) == (True, "fine\n")


def test_a_protected_path_within_a_flood_ends_the_call(lab: Lab) -> None:
    program = f"""
import time
for i in range(20_000): open(f'f{{i}}', 'w').close()
open('{WAIVER}', 'w').close()
for i in range(5_000): open(f'g{{i}}', 'w').close()
time.sleep({LONG})
"""
    done = lab.sh("python3 -", stdin=program.encode())
    assert (done.ending, done.judgement) == (Ending.PROTECTED, "discard")


def over(pid: int) -> bool:
    """Whether a process has ended with all its threads; nobody may have asked for its end yet."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def observer(lab: Lab) -> int:
    """Return the pid, on this host, of the observer beside the cell."""
    rows = lab.keeper.top(ps_args="-eo pid,ppid,ni,args")["Processes"]
    (pid,) = [int(row[0]) for row in rows if row[2] == "5" and "defunct" not in row[3]]
    return pid


def test_an_observer_that_dies_ends_the_call_and_holds_its_changes(lab: Lab) -> None:
    lab.sh("true")

    async def scenario() -> None:
        work = asyncio.ensure_future(lab.call(f"echo x > new; touch made; sleep {LONG}"))
        await eventually(lambda: "sleep" in " ".join(lab.processes()), "it runs")
        os.kill(observer(lab), signal.SIGKILL)
        done = await work
        assert (done.ending, done.judgement, done.landed) == (Ending.UNWATCHED, "hold", False)
        assert "nobody watched it any more" in done.message
        landed = await lab.supervisor.land(done.id)  # nothing is lost
        assert landed.landed
        assert lab.text("new") == "x\n"

    lab.run(scenario())
    after = lab.sh("echo y > new")  # with a new observer
    assert (after.ending, after.landed, lab.text("new")) == (Ending.RAN, True, "y\n")
    bad = lab.sh(f"echo x > {WAIVER}; sleep {LONG}")
    assert bad.ending is Ending.PROTECTED


def test_an_observer_that_is_stopped_lets_nothing_land_unseen(lab: Lab) -> None:
    lab.sh("true")
    os.kill(observer(lab), signal.SIGSTOP)
    done = lab.sh("echo x > new")
    assert (done.judgement, done.landed) == ("hold", False)
    assert "it was not watched to its end (it does not answer)" in done.message
    bad = lab.sh(f"echo x > {WAIVER}; sleep {LONG}")
    assert bad.ending is Ending.PROTECTED


def test_an_observer_that_dies_between_calls_is_replaced(lab: Lab) -> None:
    lab.sh("true")
    for _ in range(3):
        pid = observer(lab)
        os.kill(pid, signal.SIGKILL)
        wait_for(partial(over, pid), "it ends")
        done = lab.sh("echo x >> new; echo fine")
        assert (done.ending, done.stdout, done.landed) == (Ending.RAN, "fine\n", True)
