# SPDX-License-Identifier: Apache-2.0
"""git: global options, settings that run programs, and subcommands by what they do."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from policy.catalog_model import ConfigKey, Entry, Programs, Use
from policy.commands import Catalog, verb
from policy.facts import How
from policy.marks import HOLE, NAME, NET, STAR, shown, unknown
from policy.model import Tier
from policy.options import parse
from policy.programs.wrappers import pieces
from policy.shell import Shell
from policy.shell_state import MOST_PLACES, Call

_GLOBAL = (
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--super-prefix",
    "--attr-source",
)
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
_LISTING = frozenset(
    ("ls-files", "ls-tree", "grep", "diff", "status", "log", "show", "diff-tree", "diff-index")
)


def _git(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, _GLOBAL, in_order=True)
    for setting in parsed.values("-c", "--config-env"):
        key, _, value = setting.partition("=")
        set_key(catalog, shell, key, value or "true")
    for flag in ("--exec-path", "--git-dir", "--work-tree"):
        for value in parsed.values(flag):
            if flag == "--exec-path":
                shell.find(
                    Tier.DANGER,
                    "git-config",
                    "`git --exec-path`: git runs its parts from elsewhere",
                )
                shell.touch(How.RUN, value)
            elif value not in (".git", ".", "./.git"):
                shell.find(
                    Tier.DANGER, "git-config", f"`git {flag}`: another repository's settings count"
                )
                shell.touch(How.WRITE, value, program="git")
    kept = shell.state.places
    for folder in parsed.values("-C"):
        shell.state.places = tuple(shell.resolve(folder, one) for one in shell.state.places)[
            -MOST_PLACES:
        ]
        shell.touch(How.EXIST, shell.state.place, program="cd")
    try:
        if not parsed.operands:
            return HOLE
        return _subcommand(catalog, shell, call, entry, parsed.operands)
    finally:
        shell.state.places = kept


def set_key(catalog: Catalog, shell: Shell, key: str, value: str) -> None:
    """Record what a git setting does."""
    wanted = key.lower()
    found: ConfigKey | None = next(
        (one for name, one in catalog.git_keys if fnmatchcase(wanted, name)), None
    )
    if found is None:
        shell.find(
            Tier.DANGER, "git-config", f"`{shown(key)}` is not a git setting that the policy knows"
        )
        return
    if value.strip() in found.harmless:
        return
    if found.tier is not Tier.CAUTION:
        shell.find(found.tier, "git-config", f"the git setting `{shown(key)}` {found.because}")
    if found.value == "alias":
        shell.state.git_aliases[key.partition(".")[2]] = value
        if value.startswith("!"):
            shell.aside(lambda: shell.run_text(value[1:]))
        else:
            shell.aside(lambda: shell.call(Call(("git", *pieces(value)), plain=False)))
    elif found.value == "shell":
        text = value.removeprefix("!")
        shell.aside(lambda: shell.run_text(text))


def _subcommand(
    catalog: Catalog, shell: Shell, call: Call, entry: Programs, words: list[str]
) -> str:
    name = words[0]
    alias = shell.state.git_aliases.get(name)
    if alias is not None:
        if alias.startswith("!"):
            return shell.run_text(alias[1:] + " " + " ".join(words[1:]))
        return shell.call(
            Call(("git", *pieces(alias), *words[1:]), call.stdin, call.env, plain=False)
        )
    chosen = verb(entry, words)
    if chosen is None or unknown(name):
        shell.find(
            Tier.DANGER,
            "unknown-program",
            f"`git {shown(name)}` is not a subcommand that the policy knows",
        )
        shell.facts.writes = True
        return HOLE
    shell.facts.programs[f"git {name}"] = None
    inner = Call((f"git {name}", *words[1:]), call.stdin, call.env)
    for at, word in enumerate(words):
        if word.startswith("--output=") or (word == "--output" and at + 1 < len(words)):
            catalog.use(shell, Use.WRITE, word.partition("=")[2] or words[at + 1], inner)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(catalog, shell, inner, chosen[1])
    catalog.by_data(shell, inner, chosen[1])
    _pathspecs(shell, inner, name, chosen[1])
    if NET in (call.stdin or ""):
        return NET
    return NAME + "\n" if name in _LISTING else HOLE


def _pathspecs(shell: Shell, call: Call, name: str, entry: Entry) -> None:
    """Record the files that a reading subcommand prints."""
    if entry.tier is not Tier.SAFE:
        return
    parsed = parse(call.args, frozenset((*entry.values, *entry.uses)))
    outside = "--no-index" in call.args
    for word in parsed.operands:
        path = (
            word.split(":", 1)[1]
            if re.match(r"[\w~^@{}/.-]*:[^:]", word) and "://" not in word
            else word
        )
        path = re.sub(r"^:(?:\([^)]*\)|[!/^])", "", path)
        if outside or name == "grep":
            if "/" in path or path.startswith((".", "~")) or outside:
                shell.touch(How.READ, path, program="git")
        elif path and not re.search(r"\.\.\.?|[\^~@]", path):
            shell.touch(
                How.READ,
                path.lstrip("/") if not outside and not word.startswith("/") else path,
                program="git",
            )
    if name == "grep":
        for word in call.args:
            found = re.match(r"-O(.+)|--open-files-in-pager=(.+)", word)
            if found:
                shell.aside(lambda: shell.run_text(found[1] or found[2]))  # noqa: B023
    for value in parsed.values("-L"):
        if ":" in value:
            shell.touch(How.READ, value.rsplit(":", 1)[1], program="git")


def _config(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(
        call.args,
        ("-f", "--file", "--blob", "--type", "-t", "--default", "--comment", "--value", "--url"),
    )
    words = list(parsed.operands)
    reading = parsed.has(
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "--get-urlmatch",
        "--get-color",
        "--show-origin",
        "--name-only",
        "--show-scope",
    )
    if words and words[0] in (
        "get",
        "list",
        "set",
        "unset",
        "edit",
        "rename-section",
        "remove-section",
    ):
        verb_name = words.pop(0)
        reading = verb_name in ("get", "list")
    for path in parsed.values("-f", "--file"):
        shell.touch(How.READ if reading else How.WRITE, path, program="git")
    if parsed.has("--system"):
        if not reading and len(words) > 1:
            shell.touch(How.WRITE, "/etc/gitconfig", program="git")
    elif parsed.has("--global") and not reading:
        shell.find(Tier.DANGER, "git-config", "it changes git's settings for every repository")
    if reading or (
        len(words) == 1
        and not parsed.has("--unset", "--unset-all", "-e", "--edit", "--remove-section")
    ):
        if parsed.has("--global", "--list", "-l") and any("credential" in one for one in words):
            shell.find(Tier.DANGER, "secrets", "it reads credentials")
        return HOLE
    shell.facts.writes = True
    if (
        parsed.has("--unset", "--unset-all", "--remove-section", "--rename-section", "-e", "--edit")
        or len(words) < 2
    ):
        shell.find(Tier.DANGER, "git-config", "it changes git's settings")
        return ""
    shell.find(Tier.CAUTION, "git-config", "it changes git's settings")
    set_key(catalog, shell, words[0], words[1])
    return ""


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
    if parsed.has("-d", "-D", "--delete"):
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
    allowed = safe.get(name, ((), ()))[1]
    if (name in ("remote", "notes", "submodule") and not words) or (
        words and words[0] in allowed and len(words) <= 3
    ):
        if name == "remote" and words[:1] == ("show",):
            shell.facts.network = True
            shell.find(Tier.DANGER, "network", "`git remote show` asks another machine")
        return HOLE
    if (
        name == "symbolic-ref"
        and len([one for one in words if not one.startswith("-")]) == 1
        and "-d" not in words
    ):
        return HOLE
    return _plumbing(catalog, shell, call, entry)


def _plumbing(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    name = call.name.removeprefix("git ")
    words = list(call.args)
    shell.find(entry.tier, entry.rule, f"`git {name}`: {entry.because}")
    shell.facts.writes = True
    if name == "bisect" and words[:1] == ["run"]:
        shell.call(Call(tuple(words[1:]), plain=False)) if words[1:] else None
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
        return HOLE if name != "hash-object" else NAME
    elif name in ("filter-branch", "filter-repo"):
        for flag, value in zip(words, words[1:], strict=False):
            if flag.endswith("-filter") or flag.endswith("-callback"):
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
    elif name in ("worktree", "sparse-checkout", "subtree"):
        for path in [one for one in words[1:] if not one.startswith("-")]:
            shell.touch(How.WRITE, path, program="git")
    elif name == "mv":
        return HOLE
    return HOLE


def _rm(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    parsed = parse(call.args, ("--pathspec-from-file",))
    shell.find(entry.tier, entry.rule, f"`git rm`: {entry.because}")
    shell.facts.writes = True
    tree = parsed.has("-r")
    cached = parsed.has("--cached")
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
    if name in ("checkout", "restore", "checkout-index"):
        paths = (
            list(call.args[call.args.index("--") + 1 :])
            if "--" in call.args
            else parsed.operands[1 if name == "checkout" else 0 :]
        )
        for path in paths:
            shell.touch(How.WRITE, path, program="git")
    for text in parsed.values("--exec", "-x"):
        if name == "rebase":
            shell.find(Tier.DANGER, "runs-text", "`git rebase --exec` runs a program")
            shell.run_text(text)
    if name == "reset":
        for path in parsed.operands[1:]:
            shell.touch(How.META, path, program="git")
    return HOLE


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


_SPECIAL = {
    "config": _config,
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
            "archive",
            "fast-export",
            "credential-store",
            "interpret-trailers",
            "subtree",
        ),
        _plumbing,
    ),
}
READERS = {"git": _git}
