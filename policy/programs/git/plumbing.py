# SPDX-License-Identifier: Apache-2.0
"""git subcommands for scripts: files that they write, and programs that their options start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME, unknown

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


def read_plumbing(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read a subcommand that writes files or starts programs that its options name."""
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
            for match in _PATCHED.finditer(call.stdin or ""):
                shell.touch(How.WRITE, match[1], program="git")
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
