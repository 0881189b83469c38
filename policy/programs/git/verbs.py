# SPDX-License-Identifier: Apache-2.0
"""git subcommands that need more than a line of the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from policy.facts import How
from policy.hosts import of_address
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.programs.git.remotes import REMOTE, note_remote
from policy.programs.git.settings import config, set_key
from policy.shell.state import Call
from policy.shell.walker import Shell
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME, STAR, shown, unknown

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
    return _plumbing(catalog, shell, call, entry)


_RUN_BY = (
    "--exec",
    "--httpd",
    "--browser",
    "--smtp-server",
    "--sendmail-cmd",
    "--to-cmd",
    "--cc-cmd",
    "--header-cmd",
    "--upload-pack",
    "--receive-pack",
    "--textconv-cmd",
)


def _run_by(words: list[str]) -> Iterator[str]:
    """Yield the values of options that name a program."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in _RUN_BY:
            text = value if equals else words[at + 1] if at + 1 < len(words) else ""
            if text and (name != "--smtp-server" or re.search(r"[/\s]", text)):
                yield text


_ONLY_SHOWN = frozenset(("--check", "--stat", "--numstat", "--summary"))
_PATCHED = re.compile(r"(?m)^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)")


def _plumbing(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    name = call.name.removeprefix("git ")
    words = list(call.args)
    if entry.tier is not Tier.SAFE:
        shell.find(entry.tier, entry.rule, f"`git {name}`: {entry.because}")
        shell.facts.writes = True
    for given in _run_by(words):
        shell.find(Tier.DANGER, "runs-text", f"`git {name}` runs a program that an option names")
        shell.aside(lambda: shell.run_text(given))  # noqa: B023
    if (name == "credential" and words[:1] == ["fill"]) or (
        name.startswith("credential-") and "get" in words
    ):
        shell.find(Tier.FORBIDDEN, "secrets", f"`git {name}` prints stored credentials")
    if name == "bisect" and words[:1] == ["run"]:
        shell.call(Call(tuple(words[1:]), plain=False)) if words[1:] else None
    elif name == "worktree" and words[:1] == ["remove"]:
        for word in [one for one in words[1:] if not one.startswith("-")]:
            if not unknown(full := shell.resolve(word)):
                shell.facts.removed[full] = None
    elif name == "submodule" and "foreach" in words:
        text = [one for one in words[words.index("foreach") + 1 :] if one != "--recursive"]
        shell.run_text(" ".join(text))
    elif name == "bundle" and words[:1] == ["create"]:
        for path in [one for one in words[1:] if not one.startswith("-")][:1]:
            shell.touch(How.WRITE, path, program="git")
    elif name in ("hash-object", "apply", "interpret-trailers", "update-index"):
        for path in [one for one in words if not one.startswith("-")]:
            how = (
                How.READ
                if name in ("hash-object", "apply")
                else How.META
                if name == "update-index"
                else How.WRITE
            )
            shell.touch(how, path, program="git")
        if name == "apply" and not _ONLY_SHOWN.intersection(words):
            for found in _PATCHED.finditer(call.stdin or ""):
                shell.touch(How.WRITE, found[1], program="git")
        return HOLE if name != "hash-object" else NAME
    elif name in ("filter-branch", "filter-repo"):
        joined = (tuple(one.split("=", 1)) for one in words if "=" in one)
        for flag, value in (*pairwise(words), *joined):
            if flag.endswith("-callback"):
                shell.aside(lambda: shell.call(Call(("python3", "-c", value), plain=False)))  # noqa: B023
            elif flag.endswith("-filter"):
                shell.aside(lambda: shell.run_text(value))  # noqa: B023
    elif name in ("difftool", "mergetool"):
        for value in parse(words, ("-x", "--extcmd", "-t", "--tool")).values("-x", "--extcmd"):
            shell.run_text(value)
    elif name in ("format-patch", "archive", "fast-export", "send-email", "credential-store"):
        parsed = parse(
            words,
            (
                "-o",
                "--output",
                "--output-directory",
                "--file",
                "--export-marks",
                "--exec",
                "--remote",
                "--format",
                "--prefix",
            ),
        )
        for path in parsed.values(
            "-o", "--output", "--output-directory", "--file", "--export-marks"
        ):
            shell.touch(How.WRITE, path, program="git")
        if name == "archive" and not parsed.has("--list", "-l"):
            for path in parsed.operands[1:]:
                shell.touch(How.READ, path, program="git")
    elif name in ("worktree", "sparse-checkout", "subtree"):
        for path in [one for one in words[1:] if not one.startswith("-")]:
            shell.touch(How.WRITE, path, program="git")
    elif name in ("merge-file", "unpack-file"):
        files = [one for one in words if not one.startswith("-")]
        printed = "-p" in words or "--stdout" in words
        for at, path in enumerate(files):
            how = How.WRITE if at == 0 and not printed else How.READ
            shell.touch(how, path, program="git")
    return HOLE


def _rm(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
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


def _clean(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(call.args, ("-e", "--exclude"))
    if parsed.has("-n", "--dry-run"):
        return NAME
    shell.find(entry.tier, entry.rule, f"`git clean`: {entry.because}")
    shell.facts.writes = True
    for path in parsed.operands or ["."]:
        shell.touch(How.DELETE, f"{path.rstrip('/')}/{STAR}{STAR}", program="git")
    return HOLE


def _checkout(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
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


_BEGUN = {"merge": "MERGE_HEAD", "cherry-pick": "CHERRY_PICK_HEAD", "revert": "REVERT_HEAD"}


def _merge(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    if call.args == ("--abort",) and _takes_back_own(shell, call.name.removeprefix("git ")):
        shell.find(Tier.CAUTION, "git-worktree", f"`{call.name}`: takes back what this agent began")
        shell.facts.writes = True
    else:
        catalog.by_data(shell, call, entry)
    return HOLE


def _takes_back_own(shell: Shell, name: str) -> bool:
    """Return whether a landing of this agent began the operation that is under way."""
    head = _BEGUN.get(name)
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


_ASKS_REMOTE = frozenset(("fetch", "pull", "push", "ls-remote"))


def _transfer(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(call.args, (*entry.values, *entry.uses))
    catalog.by_data(shell, call, entry)
    name = call.name.removeprefix("git ")
    for setting in parsed.values("-c", "--config"):
        key, _, value = setting.partition("=")
        set_key(catalog, shell, key, value)
    for url in parsed.operands:
        if url.startswith("ext::"):
            shell.find(Tier.DANGER, "runs-text", "the `ext::` transport runs a program")
            shell.run_text(url[5:])
        elif url.startswith(("/", "~", "./", "../", "file://")):
            shell.touch(How.READ, url.removeprefix("file://"), program="git")
    for url in (*parsed.operands[:1], *parsed.values("--repo")):
        if (host := of_address(url)) is not None:
            shell.facts.hosts[host] = None
    if name in _ASKS_REMOTE and not parsed.values("--repo"):
        works = note_remote(shell, name, parsed.operands)
        if works and name != "push":
            why = f"`git {name}` asks another machine, which a person's yes opens"
            shell.find(Tier.DANGER, REMOTE, why)
    if name == "clone":
        target = (
            parsed.operands[1]
            if len(parsed.operands) > 1
            else re.sub(r"\.git/?$", "", parsed.operands[0]).rsplit("/", 1)[-1]
            if parsed.operands
            else ""
        )
        if target:
            shell.touch(How.WRITE, target, program="git")
            shell.files.foreign.add(shell.resolve(target))
    return HOLE


SPECIAL = {
    "config": config,
    "branch": _branch,
    "tag": _tag,
    "reflog": _reflog,
    "rm": _rm,
    "clean": _clean,
    "checkout": _checkout,
    "switch": _checkout,
    "restore": _checkout,
    "reset": _checkout,
    "rebase": _checkout,
    **dict.fromkeys(_BEGUN, _merge),
    "checkout-index": _checkout,
    "clone": _transfer,
    "fetch": _transfer,
    "pull": _transfer,
    "ls-remote": _transfer,
    "push": _transfer,
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
        _plumbing,
    ),
}
