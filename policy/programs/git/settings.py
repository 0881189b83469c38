# SPDX-License-Identifier: Apache-2.0
"""git settings: which of them run programs, redirect writes or switch checks off."""

from __future__ import annotations

from fnmatch import fnmatchcase

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.programs.hosts.wrappers import pieces
from policy.protected.git_settings import GitSettings
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, shown


def set_key(catalog: Catalog, shell: Shell, key: str, value: str) -> None:
    """Record what a git setting does."""
    if any(fnmatchcase(key.lower(), pattern) for pattern in catalog.git_keys):
        because = f"the git setting `{shown(key)}` is one that a policy file asks about"
        shell.find(Tier.DANGER, "git-config", because)
    setting = GitSettings.default().of(key)
    if setting is None:
        shell.find(
            Tier.DANGER, "git-config", f"`{shown(key)}` is not a git setting that the policy knows"
        )
        return
    if value.strip() in setting.harmless:
        return
    if setting.tier is not Tier.CAUTION:
        shell.find(setting.tier, "git-config", f"the git setting `{shown(key)}` {setting.because}")
    if setting.value == "alias":
        shell.state.git_aliases[key.partition(".")[2]] = value
        if value.startswith("!"):
            shell.aside(lambda: shell.run_text(value[1:]))
        else:
            shell.aside(lambda: shell.call(Call(("git", *pieces(value)), plain=False)))
    elif setting.value == "shell":
        text = value.removeprefix("!")
        shell.aside(lambda: shell.run_text(text))


def config(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
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
        if parsed.has("--global", "--list", "-l") and any("credential" in word for word in words):
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
