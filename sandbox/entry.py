# SPDX-License-Identifier: Apache-2.0
"""Where the program `lockgate` starts. Imports nothing until it is known what is wanted."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; a hook goes a way of its own, since it runs before every tool call."""
    if os.path.basename(sys.argv[0]) == "lockgate-shell":  # noqa: PTH119
        sys.argv[1:1] = ["shell"]
    if sys.argv[1:2] == ["hook"]:
        from sandbox.hooks import entry

        sys.exit(entry.main(sys.argv[2:]))
    from sandbox import cli

    cli.main()


if __name__ == "__main__":
    main()
