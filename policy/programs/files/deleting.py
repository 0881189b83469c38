# SPDX-License-Identifier: Apache-2.0
"""Programs that delete files."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.shell.held_scripts import why_lossless
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.paths import throwaway


def read_rm(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read `rm`."""
    parsed = parse(call.args, (), ("--recursive", "--force", "--no-preserve-root", "--interactive"))
    tree = parsed.has("-r", "-R", "--recursive", "--no-preserve-root")
    if parsed.operands and all(_thrown_away(shell, operand) for operand in parsed.operands):
        shell.find(Tier.CAUTION, "write", f"`{call.name}`: removes what is temporary in the cell")
        for path in parsed.operands:
            shell.touch(How.WRITE, path, program=call.name)
        shell.facts.writes = True
        return ""
    for path in parsed.operands:
        shell.touch(How.TREE if tree else How.DELETE, path, program=call.name)
        if not tree and shell.resolve(path).rsplit("/", 1)[-1].endswith("_history"):
            shell.find(Tier.FORBIDDEN, "security", "it removes a history of commands")
    if tree:
        shell.find(
            Tier.FORBIDDEN,
            "recursive-delete",
            f"`{call.name}` with a recursive option deletes a whole tree",
        )
    elif not parsed.operands or not all(_lossless(shell, operand) for operand in parsed.operands):
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    return ""


def _lossless(shell: Shell, path: str) -> bool:
    """Return whether nothing that a person had goes with what a path names."""
    full = [shell.resolve(path, place) for place in shell.state.places]
    return all(why_lossless(shell.disk.get(one), How.DELETE, one, shell.facts) for one in full)


def _thrown_away(shell: Shell, path: str) -> bool:
    """Return whether a path can only be one of the cell's own folder for temporary files."""
    roots = shell.workspaces
    if any(
        touch.how is How.MOVE and not throwaway(touch.path, roots) for touch in shell.facts.touches
    ):
        return False  # what the text moved there is no copy
    return all(throwaway(shell.resolve(path, place), roots) for place in shell.state.places)


def read_deleter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read another program that deletes files."""
    slashes = [
        argument.lower()
        for argument in call.args
        if re.fullmatch(r"/[a-z]{1,2}", argument, re.IGNORECASE)
    ]
    parsed = parse([argument for argument in call.args if argument.lower() not in slashes])
    tree = (
        "/s" in slashes
        or call.name in ("rimraf", "deltree")
        or parsed.has("-r", "--recursive", "-R")
    )
    tree = (tree and bool(parsed.operands)) or (
        call.name == "del-cli" and parsed.has("--force", "-f")
    )
    for path in parsed.operands:
        if call.name != "rmdir":
            tree = tree or path.endswith(("/", "**")) or "\ue004\ue004" in path
        shell.touch(How.TREE if tree else How.DELETE, path, program=call.name)
    if tree:
        shell.find(Tier.FORBIDDEN, "recursive-delete", f"`{call.name}` deletes a whole tree")
    elif not parsed.operands or not all(_lossless(shell, operand) for operand in parsed.operands):
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    return ""
