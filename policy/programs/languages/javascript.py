# SPDX-License-Identifier: Apache-2.0
"""JavaScript runtimes: literal programs are read, files are code in the cell."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages import literal_code
from policy.programs.languages.python import governed
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import HOLE, NET, unknown

_EVALUATES = re.compile(r"-(?:[ipe]+)$|--(?:eval|print)$")
_LOADS = ("-r", "--require", "--import", "--loader", "--experimental-loader")
_WRITES = (
    "--redirect-warnings",
    "--cpu-prof-dir",
    "--heap-prof-dir",
    "--diagnostic-dir",
    "--report-dir",
    "--report-directory",
    "--trace-event-file-pattern",
    "--report-filename",
    "--cpu-prof-name",
    "--heap-prof-name",
    "--test-reporter-destination",
    "--snapshot-blob",
    "--icu-data-dir",
    "--tls-keylog",
    "--logfile",
    "--localstorage-file",
    "--experimental-sea-config",
    "--perf-prof-path",
)
_URL = re.compile(r"^(?:https?://|npm:|jsr:|data:)")
_BUN = frozenset(
    (
        "install",
        "i",
        "add",
        "remove",
        "update",
        "run",
        "test",
        "build",
        "create",
        "link",
        "pm",
        "x",
        "init",
        "task",
        "lint",
        "fmt",
        "check",
        "cache",
        "bench",
        "compile",
        "repl",
        "upgrade",
        "publish",
        "doc",
        "info",
    )
)


def _node(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    words = list(call.args)
    if call.name in ("deno", "bun") and words and words[0] in _BUN | {"eval"}:
        verb = words.pop(0)
        if verb == "eval":
            words = ["-e", *words]
        elif verb in ("x", "publish", "upgrade", "create"):
            shell.find(Tier.DANGER, "packages", f"`{call.name} {verb}` runs or publishes a package")
        elif verb in ("install", "i", "add"):
            _installed(shell, call, words)
            return HOLE
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("--version", "-v", "--help", "-h"):
            return HOLE
        if word == "-c" and call.name in ("node", "nodejs"):
            word = "--check"
            name = word
        if _EVALUATES.match(name):
            text = (
                value
                if equals
                else (
                    words.pop(0)
                    if words and not (name == "-p" and words[0].startswith("-"))
                    else ""
                )
            )
            return literal_code.read(catalog, shell, "js", text, call)
        if name in _LOADS:
            path = value if equals else (words.pop(0) if words else "")
            if path.startswith((".", "/", "~")):
                shell.touch(How.RUN, path)
            elif _URL.match(path):
                shell.find(Tier.FORBIDDEN, "remote-script", "it loads code from the network")
        elif name in _WRITES:
            catalog.use(
                shell, Use.WRITE, value if equals else (words.pop(0) if words else ""), call
            )
        elif name.startswith(("--inspect", "--allow-all", "-A")):
            if name.startswith("--inspect"):
                shell.find(
                    Tier.DANGER, "debugger", f"`{name}` opens the program for control from outside"
                )
        elif name in ("--env-file", "--config", "-c", "--import-map"):
            shell.touch(How.READ, value if equals else (words.pop(0) if words else ""))
        elif (
            name
            in (
                "-C",
                "--conditions",
                "--title",
                "--max-old-space-size",
                "--input-type",
                "--test-name-pattern",
                "--test-reporter",
                "--stack-trace-limit",
            )
            and not equals
            and words
            and name not in ("--max-old-space-size",)
        ):
            words.pop(0)
    if not words or words[0] == "-":
        if call.stdin is not None:
            return literal_code.read(catalog, shell, "js", call.stdin, call)
        if call.name not in ("bun", "deno") and "--test" not in call.args:
            shell.find(Tier.DANGER, "opaque", "it reads a program that cannot be known")
        return HOLE
    return _file(catalog, shell, call, words)


def _installed(shell: Shell, call: Call, words: list[str]) -> None:
    for word in words:
        if re.match(r"(?:git\+|https?:|git@|github:|file:)", word):
            shell.find(Tier.DANGER, "packages", "it installs code from an address")


def _file(catalog: Catalog, shell: Shell, call: Call, words: list[str]) -> str:
    path = words[0]
    if _URL.match(path):
        shell.facts.network = True
        shell.find(Tier.FORBIDDEN, "remote-script", f"it runs a program from the address `{path}`")
        return NET
    content = shell.held(path)
    if call.name in ("bun", "deno") and "/" not in path and "." not in path:
        return HOLE
    shell.touch(How.RUN, path, program=call.name)
    catalog.downloaded(shell, path)
    if unknown(path):
        shell.find(Tier.DANGER, "opaque", "the program that it runs cannot be known")
    if content is not None:
        return literal_code.read(catalog, shell, "js", content, call)
    for word in words[1:]:
        governed(shell, word)
    return HOLE


READERS = {"node": _node}
