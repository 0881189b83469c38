# SPDX-License-Identifier: Apache-2.0
"""Files that programs write because an option says so, told by the option's name.

For programs whose options the catalog does not list one by one: whatever is called `--output`,
`--log-file` or `--report-dir` names a file that is written, and a flag such as `--in-place` makes
of each operand one.
"""

from __future__ import annotations

import re

from policy.programs.by_data import DataReader
from policy.programs.catalog_schema import Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call

_OPTION = re.compile(
    r"(?i)^--?(?:[\w.:-]*[-_.:])?(?:out(?:put|file|dir|path)?(?:[-_]?(?:file|dir|path|to))?"
    r"|log[-_]?(?:file|path|dir)?|report(?:[-_]?(?:file|dir|path))?|dest(?:ination)?|target[-_]?(?:dir|file)"
    r"|save(?:[-_]?(?:to|as|file))?|dump(?:[-_]?(?:to|file))?|export(?:[-_]?(?:to|file))?|set[-_]out"
    r"|result[-_]?file|write[-_]?to|to[-_]file|logfile|outfile|outdir|json|xml|html)$"
)
_NAMED = re.compile(
    r"(?i)^--?(?:[\w.:-]*[-_.:])?(?:\w*out(?:put|file|dir|put-?file)?s?|log(?:s|file)?|joblog|reports?"
    r"|dest(?:ination|dir)?|dump|save|results?|trace|\w*prof(?:ile|iler)?|cover(?:age|dir)?|cache|tmp(?:dir)?"
    r"|temp(?:dir)?|record|har|snapshot|junit|sarif|metafile|stats|map|depfile|media|generate|diagnostics"
    r"|graphviz|redirect|history|downloads?|artifacts?|screenshots?|bundle|append|archive|prefix|emit|mj)"
    r"(?:[-_.](?:to|file|dir|directory|path|name|folder|location|prefix|info|log|db|report|output|redirect))*$"
    r"|(?i:^--?\w*(?:output|log|report|cover(?:age)?|cache|trace|dump|result)(?:file|dir|directory|path|name)$)"
)
"""The same said in other ways; only for values below the place of the call."""
_SHORT: dict[str, tuple[str, ...]] = {
    "javac": ("-d", "-h", "-s"),
    "kotlinc": ("-d",),
    "rollup": ("-d",),
    "babel": ("-d", "-o"),
    "mkdocs": ("-d",),
    "jekyll": ("-d",),
    "coverage": ("-d", "-o"),
    "ctest": ("-O",),
    "cmake": ("-B",),
    "mocha": ("-O", "--reporter-option", "--reporter-options"),
    "as": ("--MD", "-a"),
    "ld": ("-Map",),
    "rustc": ("--emit",),
    "deno": ("-o",),
    "nyc": ("-t",),
    "zstd": ("-o",),
}
"""Options of one letter, or of several meanings, that name what these programs write."""
_JOINED = re.compile(
    r"^-(?:XX:|J)?\w*(?:LogFile|OutputFile|DumpPath)=(.+)$"
    r"|^[-/](?:bl|binaryLogger|flp\d*|fileLoggerParameters\d*):(?:LogFile=)?([^;]+)$"
)
_LONGEST = 64
"""Characters of an option's name that is looked at closely."""
_IN_PLACE = frozenset(
    ("-i", "-I", "-w", "--in-place", "--inplace", "--write", "--set", "--put", "put", "set",
     "--fix", "--del", "--edit", "-u", "--update")
)  # fmt: skip
_PATH = re.compile(r"^[^-:=\s][^\s=]*$")
_BELOW = re.compile(r"(?=[^\s]*[./])(?!\.\.|~|/|\d+(?:\.\d+)*$)[^\s:=,;*?]+$")


def record(catalog: DataReader, shell: Shell, call: Call, *, in_place: bool = False) -> None:
    """Record the files that options of a call name as outputs."""
    args = call.args
    writes = in_place and any(argument in _IN_PLACE for argument in args)
    short = _SHORT.get(call.name, ())
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        following = "".join(args[at + 1 : at + 2])
        if word[:1] == "-" and (name in short or (len(name) <= _LONGEST and _NAMED.match(name))):
            _below(catalog, shell, call, value if equals else following)
        if (found := _JOINED.match(word)) is not None:
            _write(catalog, shell, call, found[1] or found[2])
        elif word[:1] == "-" and _OPTION.match(name):
            _write(catalog, shell, call, value if equals else following)
        elif writes and word[:1] != "-":
            _write(catalog, shell, call, word)


def _write(catalog: DataReader, shell: Shell, call: Call, path: str) -> None:
    if _PATH.match(path) and ("." in path or "/" in path):
        catalog.use(shell, Use.WRITE, path, call)


def _below(catalog: DataReader, shell: Shell, call: Call, value: str) -> None:
    """Record a file below the place of the call, which may stand after a key (`output=FILE`)."""
    path = value.rpartition("=")[2].removeprefix(f"{shell.state.place}/")
    if _BELOW.match(path):
        catalog.use(shell, Use.WRITE, path, call)
