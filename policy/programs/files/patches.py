# SPDX-License-Identifier: Apache-2.0
"""`apply_patch` typed as a command, as Codex does: the patch is its argument or its input.

The cell has a program of this name (`sandbox/cell/run/apply_patch.py`).
"""

from __future__ import annotations

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import HOLE, shown, unknown
from policy.values.patches import patched


def _apply_patch(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.facts.writes = True
    text = call.args[0] if call.args else call.stdin
    files = patched(shown(text)) if text is not None else None
    if text is None or files is None or files.empty or _unread(text):
        shell.find(Tier.DANGER, "patch", "it is not known which files the patch changes")
        return HOLE
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    for path in files.written:
        shell.touch(How.WRITE, path, program=call.name)
        shell.files.content.pop(shell.resolve(path), None)
    for path in files.deleted:
        shell.touch(How.DELETE, path, program=call.name)
    for path in files.moved:
        shell.touch(How.MOVE, path, program=call.name)
    return HOLE


def _unread(text: str) -> bool:
    """Return whether a head of a file can be in a part of the text that is not known."""
    return any(
        unknown(line) and (line.lstrip().startswith("*") or unknown(line[:1]))
        for line in text.split("\n")
    )


READERS = {"apply_patch": _apply_patch}
