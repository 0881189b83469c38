# SPDX-License-Identifier: Apache-2.0
"""How this very program is started again, whatever the variables of an agent say.

INVARIANT (P5, imports): what an agent starts of ours never imports from a folder that the agent
may write: its environment may name one of its workspace's (`PYTHONPATH`), so it is not heeded.
"""

from __future__ import annotations

import builtins
import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
_MOST_SCRIPT = 4096
_ENTRY = b"sandbox.cli.entry"
_THIN = b"-I -S"
"""What the script of ours holds that starts without `site`; one that pip made does not."""


def load_site() -> None:
    """Make the packages that Lockgate uses importable, where Python was started without (`-S`)."""
    if sys.flags.no_site and not hasattr(builtins, "exit"):  # nearly the last thing that it sets
        site.main()


def program() -> tuple[str, ...]:
    """Return the words that start this very Lockgate, from any folder.

    The variables of Python are not heeded (-E, -I), except where Lockgate is installed in none of
    the interpreter's own places, and they may be how it is found.
    """
    beside = Path(sys.executable).parent / "lockgate"
    text = _text(beside)
    if _ENTRY in text:  # something else may have been put in its place
        return (sys.executable, "-IS" if _THIN in text else "-EP", str(beside))
    flags = "-EP" if _is_installed() else "-P"
    return (sys.executable, flags, "-m", "sandbox.cli.entry")


def _is_installed() -> bool:
    """Whether Lockgate is found in the interpreter's own places, whatever variables say."""
    return _ROOT in (*site.getsitepackages(), site.getusersitepackages())


def _text(script: Path) -> bytes:
    """Return the beginning of a script; nothing where it cannot be read."""
    try:
        with script.open("rb") as file:
            return file.read(_MOST_SCRIPT)
    except OSError:
        return b""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a program of ours that is started as a module, with `-P`.

    Where this one does not heed the variables of Python, or is found without them, the other one
    gets none of them.
    """
    if sys.flags.ignore_environment or _is_installed():
        kept = {name: value for name, value in given.items() if not name.startswith("PYTHON")}
        return {**kept, "PYTHONPATH": _ROOT}
    paths = (_ROOT, *filter(None, [given.get("PYTHONPATH")]))
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}
