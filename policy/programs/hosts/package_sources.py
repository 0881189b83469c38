# SPDX-License-Identifier: Apache-2.0
"""Where an install takes its packages from: the host's own index, or what the call itself names.

Pure. An index that the call names takes the place of the host's, which is not opened then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from policy.hosts import of_address
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import Parsed
from policy.values.partial import unknown

_CLIENTS = {"npm": "npm", "pnpm": "npm", "pip": "pip", "pip3": "pip"}
"""By program: the client whose settings say where its packages come from."""
_INDEX = {"pip": ("-i", "--index-url", "--pypi-url"), "npm": ("--registry",)}
"""Options that name another index in the place of the usual one."""
_MORE = ("--extra-index-url", "-f", "--find-links", "-r", "--requirement", "-c", "--constraint",
         "-e", "--editable")  # fmt: skip
_INDEX_VARIABLE = {"pip": "pip_index_url", "npm": "npm_config_registry"}
_MORE_VARIABLES = ("pip_extra_index_url", "pip_find_links")
_DIRECT = re.compile(r"(?:[\w.\[\],-]{1,200}\s*@\s*)?((?:git\+)?(?:https?|ssh)://\S+)")


def note_sources(shell: Shell, call: Call, parsed: Parsed, operands: Iterable[str]) -> None:
    """Record the index that an install asks, or the hosts that it names instead and besides."""
    client = _CLIENTS.get(call.name)
    if client is None:
        return
    settings = {name.lower(): value for name, value in shell.facts.settings}
    instead = parsed.values(*_INDEX[client])
    if not instead and (said := settings.get(_INDEX_VARIABLE[client])):
        instead = [said]
    if not instead and not (client == "pip" and parsed.has("--no-index")):
        shell.facts.indexes[client] = None
    besides = [*operands, *(parsed.values(*_MORE) if client == "pip" else ())]
    if client == "pip":
        besides += (word for name in _MORE_VARIABLES for word in settings.get(name, "").split())
    for text in (*instead[-1:], *besides):
        match = None if unknown(text) else _DIRECT.fullmatch(text.strip())
        if match is not None and (host := of_address(match[1].removeprefix("git+"))) is not None:
            shell.facts.hosts[host] = None
