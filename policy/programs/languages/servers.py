# SPDX-License-Identifier: Apache-2.0
"""Servers that only listen: in a cell no other machine reaches them, nor do they reach one.

What they show is read, so a folder that holds secrets counts as read. One that passes requests on
to other machines is none of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from policy.facts import How
from policy.model import Tier
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import Parsed, parse

_SAID = "serves in the cell, where no other machine reaches it"
_HTTP = ("-b", "--bind", "-d", "--directory", "-p", "--protocol", "--tls-cert", "--tls-key",
         "--tls-password-file")  # fmt: skip
_BARE = ("--cgi", "-h", "--help")
_MAIL = ("-c", "--class", "-s", "--size", "-u")
_PHP = ("-S", "-t")
_RUBY = ("-p", "--port", "-b", "--bind-address", "--max-clients", "--temp-dir", "--request-timeout")
_PASSES_ON = ("-P", "--proxy", "--proxy-options", "--proxy-config")


def python_module(shell: Shell, name: str, words: Sequence[str]) -> bool:
    """Note what a server of Python's own library shows; False where it is none, or does more."""
    if name == "http.server":
        parsed = parse(words, _HTTP, _BARE)
        if not set(parsed.flags) <= {*_HTTP, *_BARE}:
            return False
        for folder in parsed.values("-d", "--directory"):
            shell.touch(How.READ, folder, program=name)
        for path in parsed.values("--tls-cert", "--tls-key", "--tls-password-file"):
            shell.touch(How.READ, path, program=name)
    elif name == "smtpd":
        kinds = parse(words, _MAIL).values("-c", "--class")
        if [kind.rpartition(".")[2] for kind in kinds] != ["DebuggingServer"]:
            return False  # others pass mail on
    else:
        return False
    shell.find(Tier.CAUTION, "code", f"`python -m {name}` {_SAID}")
    return True


def package(shell: Shell, call: Call, parsed: Parsed) -> None:
    """Note what `http-server` and `serve` show."""
    if any(parsed.has(option) for option in _PASSES_ON):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`{call.name}` passes requests on to other machines")
        return
    for path in parsed.operands:
        if "://" not in path:
            shell.touch(How.READ, path, program=call.name)
    shell.find(Tier.CAUTION, "build", f"`{call.name}` {_SAID}")


def interpreter(shell: Shell, name: str, call: Call) -> bool:
    """Note what PHP's own server (`php -S`), or Ruby's (`ruby -run -e httpd`), shows and runs."""
    words = list(call.args)
    if name == "php" and words[:1] == ["-S"]:
        parsed = parse(words, _PHP)
        if not set(parsed.flags) <= {"-S", "-t", "-q", "-n"} or len(parsed.operands) > 1:
            return False
        for folder in parsed.values("-t"):
            shell.touch(How.READ, folder, program=name)
        for script in parsed.operands:
            shell.touch(How.RUN, script, program=name)
    elif name == "ruby" and words[:3] == ["-run", "-e", "httpd"]:
        parsed = parse(words[3:], _RUBY)
        if not set(parsed.flags) <= {*_RUBY}:
            return False
        for folder in parsed.operands:
            shell.touch(How.READ, folder, program=name)
    else:
        return False
    shell.find(Tier.CAUTION, "code", f"`{name}` {_SAID}")
    return True
