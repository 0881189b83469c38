# SPDX-License-Identifier: Apache-2.0
"""Ways in which a process outlives the program that started it; a stop must end each of them.

`@` stands for a mark that is nobody else's and shows in the command line, `%` for a file that the
process keeps writing to, where it shows no command line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Evasion:
    """One way."""

    command: str
    beats: bool = False
    """Known by the file that it writes to alone."""
    refused_in_cells: bool = False
    """A cell refuses it, so nothing starts there."""
    late: bool = False
    """It starts its process only when its shell ends."""


EVASIONS = {
    "a plain child under another name": Evasion("bash -c 'exec -a @ sleep 245'; true"),
    "a child whose shell exits at once": Evasion("(exec -a @ sleep 245) &"),
    "hang-ups ignored": Evasion("nohup bash -c 'exec -a @ sleep 245' >/dev/null 2>&1 &"),
    "a session of its own": Evasion(
        "setsid bash -c 'exec -a @ sleep 245' >/dev/null 2>&1 < /dev/null &"
    ),
    "every signal ignored that can be": Evasion(
        'bash -c \'trap "" TERM INT HUP QUIT USR1 USR2; '
        "for i in $(seq 490); do sleep 0.5; done' @ &"
    ),
    "a pool of workers": Evasion(
        "python3 - @ <<'EOF' >/dev/null 2>&1 &\n"
        "import multiprocessing as m, time\n"
        "def f(x): time.sleep(245)\n"
        "if __name__ == '__main__':\n"
        "    m.set_start_method('fork'); p = m.Pool(4); p.map(f, range(4))\n"
        "EOF"
    ),
    "twenty siblings": Evasion("for i in $(seq 20); do (exec -a @ sleep 245) & done"),
    "a process that hops from number to number": Evasion(
        "python3 - @ <<'EOF' >/dev/null 2>&1 &\n"
        "import os, time\n"
        "e = time.time() + 240\n"
        "while time.time() < e:\n"
        "    if os.fork(): os._exit(0)\n"
        "    time.sleep(0.05)\n"
        "EOF"
    ),
    "a second thread alone lives on": Evasion(
        "python3 - <<'EOF' >/dev/null 2>&1 &\n"
        "import threading, time, ctypes, platform\n"
        "def f():\n"
        "    e = time.time() + 240\n"
        "    while time.time() < e:\n"
        "        open('%', 'a').write('.'); time.sleep(0.1)\n"
        "threading.Thread(target=f).start()\n"
        "ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)\n"
        "EOF",
        beats=True,
    ),
    "blocked in a read of a pipe": Evasion(
        "bash -c 'read -t 245 x < <(sleep 245)' @ >/dev/null 2>&1 &"
    ),
    "an endless tail below its own timeout": Evasion(
        "timeout 245 bash -c 'exec -a @ tail -f /dev/null' >/dev/null 2>&1 &"
    ),
    "a terminal of its own": Evasion(
        "script -qfc \"bash -c 'exec -a @ sleep 245'\" /dev/null >/dev/null 2>&1 &"
    ),
    "a process namespace of its own": Evasion(
        "unshare -rpf --mount-proc bash -c 'exec -a @ sleep 245' >/dev/null 2>&1 &",
        refused_in_cells=True,
    ),
    "an alias of git": Evasion(
        "git -c core.fsmonitor=false -c gc.auto=0 "
        "-c alias.z='!setsid bash -c \"exec -a @ sleep 245\" >/dev/null 2>&1 &' z"
    ),
    "started by the exit of its shell": Evasion(
        "trap \"setsid bash -c 'exec -a @ sleep 240' >/dev/null 2>&1 &\" EXIT; sleep 2", late=True
    ),
    "a program without a file and without an environment": Evasion(
        "python3 - <<'EOF' >/dev/null 2>&1 &\n"
        "import os\n"
        "fd = os.memfd_create('x')\n"
        "os.write(fd, open('/bin/sleep', 'rb').read())\n"
        "os.execve('/proc/self/fd/%d' % fd, ['@', '245'], {})\n".replace("%d' % fd", "' + str(fd)")
        + "EOF"
    ),
    "an exported function in a detached shell": Evasion(
        "vi_@() { sleep 245; }; export -f vi_@; setsid bash -c 'vi_@' >/dev/null 2>&1 &"
    ),
    "neither parent, session nor environment is left": Evasion(
        '(setsid env -i PATH="$PATH" bash -c '
        "'(setsid bash -c \"exec -a @ sleep 245\" &) ; sleep 0.3' >/dev/null 2>&1 &)"
    ),
}
"""The cases of the stop's own list, and one that leaves by every door at once."""


def command(evasion: Evasion, mark: str, beat: Path | str) -> str:
    """Return the command with its mark and its file."""
    return evasion.command.replace("@", mark).replace("'%'", f"'{beat}'")


def marked(mark: str) -> list[int]:
    """Return the processes of this host that show a mark and have not ended."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(name))
    return found
