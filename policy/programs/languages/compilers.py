# SPDX-License-Identifier: Apache-2.0
"""Compilers and linkers: which of their many options name a file that is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call

NAMES = frozenset(("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "cpp", "gfortran"))
VALUED = (
    "-o", "-I", "-D", "-U", "-L", "-l", "-x", "-B", "-T", "-z", "-u", "-e", "-m", "-h", "-MF",
    "-MT", "-MQ", "-MJ", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-iprefix",
    "-isysroot", "-arch", "-target", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xclang",
    "-aux-info", "-dumpbase", "-dumpdir", "--param", "-Map", "--serialize-diagnostics",
    "-framework", "-soname", "-rpath", "--sysroot", "--version-script", "--script", "-wrapper",
)  # fmt: skip
"""Options with a value; `-c`, `-E`, `-S`, `-s`, `-g`, `-f...` have none."""
_FOLLOWED = ("-MF", "-MJ", "-o", "-aux-info", "-dumpbase", "-dumpdir", "-Map", "--MD")
_FOLLOWED_TOO = ("--serialize-diagnostics", "--out-implib", "--dependency-file", "-plugin-opt")
_DEPENDENCIES = ("-MD", "-MMD")
"""Followed by a file only where the preprocessor itself is given them (`-Wp,-MD,FILE`)."""
_JOINED = re.compile(
    r"(?:--?Map=|-(?:MF|MJ|o)(?=[^-=\s])|--(?:dependency-file|out-implib|serialize-diagnostics|MD|emit-\w+)="
    r"|-(?:f(?:dump|profile|diagnostics|optimization-record|crash-diagnostics|time-trace|callgraph"
    r"|save-optimization|module-output|coverage|test-coverage|compile|sanitize)[\w-]*|ftime-trace"
    r"|dumpdir|dumpbase|save-temps|a[a-z]*|MF|o|MJ)=)(.+)"
)
_HANDED_ON = re.compile(r"-W[lpa],(.+)")


def record(catalog: Catalog, shell: Shell, call: Call) -> None:
    """Record the files that options name as outputs."""
    words = list(_flat(call.args))
    for at, (word, inner) in enumerate(words):
        following = words[at + 1][0] if at + 1 < len(words) else ""
        if word in (*_FOLLOWED, *_FOLLOWED_TOO) or (inner and word in _DEPENDENCIES):
            _write(catalog, shell, call, following)
        elif (found := _JOINED.fullmatch(word)) is not None:
            _write(catalog, shell, call, found[1])


def _flat(args: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Yield the words, with those that are handed on to a part of the compiler one by one."""
    handed = False
    for word in args:
        if (found := _HANDED_ON.fullmatch(word)) is not None:
            yield from ((part, True) for part in found[1].split(","))
        elif word in ("-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xclang"):
            handed = True
            continue
        else:
            yield word, handed
        handed = False


def _write(catalog: Catalog, shell: Shell, call: Call, path: str) -> None:
    if path and path[:1] != "-" and ("." in path or "/" in path):
        catalog.use(shell, Use.WRITE, path, call)
