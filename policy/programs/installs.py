# SPDX-License-Identifier: Apache-2.0
"""Which programs a call tells to install packages, or to build what installs them. Pure.

A program's bare name says nothing: `pip --version` installs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PYTHON = re.compile(r"(?:python|pypy)(?:3(?:\.\d{1,2})?)?")
_NOTHING = frozenset(("--version", "-V", "--help", "-h", "help", "version"))
"""What makes any of them only tell something, where it comes first."""
_ALWAYS = frozenset(
    ("pip-sync", "pipx", "uvx", "tox", "nox", "venv", "virtualenv", "easy_install", "hatch", "npx",
     "pnpx", "bunx", "msbuild")
)  # fmt: skip
"""Programs that install, or run what does, whatever they are told."""
_VERBS = frozenset(
    ("install", "i", "in", "ins", "inst", "isntall", "add", "ci", "cit", "it", "install-test",
     "install-ci-test", "clean-install", "install-clean", "update", "up", "upgrade", "udpate",
     "dedupe", "ddp", "rebuild", "rb", "link", "ln", "unlink", "sync", "remove", "rm", "uninstall",
     "un", "import", "prune", "audit")
)  # fmt: skip
_STARTERS = frozenset(("exec", "x", "dlx", "init", "create", "innit"))
_NODE = frozenset(("npm", "pnpm", "yarn", "cnpm", "bun", "corepack"))
_TOLD: dict[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "pip3", "poetry", "pdm", "pipenv", "rye", "flit"), _VERBS),
    **dict.fromkeys(_NODE, _VERBS | _STARTERS),
    "uv": _VERBS | {"run", "venv"},
    **dict.fromkeys(("conda", "mamba", "micromamba"), _VERBS | {"create", "env"}),
    "maturin": frozenset(("develop",)),
    "deno": _VERBS | {"cache"},
    "lerna": _VERBS | {"bootstrap"},
    "nx": _VERBS | {"generate", "g", "migrate"},
    "turbo": frozenset(("gen", "generate")),
    "rush": _VERBS,
    "dotnet": _VERBS
    | {"build", "restore", "run", "test", "publish", "pack", "watch", "msbuild", "new", "clean"},
    "nuget": _VERBS | {"restore"},
}


def installers(calls: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the programs among commands (their words) that are told to install or to build."""
    return tuple(dict.fromkeys(name for words in calls if (name := _installer(words))))


def _installer(words: tuple[str, ...]) -> str:
    """Return the name of the program, or nothing where it is told nothing of the kind."""
    name = words[0].rpartition("/")[2]
    if _PYTHON.fullmatch(name) and "-m" in words[1:-1]:
        words = words[words.index("-m", 1) + 1 :]
        name = words[0]
    told = words[1:]
    verbs = _TOLD.get(name, frozenset())
    at = 0 if name in _ALWAYS else next((at for at, one in enumerate(told) if one in verbs), None)
    if at is not None:
        return "" if not _NOTHING.isdisjoint(told[: at + 1]) else name
    plain = sum(not one.startswith("-") for one in told)
    bare = name == "yarn" and plain == ("--cwd" in told) and (_NOTHING | {"-v"}).isdisjoint(told)
    return name if bare else ""
