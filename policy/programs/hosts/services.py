# SPDX-License-Identifier: Apache-2.0
"""Clients of code hosts, clouds and container engines."""

from __future__ import annotations

import re
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.programs.hosts.network import talks
from policy.shell.interpreter import Shell
from policy.shell.redirects import store
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import NET

_ESCAPES = re.compile(
    r"--privileged(?:=true)?$|--(?:pid|ipc|uts|userns|cgroupns|network|net)=host$|--cap-add=?(?:all|sys_\w+)"
    r"|--security-opt=?\S*(?:unconfined|disable)|--device=/dev/(?:sd|nvme|mem|kmem|vd)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:get-secret-value|get-session-token|print-access-token|print-identity-token"
    r"|get-access-token|get-login-password|get-credentials|assume-role|export-credentials"
    r"|secrets?\s+(?:get|show|list|versions access)|config\s+view\s+--raw|auth:token|auth\s+token"
    r"|configure\s+get\s+\w*(?:secret|key|token)\w*|env\s+pull"
    r"|output\s+-(?:json|raw)|config:get|variables\s+--kv|ssh-keys?\s+list)\b"
)


_DELETES = frozenset(("rm", "del", "delete", "rmr", "rb", "-rm", "dfs"))
_DEEPLY = re.compile(r"-[a-z]*[rR][a-zA-Z]*|--recursive|--recurse|--force")
_TREES = frozenset(("-rmr", "delete-batch"))


def _deletes_tree(args: tuple[str, ...]) -> bool:
    """Return whether words delete a whole tree of what clouds and clusters store."""
    at = next((at for at, one in enumerate(args) if one in _DELETES), len(args))
    forced = "--force" in args and "rb" in args
    deep = [
        argument
        for argument in args[at + 1 :]
        if _DEEPLY.fullmatch(argument) and argument != "--force"
    ]
    return bool(_TREES & set(args)) or forced or bool(deep)


def _codehost(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    talks(shell, call, entry)
    words = [argument for argument in call.args if not argument.startswith("-")]
    if words[:2] in (["auth", "token"], ["auth", "status"]) and (
        "token" in words or "-t" in call.args or "--show-token" in call.args
    ):
        shell.find(Tier.FORBIDDEN, "secrets", "it prints a token")
    if words[:1] == ["alias"] and len(words) > 3:
        shell.find(Tier.DANGER, "redefinition", "it gives a name another meaning")
        if words[3].startswith("!"):
            shell.run_text(words[3][1:])
    parsed = parse(
        call.args,
        (
            "-F",
            "--body-file",
            "-t",
            "--title",
            "-b",
            "--body",
            "-B",
            "-H",
            "-l",
            "-a",
            "-r",
            "--input",
            "-f",
            "--field",
        ),
    )
    for path in parsed.values("--body-file", "--input", "-F"):
        if path != "-" and "=" not in path:
            shell.touch(How.READ, path, program=call.name)
        elif "=@" in path:
            shell.touch(How.READ, path.partition("=@")[2], program=call.name)
    if words[:2] == ["release", "download"]:
        for name in parse(call.args, ("-p", "--pattern", "-O", "--output")).values(
            "-p", "--pattern", "-O", "--output"
        ):
            shell.touch(How.WRITE, name, program=call.name)
            store(shell, name, NET)
    if words[:2] in (["gist", "create"], ["release", "upload"]):
        for path in words[2:]:
            shell.touch(How.READ, path, program=call.name)
    if words[:2] in (["repo", "clone"],) and len(words) > 2:
        shell.files.foreign.add(
            shell.resolve(words[3] if len(words) > 3 else words[2].rsplit("/", 1)[-1])
        )
    return NET


def _cloud(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    talks(shell, call, entry)
    outputs.record(catalog, shell, call)
    text = " ".join(call.args)
    if _SECRET.search(text) or "--with-decryption" in call.args:
        shell.find(Tier.FORBIDDEN, "secrets", "it prints a secret or a token")
    if _deletes_tree(call.args):
        shell.find(Tier.FORBIDDEN, "recursive-delete", f"`{call.name}` deletes a whole tree")
    _fetched(shell, call)
    for flag, value in pairwise(call.args):
        if flag in ("-a", "--args") and call.name == "ansible":
            shell.aside(lambda: shell.run_text(value))  # noqa: B023
    for word in call.args:
        value = word.removeprefix("file://").removeprefix("fileb://")
        if (
            not word.startswith("-")
            and ("/" in value or value.startswith((".", "~")))
            and "://" not in value
        ):
            shell.touch(How.READ, value, program=call.name)
    return NET


def _fetched(shell: Shell, call: Call) -> None:
    """Note a file that a copy out of the cloud writes."""
    words = [argument for argument in call.args if not argument.startswith("-")]
    if len(words) >= 3 and "://" in words[-2] and "://" not in words[-1] and words[-1] != "-":
        base = words[-2].rsplit("/", 1)[-1]
        shell.touch(How.WRITE, words[-1], program=call.name)
        store(shell, words[-1], NET)
        store(shell, f"{words[-1].rstrip('/')}/{base}", NET)


def _containers(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    talks(shell, call, entry)
    parsed = parse(
        call.args,
        (
            "-v",
            "--volume",
            "--mount",
            "--env-file",
            "-e",
            "--env",
            "--name",
            "-w",
            "--workdir",
            "-u",
            "--user",
            "-p",
            "--publish",
            "--network",
            "-f",
            "--file",
            "-H",
            "--host",
            "-n",
            "--namespace",
            "-c",
            "--context",
            "--entrypoint",
            "-t",
            "--tag",
            "-l",
        ),
        in_order=False,
    )
    pairs = [f"{flag}={value}" for flag, value in pairwise(call.args) if flag[:2] == "--"]
    for word in (*call.args, *pairs):
        if _ESCAPES.match(word):
            shell.find(
                Tier.FORBIDDEN, "privilege", f"`{call.name} {word}` gives a container the machine"
            )
    for value in parsed.values("-v", "--volume"):
        host = value.split(":")[0]
        if host == "/" or host.endswith("docker.sock"):
            shell.find(Tier.FORBIDDEN, "privilege", "it gives a container the whole machine")
        if host.startswith(("/", ".", "~")):
            shell.touch(How.READ, host, program=call.name)
    for value in parsed.values("--mount"):
        found = re.search(r"(?:source|src)=([^,]+)", value)
        if found:
            shell.touch(How.READ, found[1], program=call.name)
    for path in parsed.values("--env-file", "-f", "--file"):
        shell.touch(How.READ, path, program=call.name)
    words = parsed.operands
    if words[:1] == ["cp"]:
        for path in words[1:]:
            if ":" not in path:
                shell.touch(
                    How.READ if path is not words[-1] else How.WRITE, path, program=call.name
                )
    if call.name in ("kubectl", "oc") and _SECRET.search(" ".join(call.args)):
        shell.find(Tier.FORBIDDEN, "secrets", "it prints a secret or a token")
    if call.name == "kubectl" and {"secret", "secrets"} & set(words):
        shell.find(Tier.FORBIDDEN, "secrets", "it prints secrets")
    return NET


READERS = {"codehost": _codehost, "cloud": _cloud, "containers": _containers}
