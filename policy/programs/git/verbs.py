# SPDX-License-Identifier: Apache-2.0
"""git subcommands that need more than a line of the catalog."""

from __future__ import annotations

from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.programs.git.plumbing import read_plumbing
from policy.programs.git.settings import config
from policy.programs.git.transfer import read_transfer
from policy.programs.git.work_tree import BEGUN, read_checkout, read_clean, read_merge, read_rm
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME

_BRANCH_CHANGES = (
    "-d",
    "-D",
    "--delete",
    "-m",
    "-M",
    "--move",
    "-c",
    "-C",
    "--copy",
    "-f",
    "--force",
    "-u",
    "--set-upstream-to",
    "--unset-upstream",
    "--edit-description",
)


def _branch(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(
        call.args,
        (
            "--sort",
            "--format",
            "--contains",
            "--merged",
            "--no-merged",
            "--points-at",
            "-u",
            "--set-upstream-to",
            "--abbrev",
            "--column",
            "--color",
        ),
    )
    if entry.rule == "git-branch":  # a form that only deletes what is merged
        shell.find(entry.tier, entry.rule, f"`git branch`: {entry.because}")
    elif parsed.has("-d", "-D", "--delete"):
        shell.find(Tier.DANGER, "delete", "`git branch -d` deletes branches")
    elif parsed.has(*_BRANCH_CHANGES):
        shell.find(
            Tier.DANGER if parsed.has("-f", "--force", "-M", "-C") else Tier.CAUTION,
            "git-branch",
            "`git branch` changes branches",
        )
    elif parsed.operands and not parsed.has(
        "--list", "-l", "--contains", "--merged", "-a", "-r", "--show-current"
    ):
        shell.find(Tier.CAUTION, "git-branch", "`git branch` makes a branch")
    else:
        return NAME + "\n"
    shell.facts.writes = True
    return ""


def _tag(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(call.args, (*entry.values, *entry.uses))
    if not parsed.operands or parsed.has(
        "-l", "--list", "-n", "--contains", "-v", "--verify", "--points-at"
    ):
        return HOLE
    return catalog.by_data(shell, call, entry)


def _reflog(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    if call.args[:1] and call.args[0] in ("expire", "delete", "drop"):
        shell.find(Tier.DANGER, "delete", "`git reflog` deletes history")
        shell.facts.writes = True
    return HOLE


def _tracks(shell: Shell) -> str:
    """Note that `git lfs track` and `untrack` write attributes, which gate 2 reads."""
    shell.facts.writes = True
    why = "`git lfs`: says in `.gitattributes` which files it holds"
    shell.find(Tier.CAUTION, "program", why)
    return HOLE


def _listing(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Subcommands whose plain form only lists."""
    name = call.name.removeprefix("git ")
    safe = {
        "remote": ((), ("-v", "show", "get-url", "--verbose")),
        "worktree": ((), ("list",)),
        "submodule": ((), ("status", "summary")),
        "notes": ((), ("list", "show")),
        "bisect": ((), ("log", "view", "visualize", "terms")),
        "sparse-checkout": ((), ("list",)),
        "bundle": ((), ("verify", "list-heads")),
        "lfs": ((), ("ls-files", "status", "env", "track")),
        "symbolic-ref": ((), ()),
        "gc": ((), ()),
    }
    words = call.args
    if name == "lfs" and words[:1] in (("track",), ("untrack",)) and len(words) > 1:
        return _tracks(shell)
    allowed = safe.get(name, ((), ()))[1]
    if (name in ("remote", "notes", "submodule") and not words) or (
        words and words[0] in allowed and len(words) <= 3
    ):
        if name == "remote" and words[:1] == ("show",):
            shell.facts.network = True
            shell.find(
                Tier.CAUTION,
                "git-branch",
                "`git remote show` asks the remote, without a network",
            )
        return HOLE
    if (
        name == "symbolic-ref"
        and len([word for word in words if not word.startswith("-")]) == 1
        and "-d" not in words
    ):
        return HOLE
    return read_plumbing(catalog, shell, call, entry)


SPECIAL = {
    "config": config,
    "branch": _branch,
    "tag": _tag,
    "reflog": _reflog,
    "rm": read_rm,
    "clean": read_clean,
    "checkout": read_checkout,
    "switch": read_checkout,
    "restore": read_checkout,
    "reset": read_checkout,
    "rebase": read_checkout,
    **dict.fromkeys(BEGUN, read_merge),
    "checkout-index": read_checkout,
    "clone": read_transfer,
    "fetch": read_transfer,
    "pull": read_transfer,
    "ls-remote": read_transfer,
    "push": read_transfer,
    **dict.fromkeys(
        (
            "remote",
            "worktree",
            "submodule",
            "notes",
            "bisect",
            "sparse-checkout",
            "bundle",
            "lfs",
            "symbolic-ref",
        ),
        _listing,
    ),
    **dict.fromkeys(
        (
            "hash-object",
            "apply",
            "update-index",
            "filter-branch",
            "filter-repo",
            "difftool",
            "mergetool",
            "format-patch",
            "merge-file",
            "archive",
            "send-email",
            "instaweb",
            "fetch-pack",
            "send-pack",
            "upload-archive",
            "fast-export",
            "credential",
            "credential-cache",
            "credential-store",
            "interpret-trailers",
            "subtree",
        ),
        read_plumbing,
    ),
}
