# SPDX-License-Identifier: Apache-2.0
"""Programs that control the machine, its services, its packet filter, its keys, and this gate."""

from __future__ import annotations

import re
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages.python import run_code
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NET, unknown


def _keys(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    name = call.name
    words = [argument for argument in call.args if not argument.startswith("-")]
    shell.facts.writes = True
    if name == "openssl":
        return _openssl(catalog, shell, call, entry, words)
    shell.find(entry.tier, entry.rule, f"`{name}`: {entry.because}")
    if name in (
        "pass",
        "secret-tool",
        "security",
        "kwalletcli",
        "lpass",
        "op",
        "bw",
        "doppler",
        "chamber",
        "cmdkey",
        "vault",
        "gnome-keyring",
        "keyring",
    ):
        shell.find(Tier.FORBIDDEN, "secrets", f"`{name}` prints or changes stored secrets")
    if name == "ssh-add" or (
        name in ("gpg", "gpg2")
        and any(argument.startswith("--export-secret") for argument in call.args)
    ):
        shell.find(Tier.FORBIDDEN, "secrets", f"`{name}` reaches private keys")
    parsed = parse(
        call.args,
        (
            "-f",
            "-o",
            "--output",
            "-i",
            "-C",
            "-N",
            "-t",
            "-b",
            "-r",
            "--recipient",
            "-u",
            "-P",
            "-keystore",
            "-storepass",
        ),
    )
    if name == "ssh-keygen" and not parsed.has("-l", "-y", "-F", "-B", "-e", "-R"):
        for path in parsed.values("-f"):
            catalog.use(shell, Use.WRITE, path, call)
    for path in (
        *parsed.values("-f", "-i", "-keystore"),
        *(parsed.operands if name in ("gpg", "gpg2", "age", "sops") else ()),
    ):
        if not path.startswith("-"):
            shell.touch(How.READ, path, program=name)
    for path in parsed.values("-o", "--output"):
        catalog.use(shell, Use.WRITE, path, call)
    return HOLE


_PUBLIC = frozenset(("x509", "verify", "crl", "ciphers"))
"""What shows or checks certificates, which are no secrets ..."""
_SIGNS = frozenset(("-req", "-new", "-CA", "-CAkey", "-signkey", "-key", "-passin"))
"""... but not where it makes one."""


def _openssl(catalog: Catalog, shell: Shell, call: Call, entry: Programs, words: list[str]) -> str:
    verb = words[0] if words else ""
    args = list(call.args)
    for flag, value in pairwise(args):
        if flag in (
            "-in",
            "-inkey",
            "-key",
            "-CAkey",
            "-signkey",
            "-kfile",
            "-pass",
        ) and not value.startswith(("pass:", "env:", "stdin")):
            shell.touch(How.READ, value.removeprefix("file:"), program="openssl")
        elif flag in ("-out", "-keyout", "-writerand"):
            catalog.use(shell, Use.WRITE, value, call)
    if verb in ("s_client", "s_server", "s_time", "ocsp"):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`openssl {verb}` talks to other machines")
        leaks.sent(shell, call)
        return NET
    public = verb in _PUBLIC and _SIGNS.isdisjoint(args)
    if not public and verb not in ("version", "help", "list", "dgst", "rand", "sha256", "md5"):
        shell.find(entry.tier, entry.rule, f"`openssl`: {entry.because}")
    if verb in ("base64", "enc") and ("-base64" in args or "-a" in args or verb == "base64"):
        named = next((value for flag, value in pairwise(args) if flag == "-in"), None)
        flags = tuple(one for one in ("-d",) if one in args)
        plain = ("base64", *flags, *((named,) if named is not None else ()))
        if not any(
            "pbkdf" in argument or argument.startswith(("-aes", "-k", "-pass")) for argument in args
        ):
            return shell.call(Call(plain, call.stdin, call.env, plain=False))
    if verb == "dgst":
        for path in words[1:]:
            shell.touch(How.READ, path, program="openssl")
    return HOLE


def _debugger(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    outputs.record(catalog, shell, call)
    for path in parse(call.args, ("-o", "-p", "-e"), in_order=call.name != "perf").values("-o"):
        if call.name in ("perf", "rr", "bpftrace", "py-spy"):
            catalog.use(shell, Use.WRITE, path, call)
    parsed = parse(
        call.args,
        ("-p", "--pid", "-x", "--command", "-ex", "--eval-command", "-c", "--core", "-o", "-O"),
        ("-nx", "-nh", "-batch", "-quiet", "-q", "-n"),
    )
    for text in (*parsed.values("-ex", "--eval-command"), *([call.stdin] if call.stdin else [])):
        for match in re.finditer(
            r"(?m)^[^\S\n]*+(?:shell|!|platform shell|pipe)[^\S\n]*+(.+)", text
        ):
            shell.run_text(match[1])
        for match in re.finditer(
            r"(?m)^[^\S\n]*+(?:python|py|python-interactive|pi|script)[^\S\n]++(.+)", text
        ):
            run_code(catalog, shell, match[1], [], None)
    if entry.tier is Tier.CAUTION:  # a form, in which the project's program is the first path
        start = next(at for at, one in enumerate(call.args) if one.startswith("./"))
        shell.call(call.only(call.args[start:]))
    elif "--args" in call.args or call.name in ("perf", "valgrind", "rr", "nsjail"):
        words = parsed.operands
        first = next(
            (
                at
                for at, one in enumerate(words)
                if catalog.lookup(one.rsplit("/", 1)[-1]) is not None
            ),
            None,
        )
        if first is not None:
            shell.call(call.only(tuple(words[first:])))
    return HOLE


_APPROVES = frozenset(
    (
        "approve",
        "grant",
        "allow",
        "resume",
        "undo",
        "stop",
        "land",
        "reject",
        "deny",
        "trust",
        "config",
        "set",
        "unregister",
        "register",
        "agents",
        "revoke",
        "init",
        "workspace",
        "workspaces",
        "promote",
        "pin",
        "serve",
        "supervisor",
        "daemon",
        "answer",
        "discard",
        "mode",
        "role",
        "level",
    )
)
_ASKS = frozenset(
    (
        "check",
        "explain",
        "status",
        "doctor",
        "--version",
        "--help",
        "help",
        "log",
        "diff",
        "list",
        "audit",
    )
)


def _lockgate(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = [argument for argument in call.args if not argument.startswith("-")]
    verb = words[0] if words else ""
    if (verb in _ASKS and not unknown(" ".join(words))) or (
        not words and set(call.args) <= {"--version", "--help", "-h", "-V"}
    ):
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    elif verb in _APPROVES or unknown(verb) or not words:
        shell.find(
            Tier.FORBIDDEN,
            "self-approval",
            f"`lockgate {verb}`: an agent cannot approve, undo or stop for a person",
        )
    else:
        shell.find(
            Tier.FORBIDDEN,
            "self-approval",
            "an agent does not command the gate that it stands before",
        )
    return HOLE


READERS = {
    "keys": _keys,
    "debugger": _debugger,
    "lockgate": _lockgate,
}
