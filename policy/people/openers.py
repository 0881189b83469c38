# SPDX-License-Identifier: Apache-2.0
"""Which hosts a call wanted in vain, and the words that open them. Pure; nothing is decided by it.

Names that a command printed are only told, to a person who then decides about each of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from policy.hosts import host_name
from policy.model import ActionPlan, Decision, Verdict
from policy.people.approval import may_open

MOST_NAMES = 5
"""Names in one line."""
MOST_COMMAND = 300
"""Characters of a command that are written out."""
_TAIL = 8_000
_NAME = r"([A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){1,30})"
_WANTED = re.compile(
    r"(?:[Cc]ould not resolve (?:host|proxy): ?|getaddrinfo (?:ENOTFOUND|EAI_AGAIN) |host=['\"]"
    r"|dial tcp: lookup |unable to resolve host address ['\u2018]|[Tt]emporary failure resolving ')"
    + _NAME
)


def names_wanted(stdout: str, stderr: str) -> tuple[str, ...]:
    """Return the names that programs say they could not resolve, each once."""
    text = stderr[-_TAIL:] + "\n" + stdout[-_TAIL:]
    found = (host_name(match[1]) for match in _WANTED.finditer(text))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def say_opener(plan: ActionPlan, decision: Decision, names: Iterable[str], *, env: bool) -> str:
    """Return what opens hosts for a call, in words; `env`: variables were set for it.

    Where no name is known, the words have a place for one. A name may have a port (`NAME:PORT`).
    """
    plain = not (env or plan.also or plan.derived_from or plan.params.run_in_background)
    command = plan.params.command or ""
    plain_names = (one for one in names if host_name(name := one.partition(":")[0]) == name)
    hosts = list(plain_names)[:MOST_NAMES]
    if not plain or not may_open(decision):
        if decision.verdict is Verdict.ASK:
            return "write the host out in the command, and a person's yes opens it"
        return (
            "a command that names the host is asked about, and `network` in a policy file opens it"
        )
    words = ["lockgate", "grant"]
    for name in hosts or ["NAME"]:
        words += ["--host", name]
    words += ["-w", plan.workspace]
    if plan.cwd not in (None, plan.workspace):
        words += ["--cwd", str(plan.cwd)]
    if plan.agent != "main":
        words += ["--agent", plan.agent]
    if plan.role:
        words += ["--role", plan.role]
    if len(command) > MOST_COMMAND or not command.isprintable():
        return f"`{shlex.join(words)} -- COMMAND` opens it for this command"
    return f"`{shlex.join(words)} -- {shlex.quote(command)}` opens it for this command"
