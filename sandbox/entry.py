# SPDX-License-Identifier: Apache-2.0
"""Where the program `lockgate` starts. Imports nothing until it is known what is wanted."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from sandbox import cli

    cli.main()


if __name__ == "__main__":
    main()
