# SPDX-License-Identifier: Apache-2.0
"""Package managers: npm and its kin, npx, pip, and those of the system."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.hosts.package_sources import note_sources
from policy.programs.languages import project_scripts as scripts
from policy.programs.languages.python import governed
from policy.programs.languages.sql import drops
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, unknown

_ADDRESS = re.compile(
    r"(?:^|@)(?:git\+|git:|https?:|ssh:|git@|github:|gitlab:|bitbucket:|file:\.\./|/)|\.(?:tgz|tar\.gz)$"
)
_REMOTE = frozenset(
    (
        "publish",
        "unpublish",
        "deprecate",
        "dist-tag",
        "owner",
        "adduser",
        "login",
        "logout",
        "access",
        "team",
        "org",
        "hook",
        "star",
        "profile",
        "token",
        "stage",
    )
)
_RUN = frozenset(
    (
        "run",
        "run-script",
        "test",
        "t",
        "start",
        "stop",
        "restart",
        "build",
        "dev",
        "lint",
        "rum",
        "urn",
        "tst",
        "format",
        "typecheck",
        "check",
        "prepare",
        "preview",
        "serve",
        "watch",
        "e2e",
        "coverage",
        "ci-test",
    )
)
_RUNNING = frozenset(("run", "run-script", "rum", "urn"))
"""Verbs behind which the script is named."""
_SETTINGS = (
    "--registry",
    "--script-shell",
    "--userconfig",
    "--globalconfig",
    "--node-options",
    "--shell",
    "--git",
    "--editor",
    "--viewer",
    "--cafile",
    "--proxy",
    "--https-proxy",
)

_OWN = frozenset(("--no",))
"""Options of npm's that another's name begins with."""
_SHORTEST = len("--sc")
"""npm takes what is left of an option's name for the option, where it is the only one."""


def _npm(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values)
    rule, because = _scripted(parsed.operands) or (entry.rule, entry.because)
    shell.find(entry.tier, rule, f"`{call.name}`: {because}")
    shell.facts.writes = True
    for flag in _SETTINGS:
        for value in parsed.values(flag):
            if value:
                shell.find(
                    Tier.DANGER, "packages", f"`{call.name} {flag}` changes what is run or trusted"
                )
                if flag in ("--userconfig", "--globalconfig"):
                    shell.touch(How.READ, value)
    for name in parsed.flags:
        full = next((one for one in _SETTINGS if one.startswith(name)), name)
        if full != name and len(name) >= _SHORTEST and name not in _OWN:
            because = (
                f"`{call.name} {name}` stands for `{full}`, and changes what is run or trusted"
            )
            shell.find(Tier.DANGER, "packages", because)
    if parsed.value("--strict-ssl") == "false" or parsed.has("--no-strict-ssl"):
        shell.find(Tier.DANGER, "security", "it does not check whom it talks to")
    for path in parsed.values(
        "--prefix", "-C", "--dir", "--cwd", "--pack-destination", "--cache", "--modules-folder"
    ):
        shell.touch(How.WRITE, path, program=call.name)
    words = parsed.operands
    scripts.npm(shell, call, words)
    verb = words[0] if words else "install"
    if (
        verb in ("exec", "x", "dlx")
        or (call.name in ("yarn", "pnpm") and verb == "create")
        or (verb in ("init", "create") and len(words) > 1)
    ):
        return _execute(catalog, shell, call, parsed, words[1:], fetches=verb not in ("exec", "x"))
    if "npm" in words[:1] and "publish" in words[1:2]:
        verb = "publish"  # yarn npm publish
    if verb in ("config", "c", "get") and any("_auth" in one.lower() for one in words[1:]):
        shell.find(Tier.FORBIDDEN, "secrets", "it prints a token")
    if verb in ("config", "c", "set") and words[1:2] not in (["get"], ["list"], ["ls"]):
        shell.find(
            Tier.DANGER, "packages", f"`{call.name} config` changes settings that later runs obey"
        )
        for value in words[2:]:
            if value.startswith(("./", "/", "~")):
                shell.touch(How.READ, value)
    elif verb in _REMOTE:
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`{call.name} {verb}` changes what the index holds")
        if verb == "token":
            shell.find(Tier.FORBIDDEN, "secrets", "it handles tokens")
    elif verb == "cache" and words[1:2] == ["clean"]:
        shell.find(Tier.DANGER, "delete", "it deletes the cache")
    elif verb in (
        "install",
        "i",
        "add",
        "ci",
        "update",
        "upgrade",
        "link",
        "install-test",
        "it",
        "up",
        "in",
        "import",
    ):
        _install(shell, call, parsed, words[1:])
    elif verb in ("uninstall", "remove", "rm", "un", "r", "unlink", "prune", "dedupe"):
        shell.find(Tier.CAUTION, "packages", "it removes packages")
    elif verb in ("global",):
        shell.find(Tier.DANGER, "packages", "it installs for the whole machine")
    elif call.name in ("yarn", "pnpm") and verb not in _RUN and _tool(catalog, verb):
        return shell.call(Call(tuple(words), call.stdin, call.env, plain=False))
    for word in words[1:]:
        governed(shell, word)
    return HOLE


def _scripted(words: list[str]) -> tuple[str, str] | None:
    """Return rule and reason where a verb runs a script of the project, and installs nothing."""
    if not words or words[0] not in _RUN:
        return None
    name = words[1] if words[0] in _RUNNING and len(words) > 1 else words[0]
    if name in ("t", "tst", "e2e", "coverage") or name.startswith(("test", "ci-test")):
        return "tests", "runs the project's tests"
    return "build", "runs a script of the project"


def _tool(catalog: Catalog, verb: str) -> bool:
    """Whether a verb of yarn or pnpm names a tool of the project."""
    entry = catalog.lookup(verb)
    return entry is not None and entry.handler in (
        "linter", "runner", "build", "deleter", "node", "npx", "python", "shell", "rm", "wrapper",
        "env", "privilege",
    )  # fmt: skip


def _install(shell: Shell, call: Call, parsed: Parsed, words: list[str]) -> None:
    note_sources(shell, call, parsed, words)
    if parsed.has("-g", "--global") or parsed.value("--location") in ("global", "user"):
        shell.find(Tier.CAUTION, "packages", "it installs into the cell, which is thrown away")
    for word in words:
        if _ADDRESS.search(word) or re.match(r"[\w.-]+/[\w.-]+(?:#|$)", word):
            shell.find(Tier.DANGER, "packages", f"it installs code from the address `{word}`")


def _execute(
    catalog: Catalog, shell: Shell, call: Call, parsed: Parsed, words: list[str], *, fetches: bool
) -> str:
    texts = parsed.values("-c", "--call")
    for text in texts:
        shell.run_text(text)
    for value in parsed.values("-p", "--package"):
        if catalog.lookup(value.split("@")[0] or value) is None:
            shell.find(Tier.DANGER, "packages", f"it runs the package `{value}` of the index")
    if not words:
        return HOLE
    if " " in words[0]:
        return shell.run_text(" ".join(words))
    rest = list(call.args)
    start = rest.index(words[0])
    return tool(catalog, shell, call, rest[start:], fetches=fetches)


def tool(catalog: Catalog, shell: Shell, call: Call, words: list[str], *, fetches: bool) -> str:
    """Record that a tool of the project, or a package of the index, is run."""
    name = re.sub(r"(?<=.)@[\w.^~*-]+$", "", words[0])
    base = name.rsplit("/", 1)[-1] if name.startswith("@") else name
    entry = catalog.lookup(name) or (
        catalog.lookup(base) if name.startswith("@") and base in ("cli", "jest") else None
    )
    known = entry is not None and (
        entry.handler in ("linter", "runner", "build", "deleter", "npm", "node", "converter")
        or (entry.rule == "launcher" and entry.tier is Tier.CAUTION)
    )
    installed = f"{shell.state.place}/node_modules/.bin/{name.rsplit('/', 1)[-1]}"
    if not known and not fetches and not unknown(installed):
        shell.facts.wanted[installed] = None
        seen = shell.disk.get(installed)
        known = seen is not None and not (seen.folder or seen.absent)
    if fetches or not known or _ADDRESS.search(words[0]):
        shell.find(Tier.DANGER, "packages", f"it runs the package `{words[0]}` of the index")
    drops(shell, Call(tuple(words)))
    if entry is None:
        for word in words[1:]:
            governed(shell, word)
        return HOLE
    return shell.call(
        Call(
            (name if catalog.lookup(name) else base, *words[1:]), call.stdin, call.env, plain=False
        )
    )


def _npx(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    parsed = parse(call.args, entry.values, in_order=True)
    return _execute(catalog, shell, call, parsed, parsed.operands, fetches=False)


def _pip(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    if call.name in ("pipx", "uvx"):
        parsed = parse(call.args, entry.values, in_order=True)
        words = parsed.operands[1:] if call.name == "pipx" else parsed.operands
        if call.name == "pipx" and parsed.operands[:1] in (["list"], ["environment"]):
            return HOLE
        if words and call.name == "uvx" and catalog.lookup(words[0]) is not None:
            return tool(catalog, shell, call, words, fetches=False)
        shell.find(
            Tier.DANGER, "packages", f"`{call.name}` installs or runs a package of the index"
        )
        return HOLE
    parsed = parse(call.args, entry.values)
    words = parsed.operands
    verb = words[0] if words else ""
    for path in parsed.values(
        "--log",
        "--report",
        "-o",
        "--output",
        "-d",
        "--dest",
        "-w",
        "--wheel-dir",
        "-t",
        "--target",
        "--prefix",
        "--root",
        "--src",
        "--cache-dir",
    ):
        catalog.use(shell, Use.WRITE, path, call)
    for path in parsed.values(
        "-r", "--requirement", "-c", "--constraint", "--cert", "--client-cert"
    ):
        if re.match(r"https?:", path):
            shell.find(Tier.DANGER, "packages", "it installs what an address lists")
        else:
            shell.touch(How.READ, path, program="pip")
    for flag in (
        "-i",
        "--index-url",
        "--extra-index-url",
        "--trusted-host",
        "--proxy",
        "-f",
        "--find-links",
    ):
        for value in parsed.values(flag):
            if "://" in value or flag in ("--trusted-host", "--proxy"):
                shell.find(Tier.DANGER, "packages", f"`pip {flag}` names another index")
    if parsed.has("--global-option", "--install-option", "--build-option"):
        shell.find(Tier.DANGER, "packages", "it hands options to code that the package holds")
    if parsed.has("--break-system-packages", "--user"):
        shell.find(Tier.DANGER, "packages", "it installs for the whole user or machine")
    for value in parsed.values("-e", "--editable"):
        governed(shell, re.sub(r"\[[^\]]*\]$", "", value))
        if _ADDRESS.search(value):
            shell.find(Tier.DANGER, "packages", f"it installs code from the address `{value}`")
    if verb == "config" and words[1:2] not in (["list"], ["get"], ["debug"]):
        shell.find(Tier.DANGER, "packages", "`pip config` changes settings that later runs obey")
    elif verb in ("install", "download", "wheel"):
        note_sources(shell, call, parsed, words[1:])
        for value in words[1:]:
            governed(shell, re.sub(r"\[[^\]]*\]$", "", value))
            if _ADDRESS.search(value) or "@ " in value or "://" in value:
                shell.find(Tier.DANGER, "packages", f"it installs code from the address `{value}`")
    elif verb == "cache" and words[1:2] in (["purge"], ["remove"]):
        shell.find(Tier.DANGER, "delete", "it deletes the cache")
    elif verb == "uninstall":
        shell.find(Tier.CAUTION, "packages", "it removes packages")
    return HOLE


def _system(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    parsed = parse(call.args, ("-o", "-c", "-t", "--root", "--option", "--run", "--command"))
    for setting in parsed.values("-o", "--option"):
        found = re.match(
            r"[\w:-]*(?:Pre-Invoke|Post-Invoke|Pre-Install-Pkgs)[\w:]*=(.*)", setting, re.IGNORECASE
        )
        if found:
            shell.run_text(found[1])
    for text in parsed.values("--run", "--command"):
        shell.run_text(text)
    for word in call.args:
        start, end = word.find("%("), word.rfind(")")
        if 0 <= start < end:
            shell.find(Tier.DANGER, "runs-text", f"`{call.name}`: the macro runs a program")
            shell.run_text(word[start + 2 : end])
    words = parsed.operands
    if words[:1] in (["remove"], ["purge"], ["autoremove"], ["erase"]) and any(
        re.match(r"apparmor|selinux|auditd|ufw|fail2ban|clamav|falco|osquery", one)
        for one in words[1:]
    ):
        shell.find(Tier.FORBIDDEN, "security", "it removes a protection of the machine")
    return HOLE


READERS = {"npm": _npm, "npx": _npx, "pip": _pip, "packages_system": _system}
