# SPDX-License-Identifier: Apache-2.0
"""Read the text of one call, with the functions that it defines and never calls."""

from __future__ import annotations

from policy.facts import Facts
from policy.model import Tier
from policy.shell.budget import MOST_TEXT
from policy.shell.interpreter import ProgramCatalog, Shell
from policy.shell.state import NOTHING_SEEN, Disk, State
from policy.shell.walker import Walker
from policy.values.partial import clean, holds_marks

_MOST_END = MOST_TEXT // 4


def _all(shell: Shell, text: str) -> None:
    """Walk through a text, and through the functions that it defines and never calls."""
    shell.run_text(text)
    for name, body in tuple(shell.state.functions.items()):
        if name not in shell.called:
            shell.state.args = None
            shell.calling = [name]
            shell.statement(body)


def read(
    catalog: ProgramCatalog,
    text: str,
    place: str,
    home: str,
    disk: Disk = NOTHING_SEEN,
    workspaces: tuple[str, ...] = (),
) -> Facts:
    """Read the text of one call that starts in `place`; `disk` is what is known of its scripts."""
    facts = Facts()
    if len(text) > MOST_TEXT + _MOST_END:  # no such text is parsed: only its two ends are seen
        text = f"{text[:MOST_TEXT]}\n{text[-_MOST_END:]}"
    shell = Walker(catalog, State((place,), home, args=[]), facts)
    shell.disk, shell.workspaces = disk, workspaces
    if holds_marks(text):
        shell.find(Tier.DANGER, "hidden-text", "it holds characters of the private use area")
    text = clean(text)
    try:
        _all(shell, text)
    except RecursionError:
        shell.find(Tier.DANGER, "opaque", "it nests too deeply to be read")
        catalog.scan(shell, text)
        facts.writes = True
    if shell.budget.spent:
        shell.find(Tier.DANGER, "opaque", "it holds more commands than can be read")
        catalog.scan(shell, text)
    return facts
