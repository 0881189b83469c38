# SPDX-License-Identifier: Apache-2.0
"""The little languages of sed and awk: what their scripts write, read and run."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.files.text import inputs
from policy.shell.expand.printf import escapes
from policy.shell.interpreter import STDIN_FILES, Shell
from policy.shell.redirects import open_for_reading
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NAME, NET, exact, unknown

_SED_RUN = re.compile(
    r"(?:^|[;{}\n]|(?<=[0-9$/!]))[^\S\n]*+e(?:\s+([^\n]+)|\s*$|\s*[;}\n])", re.MULTILINE
)
_SED_WRITE = re.compile(r"(?:^|[;{}\n]|(?<=[0-9$/!]))[^\S\n]*+[wW]\s+([^\n;}]+)", re.MULTILINE)
_SED_READ = re.compile(r"(?:^|[;{}\n]|(?<=[0-9$/!]))[^\S\n]*+[rR]\s+([^\n;}]+)", re.MULTILINE)
_SED_FLAGS = re.compile(
    r"s([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1([gpiIm0-9]*)(?:([we])[ \t]*([^\n;}]*))?",
    re.DOTALL,
)


def _sed(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        ("-e", "--expression", "-f", "--file", "-l", "--line-length"),
        ("--in-place", "--quiet"),
    )
    in_place = any(re.match(r"-[nErsuz]*i|--in-place", argument) for argument in call.args)
    scripts = parsed.values("-e", "--expression")
    files = list(parsed.operands)
    sources = parsed.values("-f", "--file")
    if not scripts and not sources and files:
        scripts.append(files.pop(0))
    script = "\n".join(scripts)
    for path in sources:
        given = call.stdin if path in ("-", *STDIN_FILES) else None
        content = given if given is not None else open_for_reading(shell, path)
        script += "\n" + content
        if NET in content:
            _foreign(shell, "sed")
        if unknown(content):
            shell.touch(How.RUN, path)
            shell.find(
                Tier.DANGER, "script", f"`sed` follows the script `{path}`, whose text is not known"
            )
    if unknown(script):
        shell.find(Tier.DANGER, "opaque", "a part of the script of `sed` cannot be known")
    _sed_script(catalog, shell, call, script)
    for path in files:
        shell.touch(How.READ, path, program="sed")
        if in_place:
            shell.find(Tier.CAUTION, "program", "`sed -i`: edits files")
            emptied = script.strip() in ("d", "1,$d", "//d", "/.*/d", "/./d", "g", "z")
            shell.touch(How.EMPTY if emptied else How.WRITE, path, program="sed")
    text = inputs(shell, call, []) if not files else HOLE
    return (
        _substituted(text, scripts)
        if exact(text)
        else (NET if NET in text else NAME + "\n" if NAME in text else HOLE)
    )


def _foreign(shell: Shell, name: str) -> None:
    shell.find(
        Tier.FORBIDDEN, "remote-script", f"`{name}` follows a program that came from the network"
    )


def _sed_script(catalog: Catalog, shell: Shell, call: Call, script: str) -> None:
    plain = _SED_FLAGS.sub(lambda f: "", script)
    for match in _SED_FLAGS.finditer(script):
        if match[5] == "w":
            catalog.use(shell, Use.WRITE, match[6].strip(), call)
        elif match[5] == "e":
            shell.find(Tier.DANGER, "runs-text", "`sed s///e` runs its result")
            shell.run_text(match[3])
            _each(shell, call.stdin)
    for match in _SED_WRITE.finditer(plain):
        catalog.use(shell, Use.WRITE, match[1].strip(), call)
    for match in _SED_READ.finditer(plain):
        catalog.use(shell, Use.READ, match[1].strip(), call)
    for match in _SED_RUN.finditer(plain):
        shell.find(Tier.DANGER, "runs-text", "`sed e` runs a command")
        if match[1]:
            shell.run_text(match[1])
        else:
            _each(shell, call.stdin)


def _each(shell: Shell, text: str | None) -> None:
    """Run what a program makes of its input, as if it were the input itself."""
    shell.aside(lambda: shell.run_text(text if text is not None else HOLE))


def _substituted(text: str, scripts: list[str]) -> str:
    for script in scripts:
        match = _SED_FLAGS.fullmatch(script.strip())
        if match is None or match[5]:
            return HOLE
        try:
            wanted = re.compile(match[2].replace("\\(", "(").replace("\\)", ")"))
        except re.error:
            return HOLE
        new = match[3].replace("\\" + match[1], match[1])
        text = wanted.sub(new.replace("\\", "\\\\"), text, count=0 if "g" in match[4] else 1)
    return text


_AWK_TEXT = r'(?<!\\)"(?:[^"\\]|\\.)*+"'
_AWK_CALL = re.compile(
    rf"\bsystem\s*\(((?:{_AWK_TEXT}|[^()\"])*+)\)|({_AWK_TEXT}|(?<!\w)\w++)\s*+\|&?\s*getline"
    rf"|\|&?\s*({_AWK_TEXT}|\w+)(?=\s*(?:[;}}\n]|$))",
    re.DOTALL,
)
_AWK_ESCAPE = re.compile(r"\\([\"/])|\\(?:[0-7]{1,3}|.)", re.DOTALL)
_AWK_RUNS = re.compile(r"\bsystem\b|(?<!\|)\|(?!\|)")
_AWK_REGEX = re.compile(rf"({_AWK_TEXT})|/(?:[^/\\\n]|\\.)+/")
"""Texts, which are kept, and regular expressions."""
_AWK_FIELD = re.compile(r"\$\s*(?:\d|N[FR])")
_AWK_PRINT = re.compile(rf"\bprintf?\b((?:{_AWK_TEXT}|[^;{{}}\n\"])*)$")
_MOST_PRINTED = 400
"""Characters before a pipe in which what is printed into it is looked for."""
_AWK_SET = re.compile(r'\b([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*+)"')
_AWK_PRINTS = re.compile(r"print[^;}]{0,400}>>?\s*\w")
_MOST_PROGRAM = 6000
"""Characters of a program that are read."""
_AWK_ENDLESS = re.compile(
    r"\bwhile\s*\(\s*(?:1|!0)\s*\)\s*(?:;|\{\s*\})|\bfor\s*\(\s*;\s*;\s*\)\s*(?:;|\{\s*\})"
)
_AWK_FILE = re.compile(
    r">>?\s*((?:\"[^\"]*\"|\w+)(?:[ \t]+\"[^\"]*\")*)|getline\s*(?:\w+\s*)?<\s*(\"[^\"]*\"|\w+)"
)


_AWK_OUTPUT = re.compile(r"(?:-[odpD]|--(?:pretty-print|dump-variables|profile|debug)=)(.+)")
"""Options of gawk that name a file for its program, its variables or its profile."""


def _awk(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        (
            "-F",
            "-v",
            "-f",
            "--field-separator",
            "--assign",
            "--file",
            "-i",
            "--include",
            "-l",
            "--load",
            "-e",
            "--source",
            "-E",
            "--exec",
        ),
    )
    for word in call.args:
        if (found := _AWK_OUTPUT.fullmatch(word)) is not None:
            catalog.use(shell, Use.WRITE, found[1], call)
    files = list(parsed.operands)
    names = dict(one.partition("=")[::2] for one in parsed.values("-v", "--assign"))
    programs = parsed.values("-e", "--source")
    sources = parsed.values("-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load")
    for path in sources:
        if path == "inplace":
            for file in files[0 if programs else 1 :]:
                shell.touch(How.WRITE, file, program="awk")
            continue
        content = call.stdin if path in ("-", *STDIN_FILES) else shell.held(path)
        if content is None or unknown(content):
            shell.touch(How.RUN, path)
            if NET in (content or ""):
                _foreign(shell, "awk")
            shell.find(
                Tier.DANGER, "script", f"`awk` runs the program `{path}`, whose text is not known"
            )
        else:
            programs.append(content)
    if not programs and set(sources) <= {"inplace"} and files:
        programs.append(files.pop(0))
    for program in programs:
        _awk_program(catalog, shell, call, program, names)
    for path in files:
        if not re.match(r"\w+=", path):
            shell.touch(How.READ, path, program="awk")
    if NET in (call.stdin or ""):
        return NET
    printed = (
        re.fullmatch(r'\s*BEGIN\s*\{\s*printf?\s*\(?\s*"([^"]*)"\s*\)?;?\s*\}\s*', programs[0])
        if programs
        else None
    )
    if printed:
        return printed[1].replace("\\n", "\n") + "\n"
    return NAME + "\n" if NAME in (call.stdin or "") else HOLE


def _awk_value(word: str, names: dict[str, str]) -> str:
    parts = re.findall(r'"((?:[^"\\]|\\.)*+)"|(\w+)', word)
    out = ""
    for text, name in parts:
        if name:
            out += names.get(name, HOLE)
        else:
            out += _AWK_ESCAPE.sub(lambda found: found[1] or escapes(found[0]), text)
    return out or HOLE


def _awk_printed(
    program: str, pipe: re.Match[str], names: dict[str, str], call: Call
) -> str | None:
    """Return what a `print ... | command` hands to the command."""
    start = max(0, pipe.start() - _MOST_PRINTED)
    match = _AWK_PRINT.search(program[start : pipe.start()])
    if match is None:
        return None
    return _awk_value(match[1], names) if '"' in match[1] else call.stdin


def _awk_program(
    catalog: Catalog, shell: Shell, call: Call, program: str, names: dict[str, str]
) -> None:
    if unknown(program):
        shell.find(Tier.DANGER, "opaque", "a part of the program of `awk` cannot be known")
    if len(program) > _MOST_PROGRAM:
        shell.find(Tier.DANGER, "opaque", "the program of `awk` is too long to be read here")
        catalog.scan(shell, program)
        program = program[:_MOST_PROGRAM]
    names = {match[1]: match[2] for match in reversed(list(_AWK_SET.finditer(program)))} | names
    prints = _AWK_PRINTS.search(program) is not None
    if _AWK_ENDLESS.search(program):
        shell.find(Tier.DANGER, "resources", "it loops without an end")
    if re.search(r"/inet6?/(?:tcp|udp)/", program) and "|&" in program:
        shell.facts.network = True
        shell.find(Tier.FORBIDDEN, "remote-script", "it connects commands with another machine")
    bare = re.sub(_AWK_TEXT, '""', re.sub(r"/(?:[^/\\\n]|\\.)+/", "//", program))
    if _AWK_RUNS.search(bare) and not _AWK_CALL.search(program):
        shell.find(Tier.DANGER, "runs-text", "`awk` runs a command")
        catalog.scan(shell, program)
    for match in _AWK_CALL.finditer(program):
        word = match[1] or match[2] or match[3] or ""
        text = _awk_value(word, names)
        shell.find(Tier.DANGER, "runs-text", "`awk` runs a command")
        shell.run_text(text, _awk_printed(program, match, names, call) if match[3] else None)
        if _AWK_FIELD.search(word) and call.stdin is not None:
            _each(shell, call.stdin)
    code = _AWK_REGEX.sub(lambda f: f[1] or "//", program) if "getline" not in program else program
    for match in _AWK_FILE.finditer(code if ">" in code else program):
        word = match[1] or match[2] or ""
        if re.fullmatch(r"\d+", word):
            continue  # a comparison
        value = _awk_value(word, names)
        if value.startswith("/inet"):
            shell.facts.network = True
            shell.find(Tier.DANGER, "network", "`awk` opens a network connection")
        elif word.startswith('"') or value != HOLE:
            catalog.use(shell, Use.WRITE if match[1] else Use.READ, value, call)
        elif match[1] and prints:
            shell.find(Tier.DANGER, "opaque", "`awk` writes files whose names cannot be known")
    if re.search(r"@\s*(?:load|include)", program):
        shell.find(Tier.DANGER, "script", "`awk` loads other code")


READERS = {"sed": _sed, "awk": _awk}
