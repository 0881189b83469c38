# SPDX-License-Identifier: Apache-2.0
"""Editors in batch mode: they read and write their operands and can run shell text."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages import literal_code, literal_commands
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE

_VIM = ("-c", "--cmd", "-S", "-u", "-U", "-i", "-w", "-W", "-T", "-t", "-q")
_EMACS = (
    "--eval",
    "-eval",
    "--execute",
    "-f",
    "--funcall",
    "-l",
    "--load",
    "-q_",
    "-u",
    "-d",
    "-t",
)
_VALUED = {
    "emacs": _EMACS,
    "emacsclient": (*_EMACS, "-s", "-a", "--alternate-editor", "--socket-name"),
    "ed": ("-p",),
    "nano": ("-T", "-s", "-o", "-r", "-C", "-Q", "-X", "-Y", "-J"),
}
_BANG = re.compile(
    r"(?:^|\|)[\s:]*(?:silent!?\s*)?(?:\d*+(?:[,$][\d$]*+)?|%)?(?:r(?:ead)?\s*)?!\s*(.+)"
)
_SYSTEM = re.compile(
    r"(?:system|systemlist|shell-command|call-process|termopen|jobstart)\s*\(?\s*['\"]([^'\"]*)['\"]"
)
_DELETES = re.compile(r"\bdelete\s*\([^)]*,\s*['\"]d?rf?['\"]\s*\)")
_TERMINAL = re.compile(r"(?:^|\|)[\s:]*(?:term(?:inal)?|make|grep|cexpr)!?\s+(\S.*)")
_FILE = re.compile(
    r"(?:^|\|)[\s:]*(?:silent!?\s*)?[%\d,$]*(?:w|wq|x|sav|saveas|write|up|update)!?\s+(?:>>\s*)?([^|!\s]\S*)"
)
_READ = re.compile(
    r"(?:^|\|)[\s:]*(?:silent!?\s*)?[%\d,$]*(?:r|e|read|edit|sp|tabe|source|so)!?\s+([^|!\s]\S*)"
)


def _editor(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    parsed = parse(call.args, _VALUED.get(call.name, _VIM))
    texts = parsed.values("-c", "--cmd", "--eval", "-eval", "--execute")
    if call.name == "nvim" and "-l" in call.args:
        at = call.args.index("-l") + 1
        return shell.call(Call(("lua", *call.args[at:]), call.stdin, call.env, plain=False))
    if call.name == "emacsclient":
        texts += [*parsed.operands, *parsed.values("-e")]
        for text in parsed.values("-a", "--alternate-editor"):
            shell.run_text(text)
    texts += [operand[1:] for operand in parsed.operands if operand.startswith("+")]
    for path in parsed.values("-S", "-l", "--load", *(("-u",) if call.name != "ed" else ())):
        if path not in ("NONE", "NORC"):
            shell.touch(How.RUN, path)
    if call.stdin is not None:
        texts += call.stdin.split("\n")
    for path in parsed.operands:
        if not path.startswith("+") and path != "-":
            shell.touch(How.READ, path, program=call.name)
            if call.name not in ("view",):
                catalog.use(shell, Use.WRITE, path, call)
    for text in texts:
        if call.name in _VALUED:
            literal_code.read(catalog, shell, "other", text, call)
        else:
            literal_commands.read(catalog, shell, text, call)
        if _DELETES.search(text):
            shell.find(Tier.FORBIDDEN, "recursive-delete", "it deletes a whole tree")
        for match in _TERMINAL.finditer(text):
            shell.run_text(match[1])
        for match in _BANG.finditer(text):
            shell.run_text(match[1])
        for match in _SYSTEM.finditer(text):
            shell.run_text(match[1])
        for match in _FILE.finditer(text):
            catalog.use(shell, Use.WRITE, match[1], call)
        for match in _READ.finditer(text):
            catalog.use(shell, Use.READ, match[1], call)
    return HOLE


READERS = {"editor": _editor}
