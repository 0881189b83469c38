# SPDX-License-Identifier: Apache-2.0
"""How this very program is started again, whatever the variables of an agent say.

INVARIANT (P5, imports): what an agent starts of ours never imports from a folder that the agent
may write: its environment may name one of its workspace's (`PYTHONPATH`), so it is not heeded.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
_MOST_SCRIPT = 4096


def program() -> tuple[str, ...]:
    """Return the words that start this very Lockgate, from any folder.

    The variables of Python are not heeded (-E), except where Lockgate is installed in none of the
    interpreter's own places, and they may be how it is found.
    """
    beside = Path(sys.executable).parent / "lockgate"
    if _is_pythons(beside):
        return (sys.executable, "-EP", str(beside))
    own = (*site.getsitepackages(), site.getusersitepackages())
    flags = "-EP" if _ROOT in own else "-P"
    return (sys.executable, flags, "-m", "sandbox.cli.entry")


def _is_pythons(script: Path) -> bool:
    """Whether Python can run a script: something else may have been put in its place."""
    try:
        with script.open("rb") as file:
            return b"sandbox.cli.entry" in file.read(_MOST_SCRIPT)
    except OSError:
        return False


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a program of ours that is started as a module, with `-P`.

    Where this one does not heed the variables of Python, the other one gets none of them.
    """
    if sys.flags.ignore_environment:
        kept = {name: value for name, value in given.items() if not name.startswith("PYTHON")}
        return {**kept, "PYTHONPATH": _ROOT}
    paths = (_ROOT, *filter(None, [given.get("PYTHONPATH")]))
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}
