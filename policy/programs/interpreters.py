# SPDX-License-Identifier: Apache-2.0
"""Interpreters off the allowlist: their literal programs are read by the calls that they make."""

from __future__ import annotations

import re

from policy.catalog_model import Programs
from policy.commands import Catalog
from policy.facts import How
from policy.marks import HOLE
from policy.model import Tier
from policy.programs import literal_code
from policy.shell import Shell
from policy.shell_state import Call

_EVALUATES = {
    "perl": re.compile(r"-[A-Za-z0-9]*[eE]$"),
    "ruby": re.compile(r"-[a-z]*e$"),
    "php": re.compile(r"-[rBRE]$|--run$"),
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
}


def _interpreter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    name = re.sub(r"[\d.]+$", "", call.name)
    shell.facts.writes = True
    if call.args[:1] in (("--version",), ("-v",), ("-V",), ("--help",)):
        return HOLE
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    language = _LANGUAGES.get(name, "other")
    evaluates = _EVALUATES.get(name)
    words = list(call.args)
    texts: list[str] = []
    operands: list[str] = []
    in_place = False
    while words:
        word = words.pop(0)
        if evaluates is not None and evaluates.match(word) and words:
            texts.append(words.pop(0))
            in_place = in_place or (
                name in ("perl", "ruby") and bool(re.match(r"-[a-z0-9]*i", word))
            )
        elif name in ("perl", "ruby") and re.match(r"-[a-z]*i", word):
            in_place = True
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    for text in texts:
        literal_code.read(catalog, shell, language, text, call)
    if texts:
        for path in operands:
            shell.touch(How.WRITE if in_place else How.READ, path, program=call.name)
        return HOLE
    if operands and operands[0] != "-":
        content = shell.held(operands[0])
        shell.touch(How.RUN, operands[0], program=call.name)
        if content is not None:
            return literal_code.read(catalog, shell, language, content, call)
        return HOLE
    if call.stdin is not None:
        return literal_code.read(catalog, shell, language, call.stdin, call)
    shell.find(Tier.DANGER, "opaque", "it reads a program that cannot be known")
    return HOLE


READERS = {"script_language": _interpreter}
