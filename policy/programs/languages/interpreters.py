# SPDX-License-Identifier: Apache-2.0
"""Interpreters off the allowlist: their literal programs are read by the calls that they make."""

from __future__ import annotations

import re
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.programs.languages import literal_code, servers
from policy.programs.languages.sql import drops
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, unknown

_EVALUATES = {
    "perl": re.compile(r"-[A-Za-z0-9]*[eE]$"),
    "ruby": re.compile(r"-[a-z]*e$"),
    "php": re.compile(r"-[rBRE]$|--run$|--execute$"),
    "lua": re.compile(r"-e$"),
    "luajit": re.compile(r"-e$"),
    "Rscript": re.compile(r"-e$"),
    "R": re.compile(r"-e$"),
    "julia": re.compile(r"-[eE]$"),
    "osascript": re.compile(r"-e$"),
    "groovy": re.compile(r"-e$"),
    "elixir": re.compile(r"-e$|--eval$"),
    "erl": re.compile(r"-eval$"),
    "ghci": re.compile(r"-e$"),
    "expect": re.compile(r"-c$"),
    "scala": re.compile(r"-e$"),
    "guile": re.compile(r"-c$"),
    "racket": re.compile(r"-e$"),
    "octave": re.compile(r"--eval$"),
    "sbcl": re.compile(r"--eval$"),
    "clojure": re.compile(r"-e$|-M$"),
    "clj": re.compile(r"-e$|--eval$|-M$"),
    "bb": re.compile(r"-e$|--eval$"),
    "ghc": re.compile(r"-e$"),
    "runghc": re.compile(r"-e$"),
    "jrunscript": re.compile(r"-e$"),
    "swift": re.compile(r"-e$"),
    "raku": re.compile(r"-[a-z]*e$"),
    "perl6": re.compile(r"-[a-z]*e$"),
    "kotlin": re.compile(r"-e$"),
    "kotlinc": re.compile(r"-e$"),
    "crystal": re.compile(r"eval$"),
    "pry": re.compile(r"-e$|--exec$"),
    "gosh": re.compile(r"-e$"),
    "csi": re.compile(r"-e$|-eval$"),
    "ocaml": re.compile(r"-e$"),
    "gnuplot": re.compile(r"-e$"),
    "matlab": re.compile(r"-r$|-batch$"),
    "wolframscript": re.compile(r"-c$|-code$"),
    "newlisp": re.compile(r"-e$"),
    "janet": re.compile(r"-e$"),
    "fennel": re.compile(r"-e$|--eval$"),
    "coffee": re.compile(r"-[a-z]*e$"),
    "qjs": re.compile(r"-e$"),
    "gjs": re.compile(r"-c$"),
    "pike": re.compile(r"-e$"),
    "maxima": re.compile(r"--batch-string$|-r$"),
    "ecl": re.compile(r"-eval$|--eval$"),
    "clisp": re.compile(r"-x$"),
    "abcl": re.compile(r"--eval$"),
    "swipl": re.compile(r"-g$|-t$"),
    "gprolog": re.compile(r"--query-goal$"),
    "rails": re.compile(r"runner$|^r$"),
    "zx": re.compile(r"-e$|--eval$"),
    "mix": re.compile(r"-e$|--eval$"),
    "rake": re.compile(r"-e$|--execute$|-p$|-E$"),
}
_LANGUAGES = {
    "perl": "perl",
    "ruby": "ruby",
    "irb": "ruby",
    "php": "php",
    "lua": "lua",
    "luajit": "lua",
    "tclsh": "tcl",
    "wish": "tcl",
    "expect": "tcl",
    "coffee": "js",
    "qjs": "js",
    "gjs": "js",
    "zx": "js",
    "pry": "ruby",
    "rails": "ruby",
    "rake": "ruby",
    "crystal": "ruby",
}
_FILES = frozenset(("perl", "ruby", "php", "lua", "luajit", "Rscript", "julia"))
"""Languages in which projects are written: a file that they run counts like `python FILE`."""
_PLAIN = re.compile(
    r"-[wWTtcln]|-W[\w:]+|-I[\w./-]+|-r(?!un)[\w/-]+|-t\d+|--(?:vanilla|yjit|jit|startup-file=no)"
    r"|--no-[a-z-]+|--project(?:=[\w./@-]+)?|-f"
)
_LINES = re.compile(r"-[0-7lnp]+(?:i(?:\.\w+)?)?|-i(?:\.\w+)?")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SUBSTITUTIONS = re.compile(
    r"\s*(?:(?:s([/|#,!])[^@`]*?\1[^@`]*?\1[gimsx]*|(?:tr|y)([/|#,!])[^@`$]*?\2[^@`$]*?\2[cdsr]*)"
    r"\s*(?:;\s*|$))+"
)
_CODE = re.compile(r"\$(?![\d&)|/#,!\s]|$)|\(\?\??\{|<")
"""What a substitution of perl runs, or may: variables with a subscript, code in a pattern."""
_M4_QUOTES = re.compile(r"`([^`']*)'")


def _interpreter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    name = re.sub(r"[\d.]+$", "", call.name)
    shell.facts.writes = True
    if call.args[:1] in (("--version",), ("-v",), ("-V",), ("--help",)):
        return HOLE
    if name == "swift" and call.args[:1] in (("build",), ("test",), ("package",)):
        shell.find(Tier.CAUTION, "build", "`swift`: builds the project or runs its tests")
        return HOLE
    if servers.interpreter(shell, name, call):
        return HOLE
    if _runs_file(name, call):
        shell.find(Tier.CAUTION, "code", f"`{call.name}`: runs code of the project in the cell")
    elif _only_substitutes(name, call):
        shell.find(Tier.CAUTION, "code", f"`{call.name}`: replaces text")
    else:
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    language = _LANGUAGES.get(name, "other")
    evaluates = _EVALUATES.get(name)
    words = list(call.args)
    texts: list[str] = []
    operands: list[str] = []
    in_place = False
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        if evaluates is not None and evaluates.match(word) and words:
            texts.append(words.pop(0))
        elif evaluates is not None and equals and evaluates.match(flag) and flag[:2] == "--":
            texts.append(value)
            in_place = in_place or (
                name in ("perl", "ruby") and bool(re.match(r"-[a-z0-9]*i", word))
            )
        elif name in ("perl", "ruby") and re.match(r"-[a-z0-9]*i", word):
            in_place = True
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    if name == "ruby" and any(argument.startswith("-run") for argument in call.args):
        for text in texts:
            at = call.args.index("--") + 1 if "--" in call.args else len(call.args)
            given = (text, *(call.args[at:] or operands))
            shell.aside(lambda: shell.call(Call(given, plain=False)))  # noqa: B023
    for text in texts:
        literal_code.read(catalog, shell, language, text, call)
        if name == "osascript" and re.search(
            r"(?i)\b(?:shut\s?down|restart|log\s?out|sleep)\b", text
        ):
            shell.find(Tier.FORBIDDEN, "shutdown", "it stops or restarts the machine")
    if texts:
        for path in operands:
            shell.touch(How.WRITE if in_place else How.READ, path, program=call.name)
        return HOLE
    if operands and operands[0] != "-":
        content = shell.held(operands[0])
        shell.touch(How.RUN, operands[0], program=call.name)
        drops(shell, call)
        if content is not None:
            return literal_code.read(catalog, shell, language, content, call)
        return HOLE
    if call.stdin is not None:
        text = _M4_QUOTES.sub(r'"\1"', call.stdin) if call.name == "m4" else call.stdin
        return literal_code.read(catalog, shell, language, text, call)
    shell.find(Tier.DANGER, "opaque", "it reads a program that cannot be known")
    return HOLE


def _runs_file(name: str, call: Call) -> bool:
    """Return whether a call runs a file of code, with no option that holds or fetches code."""
    if name not in _FILES:
        return False
    for word in call.args:
        if not word.startswith("-"):
            return True
        if _PLAIN.fullmatch(word) is None:
            return False
    return False


def _only_substitutes(name: str, call: Call) -> bool:
    """Return whether the whole program is `s/a/b/` over lines, which runs nothing."""
    words = call.args
    at = 1 if len(words) > 1 and _LINES.fullmatch(words[0]) else 0
    if name != "perl" or len(words) < at + 2 or not re.fullmatch(r"-[0-7lnp]*e", words[at]):
        return False
    text, files = words[at + 1], words[at + 2 :]
    if unknown(text):
        return False
    bare = _ESCAPED.sub("", text)
    whole = _SUBSTITUTIONS.fullmatch(bare) is not None and _CODE.search(bare) is None
    return whole and not any(file.startswith("-") for file in files)


def evaluated(catalog: Catalog, shell: Shell, call: Call) -> None:
    """Read the program texts that a build tool is given (`rails runner`, `mix run -e`)."""
    wanted = _EVALUATES.get(call.name)
    if wanted is None:
        return
    for flag, text in pairwise(call.args):
        if wanted.match(flag):
            shell.find(Tier.DANGER, "code", f"`{call.name} {flag}` runs code that the call holds")
            literal_code.read(catalog, shell, _LANGUAGES.get(call.name, "other"), text, call)


_PASSED_ON = re.compile(r"--?[a-z]{0,20}option=.{0,200}(?:shell-escape|enable-write18)", re.DOTALL)
"""Options of `latexmk` that give TeX one by which a document runs programs."""


def _latexmk(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read the Perl that `latexmk` is given; its other options are long ones with one dash.

    It takes every option with two dashes as well.
    """
    catalog.apply(shell, call, entry, parse(call.args, (*entry.values, *entry.uses)))
    for word in call.args:
        if _PASSED_ON.match(word):
            shell.find(
                Tier.DANGER, "runs-text", f"`latexmk {word}`: lets the document run programs"
            )
    for flag, text in pairwise(call.args):
        if flag in ("-e", "--e"):
            shell.find(Tier.DANGER, "code", "`latexmk -e` runs code that the call holds")
            literal_code.read(catalog, shell, "perl", text, call)
        elif flag in ("-r", "--r"):
            shell.touch(How.RUN, text, program="latexmk")
    return HOLE


READERS = {"script_language": _interpreter, "latexmk": _latexmk}
