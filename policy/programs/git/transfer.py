# SPDX-License-Identifier: Apache-2.0
"""git subcommands that fetch from another machine or push to it."""

from __future__ import annotations

import re

from policy.facts import How
from policy.hosts import of_address
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Entry
from policy.programs.git.remotes import REMOTE, note_remote
from policy.programs.git.settings import set_key
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE

_ASKS_REMOTE = frozenset(("fetch", "pull", "push", "ls-remote"))


def read_transfer(catalog: Catalog, shell: Shell, call: Call, entry: Entry) -> str:
    """Read a subcommand that speaks to another repository."""
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
