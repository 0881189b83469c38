# SPDX-License-Identifier: Apache-2.0
"""Run every test, several at a time; what failed beside others is tried again, alone.

A machine under load can make a test of processes and containers miss a deadline. A test that fails
twice more, with nothing beside it, fails the run; one that passes then is named, so that it can be
made to stand load. More than a few failures are no matter of load, and are not tried again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
AT_ONCE = ("--cache-clear", "-n", "4", "--dist", "loadgroup", "--no-loadscope-reorder")
TRIED_AGAIN = 12
"""How many failures may be due to load."""
ALONE = ("-p", "no:xdist", "--last-failed", "--last-failed-no-failures", "none")
TIMES_ALONE = 2
_SOME_FAILED = 1


def run_tests(*options: str) -> int:
    """Run pytest in a process of its own; return its exit status.

    It may keep what it compiled: else each of its processes rewrites the asserts of all modules.
    """
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=env).returncode


def list_failed() -> list[str]:
    """Return the names of the tests that failed last time, as pytest's cache has them."""
    cache = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(cache.read_text("utf-8"))) if cache.exists() else []


def main() -> int:
    """Run all tests, and the few that failed up to twice more; return the exit status.

    Whoever starts this in the background may have SIGINT ignored, which tests of Ctrl-C inherit.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = run_tests(*AT_ONCE, *sys.argv[1:])  # another one than 1 where a process died
    failed = list_failed() if status == _SOME_FAILED else []
    if not 0 < len(failed) <= TRIED_AGAIN:
        return status
    for _ in range(TIMES_ALONE):
        print(f"\ntried again, alone: {len(list_failed())} that failed", flush=True)
        status = run_tests(*ALONE)
        if status != _SOME_FAILED:
            break
    if status == 0:
        print("passed alone, though not beside others:", *failed, sep="\n  ", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
