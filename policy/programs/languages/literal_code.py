# SPDX-License-Identifier: Apache-2.0
"""Read literal programs by the calls that they plainly make, for languages without a grammar here.

A first look only: names of files are joined from literals, and what is made at run time is opaque.
"""

from __future__ import annotations

import re

from policy.hosts import written_in
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Use
from policy.programs.languages import literal_commands
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import HOLE, NET, clean, shown, unknown

_LITERAL = re.compile(
    r"(?<!\\)(?:'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|`((?:[^`\\]|\\.)*+)`)"
    r"|(?:\bq[qwx]?\s*|%[wWqQxi]?)[({\[/|]([^)}\]/|]*)[)}\]/|]",
    re.DOTALL,
)
_NAMED = re.compile(
    r"(?:\b(?:const|let|var|my|local|set)\s+)?[$@]?(?<!\w)(\w++)\s*=\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
)
_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HOME = re.compile(
    r"(?:require\(['\"](?:node:)?os['\"]\)|\bos)\.homedir\(\)|process\.env\.HOME|ENV\[['\"]HOME['\"]\]|\$ENV\{HOME\}|Dir\.home|getenv\(['\"]HOME['\"]\)|os\.getenv\(['\"]HOME['\"]\)"
)
_ENVIRONMENT = re.compile(
    r"(?:process\.env\.|process\.env\[['\"]|\$ENV\{['\"]?|ENV(?:\.fetch\()?\[?['\"]|getenv\s*\(?\s*['\"]"
    r"|Sys\.getenv\(['\"]|Deno\.env\.get\(['\"]|Bun\.env\.|\$_(?:ENV|SERVER)\[['\"])([A-Z_][A-Z0-9_]*)"
)
_MOST_TEXT = 32 * 1024
"""Characters of a program that are read."""
_MOST_ARGS = 4000
_MOST_READ = 64 * 1024
"""Characters of arguments that are read of one program."""
_MOST_CALLS = 200
"""Calls of one program whose arguments are read."""


def read(catalog: Catalog, shell: Shell, language: str, text: str, call: Call) -> str:
    """Record what the program does."""
    if NET in text:
        shell.find(Tier.FORBIDDEN, "remote-script", "it runs a program that came from the network")
        return HOLE
    if unknown(text):
        shell.find(Tier.DANGER, "opaque", "a part of the program that it runs cannot be known")
    if len(text) > _MOST_TEXT:
        shell.find(Tier.DANGER, "opaque", "the program is too long to be read here")
        text = text[:_MOST_TEXT]
    plain = _HOME.sub("'" + shell.state.home.replace("'", "") + "'", shown(text))
    names = {match[1]: _unescaped(match[2][1:-1]) for match in _NAMED.finditer(plain)}
    taken: set[int] = set()
    calls, left = _MOST_CALLS, _MOST_READ
    for matcher, rule in catalog.calls.get(language, ()):
        for match in matcher.finditer(plain):
            if match.start() in taken and rule.args:
                continue
            taken.add(match.start())
            if rule.tier is not Tier.CAUTION:
                shell.find(
                    rule.tier,
                    rule.rule,
                    f"`{match[0].strip('( ')[:40] or call.name}` {rule.because}",
                )
            shell.facts.network |= rule.network
            if not rule.args:
                continue
            calls -= 1
            if calls < 0 or left < 0:
                shell.find(Tier.DANGER, "opaque", "the program makes more calls than are read here")
                break  # what such a call is, whatever it is given, was found above
            rest = plain[match.end() : match.end() + _MOST_ARGS]
            values, length = _bare(rest) if language == "tcl" else _arguments(rest, names)
            left -= length
            if language == "tcl" and rule.args[:1] == (Use.SHELL,):
                values = [re.split(r"[\n\]}]", rest, maxsplit=1)[0]]
            elif rule.args[:1] in ((Use.SHELL,), (Use.PROGRAM,)):
                known = " ".join(one for one in values if one != HOLE)
                values = [known or _raw(rest)]
            for at, use in enumerate(rule.args):
                value = values[at] if at < len(values) else HOLE
                _use(catalog, shell, use, value, call)
    literal_commands.read(catalog, shell, plain, call)
    leaks.fed(shell, plain, call.stdin)
    leaks.program(shell, plain)
    if shell.facts.network:
        shell.facts.hosts |= dict.fromkeys(written_in(plain))
    for match in _ENVIRONMENT.finditer(plain):
        if leaks.SECRET_VARIABLE.search(match[1]):
            shell.find(Tier.FORBIDDEN, "secrets", f"it reads the secret `{match[1]}`")
    return HOLE


def _use(catalog: Catalog, shell: Shell, use: Use, value: str, call: Call) -> None:
    if use in (Use.SHELL, Use.PROGRAM) and value == HOLE:
        shell.find(Tier.DANGER, "opaque", "it runs a command that cannot be known")
    elif use is Use.PROGRAM and not unknown(value):
        shell.aside(lambda: shell.call(Call(tuple(value.split()), plain=False)))
    elif use is Use.WRITE and value.strip().startswith((">", "+>")):
        catalog.use(shell, use, value.strip(" +>"), call)
    elif use is Use.READ and value.startswith("<"):
        catalog.use(shell, use, value.strip(" <"), call)
    elif value != HOLE or use in (Use.WRITE, Use.DELETE, Use.TREE, Use.MOVE):
        catalog.use(shell, use, value, call)


def _raw(text: str) -> str:
    """Return what stands between parentheses, where no literal does."""
    found = re.match(r"\s*\(([^()'\"]+)\)", text)
    return found[1] if found and " " in found[1].strip() else HOLE


def _bare(text: str) -> tuple[list[str], int]:
    """Return the words of a language that needs no quotes, and how much was read for them."""
    line = re.split(r"[;\n\]}]", text, maxsplit=1)[0]
    words = [part.strip('"{}') for part in line.split()]
    return [word for word in words if not word.startswith("-")], len(line)


def _unescaped(body: str) -> str:
    def decode(found: re.Match[str]) -> str:
        one = found[1]
        if one[0] in "xu" and len(one) > 1:
            return chr(int(one[1:], 16))
        return {"n": "\n", "t": "\t"}.get(one, one)

    return clean(_ESCAPES.sub(decode, body))


def _arguments(text: str, names: dict[str, str]) -> tuple[list[str], int]:
    """Return the arguments that start a text, each joined from its literals, and how much they
    take up."""
    arguments = []
    rest = text.lstrip(" \t\n(")
    depth, start, at = 0, 0, 0
    while at < len(rest):
        found = _LITERAL.match(rest, at)
        if found is not None and rest[at] in "'\"`q%":
            at = found.end()
            continue
        char = rest[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif char in ";\n" and depth <= 0:
            break
        elif char == "," and depth == 0:
            arguments.append(_joined(rest[start:at], names))
            start = at + 1
        at += 1
    arguments.append(_joined(rest[start:at], names))
    return arguments, at


def _joined(text: str, names: dict[str, str]) -> str:
    """Return the text that an expression of literals gives."""
    parts: list[str] = []
    for match in re.finditer(_LITERAL.pattern + r"|([$@]?[A-Za-z_]\w*)", text, re.DOTALL):
        literal = next((group for group in match.groups()[:4] if group is not None), None)
        if literal is not None:
            parts.append(_unescaped(literal))
        elif match[5].lstrip("$@") in names:
            parts.append(names[match[5].lstrip("$@")])
    if not parts:
        return HOLE
    if re.search(r"\bjoin\b|\bresolve\b|File\.join|catfile", text):
        return "/".join(one.strip("/") if at else one.rstrip("/") for at, one in enumerate(parts))
    if re.match(r"\s*(?:\[|%w|qw)", text):
        return " ".join(parts)
    return "".join(parts) if "+" in text or "." in text or len(parts) == 1 else " ".join(parts)
