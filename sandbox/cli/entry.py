# SPDX-License-Identifier: Apache-2.0
"""Where the program `lockgate` starts. Imports nothing until it is known what is wanted."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


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
    if sys.argv[1:2] == ["run"] and (status := _run_plainly(sys.argv[2:])) is not None:
        os._exit(status)
    _whole().main()


def _run_plainly(arguments: list[str]) -> int | None:
    """Run `lockgate run` by the thin program; None where it is the whole one's."""
    from sandbox.cli.calls import plain_run

    try:
        status = plain_run.try_run(arguments)
        sys.stdout.flush()
        return status
    except (Exception, KeyboardInterrupt) as error:
        return int(_whole().failed(error))


def _whole() -> ModuleType:
    """Return the whole command line, with the packages that it needs."""
    from sandbox.host.relaunch import load_site

    load_site()
    from sandbox.cli import main

    return main


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
