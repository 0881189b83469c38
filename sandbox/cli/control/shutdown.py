# SPDX-License-Identifier: Apache-2.0
"""`lockgate shutdown`: end the supervisor and its cells while nothing runs."""

from __future__ import annotations

import click

from sandbox.cli import terminal


@click.command(short_help="End the supervisor and its cells while nothing runs.")
def shutdown() -> int:
    """End the supervisor process of this user, with its cells and the guard; the next call starts
    them again. It returns when all of it has ended.

    While calls run or questions wait nothing is ended, and they are named: the status is 125 then.
    To end those as well there is `lockgate stop`.

    \b
    Example:
      lockgate shutdown
    """
    from sandbox.client.connect import end_idle

    ended = end_idle(terminal.dirs())
    terminal.show("the supervisor has ended" if ended else "no supervisor runs")
    return 0
