# SPDX-License-Identifier: Apache-2.0
"""Files that programs write because an option says so, told by the option's name.

For programs whose options the catalog does not list one by one: whatever is called `--output`,
`--log-file` or `--report-dir` names a file that is written, and a flag such as `--in-place` makes
of each operand one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policy.catalog_model import Use
from policy.shell_state import Call

if TYPE_CHECKING:
    from policy.commands import Catalog
    from policy.shell import Shell

_OPTION = re.compile(
    r"(?i)^--?(?:[\w.:-]*[-_.:])?(?:out(?:put|file|dir|path)?(?:[-_]?(?:file|dir|path|to))?"
    r"|log[-_]?(?:file|path|dir)?|report(?:[-_]?(?:file|dir|path))?|dest(?:ination)?|target[-_]?(?:dir|file)"
    r"|save(?:[-_]?(?:to|as|file))?|dump(?:[-_]?(?:to|file))?|export(?:[-_]?(?:to|file))?|set[-_]out"
    r"|result[-_]?file|write[-_]?to|to[-_]file|logfile|outfile|outdir|json|xml|html)$"
)
_JOINED = re.compile(r"^-(?:XX:|J)?\w*(?:LogFile|OutputFile|DumpPath)=(.+)$")
_IN_PLACE = frozenset(
    ("-i", "-I", "-w", "--in-place", "--inplace", "--write", "--set", "--put", "put", "set",
     "--fix", "--del", "--edit", "-u", "--update")
)  # fmt: skip
_PATH = re.compile(r"^[^-:=\s][^\s=]*$")


def record(catalog: Catalog, shell: Shell, call: Call, *, in_place: bool = False) -> None:
    """Record the files that options of a call name as outputs."""
    args = call.args
    writes = in_place and any(one in _IN_PLACE for one in args)
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if (found := _JOINED.match(word)) is not None:
            _write(catalog, shell, call, found[1])
        elif word[:1] == "-" and _OPTION.match(name):
            _write(catalog, shell, call, value if equals else "".join(args[at + 1 : at + 2]))
        elif writes and word[:1] != "-":
            _write(catalog, shell, call, word)


def _write(catalog: Catalog, shell: Shell, call: Call, path: str) -> None:
    if _PATH.match(path) and ("." in path or "/" in path):
        catalog.use(shell, Use.WRITE, path, call)
