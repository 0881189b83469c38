# SPDX-License-Identifier: Apache-2.0
"""Where the program `lockgate` starts. Imports nothing until it is known what is wanted."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; a hook goes a way of its own, since it runs before every tool call."""
    open_missing()
    if os.path.basename(sys.argv[0]) == "lockgate-shell":  # noqa: PTH119
        sys.argv[1:1] = ["shell"]
    if sys.argv[1:2] == ["hook"]:
        from sandbox.client import hook_program as entry

        # At once: what could not be printed would be tried again at Python's own exit, whose status
        # for a failure is none that agents take for a block.
        os._exit(entry.main(sys.argv[2:]))
    from sandbox.cli import main as cli

    cli.main()


def open_missing() -> None:
    """Open `/dev/null` in the place of each standard stream that the caller closed.

    Otherwise Python has none there, and the next file or socket takes its number: what is printed
    would be written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
