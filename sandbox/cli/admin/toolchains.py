# SPDX-License-Identifier: Apache-2.0
"""What `init` and `connect` ask and say about the toolchains that a project uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.cli import terminal
from sandbox.errors import SandboxError
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from policy.people.toolchains import Language
    from sandbox.projects.needed_toolchains import Needed
    from sandbox.projects.toolchains import ToolchainRecord


def offer_toolchains(workspace: str, *, yes: bool) -> None:
    """Say which toolchains the project uses; record a person's word to show them to its cells.

    With `yes` the word is given. Where nobody can be asked, nothing more is shown. What was agreed
    before stays until a person takes it back, or another one of its language takes its place.
    """
    from sandbox.projects.needed_toolchains import find_needed
    from sandbox.projects.toolchains import ToolchainRecord

    record = ToolchainRecord(terminal.dirs())
    needed = find_needed(workspace, record.home)
    for one in needed:
        if not one.folder:
            terminal.show(safe_line(one.advice))
    named = {need.folder: need for need in needed if need.folder}
    known = record.of(workspace)
    new = []
    for folder, one in named.items():
        if problem := record.problem(folder):
            terminal.show(safe_line(f"{problem}: cells do not see it, which `{one.why}` needs"))
        elif folder not in known:
            new.append(one)
    if new and not _agreed(new, yes=yes):
        new = []
    if not terminal.is_an_agents():
        languages = {need.language for need in new}
        old = [one for one in known if one not in named]
        gone = {one for one in old if _taken_back(one, languages, record.home)}
        wanted = [one for one in named if one in known or named[one] in new]
        wanted += [one for one in known if one not in named and one not in gone]
        if tuple(wanted) != known:
            record.agree(workspace, wanted)
    for line in _shortcomings(record, workspace):
        terminal.show(safe_line(line))


def _taken_back(folder: str, languages: set[Language], home: str) -> bool:
    """Whether cells see no longer what the project does not name now; say which it is.

    `languages` are those of which another toolchain was agreed just now.
    """
    from policy.people.toolchains import Toolchains

    kind = Toolchains.default().of(folder, home)
    if kind is None or kind.language in languages:
        terminal.show(safe_line(f"cells do not see {folder} any more"))
        return True
    said = safe_line(f"the project does not name {folder} now, which its cells see")
    if terminal.can_ask() and terminal.ask(f"{said}. Take that back?"):
        return True
    terminal.say(f"{said}; that stays; `lockgate init` at a terminal asks again")
    return False


def _agreed(new: list[Needed], *, yes: bool) -> bool:
    for need in new:
        terminal.show(safe_line(f"the project's {need.language} (`{need.why}`): {need.folder}"))
    if yes and not terminal.is_an_agents():
        folders = " and ".join(dict.fromkeys(needed.folder for needed in new))
        terminal.show(safe_line(f"`--yes`: cells see {folders}, read-only, at the same path"))
        return True
    return terminal.agree(
        "Show that to the cells of this workspace, read-only?",
        alone="cells do not see that; `lockgate init` at a terminal asks for your yes",
        no="cells do not see that; `lockgate init` asks again",
    )


def _shortcomings(record: ToolchainRecord, workspace: str) -> list[str]:
    """Return what does not run in the image, where an engine can be asked."""
    from sandbox.projects.toolchain_trial import try_toolchains

    if not (shown := record.shown((workspace,))):
        return []
    try:
        return try_toolchains(terminal.dirs(), record.home, shown)
    except SandboxError:
        return []  # `lockgate doctor` says what the engine lacks
