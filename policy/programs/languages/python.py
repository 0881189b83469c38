# SPDX-License-Identifier: Apache-2.0
"""Python: literal programs are read with its own grammar; files are code in the cell."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise

from policy.facts import Finding, How
from policy.model import Tier
from policy.programs import carriers
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.programs.languages import servers
from policy.programs.languages.python_code import Code
from policy.programs.languages.sql import drops
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NET, exact, shown, unknown

_VALUED = ("-W", "-X", "--check-hash-based-pycs", "-Q")
_MODULES = frozenset(
    ("pytest", "pip", "ruff", "mypy", "black", "isort", "flake8", "pylint", "coverage", "tox",
     "nox", "pre_commit", "sandbox.cli.main", "playwright",
     "behave", "robot", "poetry", "hatch", "uv",
     "pipx", "bandit", "sphinx", "mkdocs", "alembic", "flask", "uvicorn", "gunicorn", "celery",
     "pyright", "sandbox.cli.entry")
)  # fmt: skip
_OURS = {"lockgate": ("lockgate",), "lockgate-shell": ("lockgate", "shell")}
_PLAIN = frozenset(
    ("unittest", "doctest", "compileall", "py_compile", "venv", "virtualenv", "ensurepip", "dis",
     "ast", "tokenize", "this", "site", "sysconfig", "platform", "calendar", "tabnanny",
     "inspect", "pydoc", "symtable", "json.tool", "zipfile", "tarfile", "gzip", "base64", "trace",
     "cProfile", "profile", "timeit", "pdb", "http.server", "idlelib", "pyclbr", "textwrap",
     "difflib", "encodings", "antigravity", "django", "manage", "nltk", "spacy", "ipykernel",
     "jupyter", "notebook", "IPython", "pstats", "pickletools")
)  # fmt: skip


_MOST_TEXT = 24 * 1024
"""Characters of a program that are read."""


def run_code(catalog: Catalog, shell: Shell, text: str, args: list[str], stdin: str | None) -> str:
    """Record what a literal Python program plainly does and return what it prints."""
    if NET in text:
        shell.find(Tier.FORBIDDEN, "remote-script", "it runs a program that came from the network")
        return HOLE
    if unknown(text):
        shell.find(Tier.DANGER, "opaque", "a part of the program that it runs cannot be known")
    if len(text) > _MOST_TEXT:
        shell.find(Tier.DANGER, "opaque", "the program is too long to be read here")
        text = text[:_MOST_TEXT].rpartition("\n")[0]
    return Code(shell, args, stdin).run(shown(text) if not exact(text) else text)


def _python(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.facts.writes = True
    words = list(call.args)
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word in ("--version", "-V", "-VV", "--help", "-h"):
            return HOLE
        if word in _VALUED:
            words = words[1:]
        elif word.startswith("--"):
            continue
        else:
            for at, letter in enumerate(word[1:], start=1):
                if letter in "cm":
                    value = word[at + 1 :] or (words.pop(0) if words else "")
                    if letter == "c" and call.name == "ipython" and _MAGIC.search(value):
                        for match in _MAGIC.finditer(value):
                            shell.run_text(match[1])
                        return _session(catalog, shell, _MAGIC.sub("", value))
                    if letter == "c":
                        return run_code(catalog, shell, value, words, call.stdin)
                    return _module(catalog, shell, call, value, words)
                if letter in "WX":
                    break
    if not words or words[0] in ("-", "/dev/stdin", "/dev/fd/0"):
        if call.stdin is None:
            shell.find(Tier.DANGER, "opaque", "it reads a program that cannot be known")
            return HOLE
        return run_code(catalog, shell, call.stdin, words[1:], None)
    return file(catalog, shell, call, words)


def file(catalog: Catalog, shell: Shell, call: Call, words: list[str]) -> str:
    """Record that a file of Python code is run."""
    path = words[0]
    content = shell.held(path)
    shell.touch(How.RUN, path, program=call.name)
    catalog.downloaded(shell, path)
    if unknown(path):
        shell.find(Tier.DANGER, "opaque", "the program that it runs cannot be known")
    if content is not None:
        before = set(shell.facts.findings)
        out = run_code(catalog, shell, content, words[1:], call.stdin)
        _without_network(shell, before)
        return out
    if own := _OURS.get(path.rpartition("/")[2]):  # as the hooks of agents start it
        shell.call(Call((*own, *words[1:]), call.stdin, call.env, plain=False))
    managed(catalog, shell, call, words[1:])
    drops(shell, Call(("python", *words)))
    if path.endswith("setup.py") and {"upload", "register"} & set(words[1:]):
        shell.find(Tier.DANGER, "network", "`setup.py upload` sends the project to the index")
    for word in words[1:]:
        governed(shell, word)
    return HOLE


def _without_network(shell: Shell, before: set[Finding]) -> None:
    """Let what a file of code asks other machines count like a file that is not read: a cell has no
    network, so it fails by itself."""
    for finding in [*shell.facts.findings]:
        if finding not in before and finding.rule == "network" and finding.tier is Tier.DANGER:
            del shell.facts.findings[finding]
            shell.find(Tier.CAUTION, "code", f"{finding.reason}, and a cell has no network")


def managed(catalog: Catalog, shell: Shell, call: Call, words: list[str]) -> None:
    """Read the code that a project's own shell is given (`manage.py shell -c CODE`)."""
    if not words or words[0] not in ("shell", "shell_plus"):
        return
    for flag, text in pairwise(words):
        if flag in ("-c", "--command", "--plain-command"):
            run_code(catalog, shell, text, [], call.stdin)
    for word in words:
        if word.startswith("--command="):
            run_code(catalog, shell, word.partition("=")[2], [], call.stdin)
    if call.stdin is not None and len(words) == 1:
        run_code(catalog, shell, call.stdin, [], None)


_MAGIC = re.compile(r"(?m)^\s*(?:%?!{1,2}|%(?:sx|system|sc|bash|sh)\b)\s*(.+)$")


def _session(catalog: Catalog, shell: Shell, text: str) -> str:
    """Read what a debugger or an interactive session is given: Python, or shell text after `!`."""
    for match in _MAGIC.finditer(text):
        if text.lstrip().startswith("%") or carriers.plausible(catalog, match[1].split()):
            shell.run_text(match[1])
    plain = re.sub(r"(?m)^\s*(?:!|p |pp |interact|exec |statement )\s*", "", text)
    try:
        ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return HOLE
    return run_code(catalog, shell, plain, [], None)


def governed(shell: Shell, word: str) -> None:
    """Note a path that is handed to a program of the project; it may be written."""
    value = word.partition("=")[2] if word.startswith("-") else word
    if value and " " not in value and ("/" in value or "." in value):
        shell.touch(How.READ, value, program="argument")


def _module(catalog: Catalog, shell: Shell, call: Call, name: str, words: list[str]) -> str:
    if name in _MODULES:
        program = {
            "pre_commit": "pre-commit",
            "sphinx": "sphinx-build",
            "sandbox.cli.main": "lockgate",
            "sandbox.cli.entry": "lockgate",
        }.get(name, name)
        return shell.call(Call((program, *words), call.stdin, call.env, plain=False))
    if name in ("twine", "flit"):
        return shell.call(Call((name, *words), call.stdin, call.env, plain=False))
    if name in ("cProfile", "profile", "trace"):
        parsed = parse(
            words,
            ("-o", "-s", "-m", "--outfile", "-f", "--file", "-C", "--coverdir"),
            in_order=True,
        )
        for path in parsed.values("-o", "--outfile", "-f", "--file", "-C", "--coverdir"):
            catalog.use(shell, Use.WRITE, path, call)
        inner = parsed.value("-m")
        if inner:
            return _module(catalog, shell, call, inner, parsed.operands)
        return file(catalog, shell, call, parsed.operands) if parsed.operands else HOLE
    if name == "timeit":
        parsed = parse(words, ("-n", "-r", "-s", "-u", "--number", "--repeat", "--setup", "--unit"))
        for text in (*parsed.values("-s", "--setup"), *parsed.operands):
            run_code(catalog, shell, text, [], call.stdin)
        return HOLE
    if name == "pdb":
        parsed = parse(words, ("-c", "--command", "-m"), in_order=True)
        for text in parsed.values("-c", "--command"):
            _session(catalog, shell, text)
        words = parsed.operands
        return file(
            catalog, shell, call, [one for one in words if not one.startswith("-")] or ["-"]
        )
    if name == "json.tool":
        parsed = parse(words, ("--indent",))
        for at, path in enumerate(parsed.operands):
            catalog.use(shell, Use.WRITE if at else Use.READ, path, call)
        return HOLE
    if name in ("zipfile", "tarfile"):
        _archive(catalog, shell, call, words)
        return HOLE
    if servers.python_module(shell, name, words):
        return HOLE
    if name in (
        "http.server",
        "smtpd",
        "webbrowser",
        "urllib.request",
        "ftplib",
        "smtplib",
        "telnetlib",
        "http.client",
    ):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`python -m {name}` talks to other machines")
        return NET
    if name not in _PLAIN and "." not in name and not name.isidentifier():
        shell.find(Tier.DANGER, "opaque", f"`python -m {shown(name)}` is not known")
    for word in words:
        governed(shell, word)
    if name == "venv" or name == "virtualenv":
        made(catalog, shell, call, words)
    if name == "zipapp":
        for path in parse(words, ("-o", "--output", "-p", "-m")).values("-o", "--output"):
            catalog.use(shell, Use.WRITE, path, call)
    return HOLE


_ENVIRONMENT = re.compile(r"(?:.*/)?\.?(?:v?env|virtualenv)[\w.-]*/?")


def made(catalog: Catalog, shell: Shell, call: Call, words: Sequence[str]) -> None:
    """Record that a virtual environment is made, and what is emptied for it."""
    parsed = parse(words, ("-p", "--python", "--prompt", "--system-site-packages-from"))
    for path in parsed.operands:
        catalog.use(shell, Use.WRITE, path, call)
        if parsed.has("--clear") and not _ENVIRONMENT.fullmatch(path) and path != "venv":
            shell.touch(How.TREE, path, program="venv")


def _archive(catalog: Catalog, shell: Shell, call: Call, words: list[str]) -> None:
    for at, word in enumerate(words):
        if word in ("-e", "--extract") and at + 1 < len(words):
            for path in words[at + 2 :] or ["."]:
                catalog.use(shell, Use.WRITE, path, call)
        elif word in ("-c", "--create") and at + 1 < len(words):
            catalog.use(shell, Use.WRITE, words[at + 1], call)
            for path in words[at + 2 :]:
                catalog.use(shell, Use.READ, path, call)


READERS = {"python": _python}
