# SPDX-License-Identifier: Apache-2.0
"""Test runners, linters and build tools: code of the project, run in the cell."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages import (
    compilers,
    interpreters,
    literal_code,
    literal_commands,
    servers,
)
from policy.programs.languages import project_scripts as scripts
from policy.programs.languages.python import governed, made, managed
from policy.programs.languages.sql import drops
from policy.programs.languages.test_runners import read_linter, read_runner
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, NET

_VALUES = {"cmake": ("-P",), "java": ("-jar", "-cp", "-classpath", "--class-path")}
_PUBLISHES = frozenset(
    ("publish", "login", "yank", "owner", "deploy", "push", "upload", "release", "logout")
)
_OUTPUTS = (
    "-o",
    "--output",
    "--target-dir",
    "--out-dir",
    "--outfile",
    "--outdir",
    "--out",
    "-coverprofile",
    "--coverprofile",
    "-cpuprofile",
    "-memprofile",
    "--dest",
)


_COMPILERS = frozenset(
    ("gcc", "g++", "cc", "c++", "clang", "clang++", "rustc", "go", "ld", "swiftc")
)


def _build(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    compiles = call.name in compilers.NAMES
    valued = compilers.VALUED if compiles else (*entry.values, *_VALUES.get(call.name, ()))
    parsed = parse(call.args, valued)
    if compiles:
        compilers.record(catalog, shell, call)
    words = parsed.operands
    verb = words[0] if words else ""
    for path in parsed.values(*_OUTPUTS):
        catalog.use(shell, Use.WRITE, path, call)
        if call.name in _COMPILERS and NET not in (call.stdin or ""):
            shell.files.built.add(shell.resolve(path))
    for path in parsed.values(
        "-f",
        "--file",
        "--makefile",
        "--manifest-path",
        "--build-file",
        "--settings-file",
        "--init-script",
        "-C",
        "--directory",
        "--project-dir",
        "--config",
        "-c",
    ):
        shell.touch(How.RUN, path, program=call.name)
    texts = parsed.values("-exec", "-toolexec", "-vettool", "--eval", "-E")
    for text in texts if call.name != "cmake" else ():
        shell.find(Tier.DANGER, "runs-text", f"`{call.name}` runs a program that an option names")
        shell.run_text(text.replace("$(shell ", "$(") if "$(shell" in text else text)
    for value in (*call.args, *parsed.values("--config", "-D")):
        found = re.search(r"(?:runner|rustc-wrapper|linker|rustc|SHELL|CC|MAKE)\s*=\s*(.+)", value)
        if found and (
            value.startswith(("target.", "build.", "--config"))
            or ("=" in value and value.split("=")[0].isupper())
        ):
            shell.find(
                Tier.DANGER, "runs-text", f"`{call.name}` runs a program that an option names"
            )
            catalog.scan(shell, found[1])
    if call.name in ("make", "gmake"):
        scripts.make(shell, call, parsed.value("-f", "--file", "--makefile"))
    elif call.name == "just":
        scripts.just(shell, parsed.value("-f", "--justfile"))
    elif call.name == "ant" and scripts.ant(shell, parsed.value("-f", "--file")):
        shell.find(Tier.FORBIDDEN, "recursive-delete", "its build file deletes a whole tree")
    interpreters.evaluated(catalog, shell, call)
    outputs.record(catalog, shell, call)
    _positional(catalog, shell, call, words)
    if call.name in ("django-admin", "flask"):
        managed(catalog, shell, call, list(call.args))
    _started(catalog, shell, call, parsed)
    drops(shell, call)
    if call.name == "composer" and verb == "global":
        shell.find(Tier.DANGER, "packages", "it installs for the whole machine")
    if call.name == "bundle" and words[:2] == ["config", "set"]:
        shell.find(Tier.DANGER, "packages", "it changes settings that later runs obey")
    if call.name == "dotnet" and words[:2] == ["nuget", "push"]:
        shell.find(Tier.DANGER, "network", "`dotnet nuget push` sends the project to an index")
    if call.name == "java":
        for path in parsed.values("-jar", "-cp", "-classpath", "--class-path"):
            for part in path.split(":"):
                shell.touch(How.RUN, part, program="java")
        _virtual_machine(shell, call)
    if call.name == "go" and words[:1] == ["env"] and {"-w", "-u"} & set(call.args):
        shell.find(Tier.DANGER, "packages", "it changes settings that later runs obey")
    if call.name in ("mvn", "mvnw") and any(one.startswith("exec:") for one in words):
        shell.find(Tier.DANGER, "runs-text", "`mvn exec` runs a program that its settings name")
    if call.name in ("http-server", "serve"):
        servers.package(shell, call, parsed)
    if verb in _PUBLISHES:
        shell.facts.network = True
        shell.find(
            Tier.DANGER, "network", f"`{call.name} {verb}` sends the project to another machine"
        )
    if call.name == "make" and any("clean" in one for one in words):
        shell.find(Tier.CAUTION, "build", "it removes what was built")
    if call.name == "uv" and verb == "pip":
        return shell.call(Call(("pip", *words[1:]), call.stdin, call.env, plain=False))
    if call.name == "uv" and words[:2] in (["tool", "install"], ["tool", "upgrade"]):
        shell.find(Tier.DANGER, "packages", "`uv tool install` installs a package for the user")
    if call.name == "uv" and words[:2] == ["tool", "run"] and words[2:]:
        inner = catalog.lookup(words[2])
        if inner is None or inner.tier is Tier.DANGER:
            shell.find(Tier.DANGER, "packages", f"it runs the package `{words[2]}` of the index")
    if verb in ("install", "add", "get") and call.name in (
        "cargo",
        "go",
        "poetry",
        "pdm",
        "uv",
        "composer",
        "dotnet",
        "mix",
    ):
        if call.name in ("cargo", "go") and verb == "install":
            shell.find(
                Tier.DANGER,
                "packages",
                f"`{call.name} install` builds and installs software for the user",
            )
        for word in words[1:]:
            if re.match(r"(?:git\+|https?:|ssh:|git@)", word):
                shell.find(Tier.DANGER, "packages", f"it installs code from the address `{word}`")
    if call.name == "go" and verb == "run":
        for path in words[1:]:
            if "://" in path:
                shell.find(Tier.DANGER, "packages", f"it runs code from the address `{path}`")
            if path.endswith(".go") or "/" in path:
                shell.touch(How.RUN, path, program="go")
                if (content := shell.held(path)) is not None:
                    literal_code.read(catalog, shell, "other", content, call)
                if "@" in path:
                    shell.find(
                        Tier.DANGER, "packages", f"it runs the package `{path}` of the index"
                    )
    if call.name in ("strip", "ranlib", "objcopy"):
        for path in words:
            catalog.use(shell, Use.WRITE, path, call)
    if call.name == "cargo" and verb == "clean" and (place := parsed.value("--target-dir")):
        shell.touch(How.TREE, place, program="cargo")
    if call.name == "cargo" and verb == "vendor" and words[1:]:
        catalog.use(shell, Use.WRITE, words[1], call)
    if call.name == "meson" and words:
        catalog.use(shell, Use.WRITE, words[1] if verb == "setup" and words[1:] else words[0], call)
    if call.name == "uv" and verb == "venv":
        made(catalog, shell, call, call.args)
    for word in (*words, *(one for values in parsed.flags.values() for one in values)):
        if not word.startswith("//"):  # a label, not a path
            governed(shell, word)
    return HOLE


_CMAKE_TOOLS = {
    "copy": ("cp",),
    "copy_if_different": ("cp",),
    "copy_directory": ("cp", "-r"),
    "copy_directory_if_different": ("cp", "-r"),
    "rename": ("mv",),
    "remove": ("rm",),
    "rm": ("rm",),
    "remove_directory": ("rm", "-r"),
    "touch": ("touch",),
    "touch_nocreate": ("touch",),
    "make_directory": ("mkdir",),
    "create_symlink": ("ln", "-s"),
    "create_hardlink": ("ln",),
    "cat": ("cat",),
    "tar": ("tar",),
}


def _virtual_machine(shell: Shell, call: Call) -> None:
    """Record what options of a Java virtual machine run and read."""
    for word in call.args:
        name, _, value = word.partition("=")
        if name.startswith("-XX:On"):  # OnError, OnOutOfMemoryError
            because = f"`{call.name}` runs a program that an option names"
            shell.find(Tier.DANGER, "runs-text", because)
            shell.run_text(value)
        elif name in ("-XX:Flags", "-XX:VMOptionsFile"):
            shell.touch(How.RUN, value, program=call.name)
        elif word.startswith("@") and not word.startswith("@@"):
            shell.touch(How.RUN, word[1:], program=call.name)


def _positional(catalog: Catalog, shell: Shell, call: Call, words: list[str]) -> None:
    """Record what tools do with operands by their place."""
    args = call.args
    if call.name == "cmake" and args[:1] == ("-E",) and len(args) > 1 and args[1] in _CMAKE_TOOLS:
        shell.call(Call((*_CMAKE_TOOLS[args[1]], *args[2:]), call.stdin, call.env, plain=False))
    elif (call.name in ("ar", "sphinx-build") and len(words) > 1) or (
        call.name == "objcopy" and words
    ):
        catalog.use(shell, Use.WRITE, words[-1] if call.name != "ar" else words[1], call)
    elif call.name in ("hugo", "mvn"):
        for path in parse(args, ("-d", "-l")).values("-d", "-l"):
            catalog.use(shell, Use.WRITE, path, call)


_PLUGINS = re.compile(r"-f?plugin(?:=|$)|--plugin(?:=|$)|-wrapper$|-specs=|-B\.|-B/tmp|--ld-path=")
_CMAKE_RUN = re.compile(r"\bCOMMAND\s+([^)\n]+)")
_TOOLS = re.compile(
    r"-D\s*(?:CMAKE_\w*(?:_LAUNCHER|_COMPILER|_LINKER|_AR|_TIDY|_CPPCHECK|_WHAT_YOU_USE|MAKE_PROGRAM)"
    r"|\w*RULE_LAUNCH\w*|CMAKE_CROSSCOMPILING_EMULATOR|exec\.executable)(?::\w+)?=(.+)",
    re.DOTALL,
)


def _started(catalog: Catalog, shell: Shell, call: Call, parsed: Parsed) -> None:
    """Record what options make a compiler or a build tool start."""
    args = call.args
    for at, word in enumerate(args):
        following = args[at + 1] if at + 1 < len(args) else ""
        joined = word + following if word == "-D" else word
        found = _TOOLS.match(joined)
        if found is not None:
            if re.fullmatch(
                r"(?:/usr/bin/)?(?:ccache|sccache|gcc|g\+\+|clang(?:\+\+)?|cc|c\+\+)(?:-\d+)?",
                found[1],
            ):
                continue
            given = " ".join(
                argument.partition("=")[2]
                for argument in args
                if argument.startswith(("-Dexec.args=", "-Dexec.commandlineArgs="))
            )
            _note_started(shell, call)
            text = f"{found[1]} {given}"
            shell.aside(lambda: shell.run_text(text))  # noqa: B023
        elif word == "-wrapper":
            _note_started(shell, call)
            shell.aside(lambda: shell.call(call.only(tuple(following.split(",")))))  # noqa: B023
        elif _PLUGINS.match(word) and word != "--plugin":
            _note_started(shell, call)
    if call.name == "cmake":
        for path in parsed.values("-P"):
            content = shell.held(path)
            if content is None:
                catalog.script(shell, path)
            for match in _CMAKE_RUN.finditer(content or ""):
                shell.aside(lambda: shell.run_text(match[1]))  # noqa: B023
    if call.name in ("gradle", "gradlew"):
        for path in parsed.values("-I", "--init-script"):
            catalog.script(shell, path)
            literal_commands.read(catalog, shell, shell.held(path) or "", call)


def _note_started(shell: Shell, call: Call) -> None:
    shell.find(Tier.DANGER, "runs-text", f"`{call.name}` runs a program that an option names")


READERS = {"linter": read_linter, "runner": read_runner, "build": _build}
