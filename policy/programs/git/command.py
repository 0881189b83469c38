# SPDX-License-Identifier: Apache-2.0
"""git: global options, settings that run programs, and subcommands by what they do."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry, Programs, Use
from policy.programs.entries import output, verb
from policy.programs.git.settings import set_key
from policy.programs.git.verbs import SPECIAL
from policy.programs.hosts.wrappers import pieces
from policy.shell.interpreter import Shell
from policy.shell.state import MOST_PLACES, Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME, NET, shown, unknown

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
        shell.state.places = tuple(shell.resolve(folder, place) for place in shell.state.places)[
            -MOST_PLACES:
        ]
        shell.touch(How.EXIST, shell.state.place, program="cd")
    try:
        if not parsed.operands:
            return HOLE
        return _subcommand(catalog, shell, call, entry, parsed.operands)
    finally:
        shell.state.places = kept


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
    does = catalog.forms.milder(inner, chosen[1])
    special = SPECIAL.get(name)
    if special is not None:
        return special(catalog, shell, inner, does)
    catalog.by_data(shell, inner, does)
    _pathspecs(shell, inner, name, does)
    if NET in (call.stdin or ""):
        return NET
    if name == "ls-files":
        return output(Entry(tier=Tier.SAFE, because="", prints="names"), inner)
    if (made := _formatted(inner)) != HOLE:
        return made
    return NAME + "\n" if name in _LISTING else HOLE


_FORMAT = re.compile(r"--(?:format|pretty)=(?:t?format:)?(.*)", re.DOTALL)
_FIELD = re.compile(r"%(?:\([^)]*\)|x[0-9a-fA-F]{2}|[+ -]?[a-zA-Z]{1,2}|%)")


def _formatted(call: Call) -> str:
    """Return what a subcommand prints whose format the call gives."""
    for at, word in enumerate(call.args):
        match = _FORMAT.fullmatch(word)
        following = call.args[at + 1 : at + 2] if word == "--format" else ()
        text = match[1] if match else "".join(following)
        if _FIELD.sub("", text).strip():
            return _FIELD.sub(HOLE, text) + "\n"
    return HOLE


def _pathspecs(shell: Shell, call: Call, name: str, entry: Entry) -> None:
    """Record the files that a reading subcommand prints."""
    if entry.tier is not Tier.SAFE:
        return
    parsed = parse(call.args, frozenset((*entry.values, *entry.uses)))
    outside = "--no-index" in call.args
    looks = name in ("check-ignore", "check-attr", "ls-files", "status")
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
        elif looks:
            shell.touch(How.EXIST, path, program="git")
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
                shell.aside(lambda: shell.run_text(found[1] or found[2] or ""))  # noqa: B023
    for value in parsed.values("-L"):
        if ":" in value:
            shell.touch(How.READ, value.rsplit(":", 1)[1], program="git")


READERS = {"git": _git}
