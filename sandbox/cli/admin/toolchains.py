# SPDX-License-Identifier: Apache-2.0
"""What `init` and `connect` ask and say about the toolchains that a project uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.cli import terminal
from sandbox.errors import SandboxError
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.projects.needed_toolchains import Needed
    from sandbox.projects.toolchains import ToolchainRecord


def offer_toolchains(workspace: str, *, yes: bool) -> None:
    """Say which toolchains the project uses; record a person's word to show them to its cells.

    With `yes` the word is given. Where nobody can be asked, nothing is shown.
    """
    from sandbox.projects.needed_toolchains import find_needed
    from sandbox.projects.toolchains import ToolchainRecord

    record = ToolchainRecord(terminal.dirs())
    needed = find_needed(workspace, record.home)
    for one in needed:
        if not one.folder:
            terminal.show(safe_line(one.advice))
    wanted = {one.folder: one for one in needed if one.folder}
    for folder, one in list(wanted.items()):
        if problem := record.problem(folder):
            terminal.show(safe_line(f"{problem}: cells do not see it, which `{one.why}` needs"))
            del wanted[folder]
    known = record.of(workspace)
    new = [one for one in wanted if one not in known]
    if new and not _agreed([wanted[one] for one in new], yes=yes):
        wanted = {folder: one for folder, one in wanted.items() if folder in known}
    if tuple(wanted) != known and not terminal.is_an_agents():
        record.agree(workspace, tuple(wanted))
    for line in _shortcomings(record, workspace):
        terminal.show(safe_line(line))


def _agreed(new: list[Needed], *, yes: bool) -> bool:
    for one in new:
        terminal.show(safe_line(f"the project's {one.language} (`{one.why}`): {one.folder}"))
    if yes and not terminal.is_an_agents():
        terminal.show("cells see that, read-only, at its own path")
        return True
    if not terminal.can_ask():
        terminal.say("cells do not see that; `lockgate init` at a terminal asks for your yes")
        return False
    if terminal.ask("Show that to the cells of this workspace, read-only?"):
        return True
    terminal.say("cells do not see that; `lockgate init` asks again")
    return False


def _shortcomings(record: ToolchainRecord, workspace: str) -> list[str]:
    """Return what does not run in the image, where an engine can be asked."""
    from sandbox.projects.toolchain_trial import try_toolchains

    if not (shown := record.shown((workspace,))):
        return []
    try:
        return try_toolchains(terminal.dirs(), record.home, shown)
    except SandboxError:
        return []  # `lockgate doctor` says what the engine lacks
