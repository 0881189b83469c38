# SPDX-License-Identifier: Apache-2.0
"""git subcommands that change the work tree: what they throw away, and what was begun by them."""

from __future__ import annotations

from collections.abc import Sequence

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME, STAR, shown, unknown


def read_rm(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read `git rm`."""
    parsed = parse(call.args, ("--pathspec-from-file",))
    shell.find(entry.tier, entry.rule, f"`git rm`: {entry.because}")
    shell.facts.writes = True
    tree = parsed.has("-r")
    cached = parsed.has("--cached")
    if tree and not cached and not parsed.has("-n", "--dry-run"):
        shell.find(Tier.FORBIDDEN, "recursive-delete", "`git rm -r` deletes a whole tree")
    for path in parsed.operands:
        how = How.META if cached else How.DELETE
        shell.touch(how, path, program="git")
        if tree and not cached:
            shell.touch(How.DELETE, f"{path.rstrip('/')}/{STAR}{STAR}", program="git")
    return HOLE


def read_clean(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read `git clean`."""
    parsed = parse(call.args, ("-e", "--exclude"))
    if parsed.has("-n", "--dry-run"):
        return NAME
    shell.find(entry.tier, entry.rule, f"`git clean`: {entry.because}")
    shell.facts.writes = True
    for path in parsed.operands or ["."]:
        shell.touch(How.DELETE, f"{path.rstrip('/')}/{STAR}{STAR}", program="git")
    return HOLE


def read_checkout(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read what checks files out."""
    parsed = parse(call.args, (*entry.values, *entry.uses, "-s", "--source"))
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    name = call.name.removeprefix("git ")
    if name in ("checkout", "restore", "checkout-index") and entry.tier is not Tier.CAUTION:
        paths = (
            list(call.args[call.args.index("--") + 1 :])
            if "--" in call.args
            else parsed.operands[1 if name == "checkout" else 0 :]
        )
        for path in paths:
            shell.touch(How.WRITE, path, program="git")
    if name == "checkout" and entry.tier is Tier.CAUTION:
        _may_be_files(shell, parsed.operands)
    for text in parsed.values("--exec", "-x"):
        if name == "rebase":
            shell.find(Tier.DANGER, "runs-text", "`git rebase --exec` runs a program")
            shell.run_text(text)
    if name == "reset":
        for path in parsed.operands[1:]:
            shell.touch(How.META, path, program="git")
    return HOLE


BEGUN = {"merge": "MERGE_HEAD", "cherry-pick": "CHERRY_PICK_HEAD", "revert": "REVERT_HEAD"}


def read_merge(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read what begins, goes on with or takes back a merge."""
    if call.args == ("--abort",) and _takes_back_own(shell, call.name.removeprefix("git ")):
        shell.find(Tier.CAUTION, "git-worktree", f"`{call.name}`: takes back what this agent began")
        shell.facts.writes = True
    else:
        catalog.by_data(shell, call, entry)
    return HOLE


def _takes_back_own(shell: Shell, name: str) -> bool:
    """Return whether a landing of this agent began the operation that is under way."""
    head = BEGUN.get(name)
    if head is None or len(shell.state.places) != 1:
        return False
    full = shell.resolve(f".git/{head}")
    if unknown(full):
        return False
    seen = shell.disk.get(full)
    if seen is None:
        shell.facts.wanted[full] = None
    return seen is not None and seen.own


def _may_be_files(shell: Shell, words: Sequence[str]) -> None:
    """Find what a word that names no branch would throw away: git takes a file of that name."""
    for word in words:
        for full in {shell.resolve(word, place) for place in shell.state.places}:
            if unknown(full):
                continue
            if (seen := shell.disk.get(full)) is not None and not seen.absent:
                why = f"`git checkout {shown(word)}` throws changes of that file or folder away"
                shell.find(Tier.DANGER, "git-worktree", why)
            elif seen is None:
                shell.facts.wanted[full] = None
