# SPDX-License-Identifier: Apache-2.0
"""Scripts of a project that the text itself wrote: `package.json`, and recipes of a makefile."""

from __future__ import annotations

import json
import re
from itertools import islice

from policy.model import Tier
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import NET

_SETS = re.compile(r"^scripts?\.([\w:.-]+)=(.*)$", re.DOTALL)
_RECIPE = re.compile(r"(?m)^(?:\t|[^\s#=]+:[^=;\n]*;)[ \t]*[@+-]*(.+)$")
_MADE = re.compile(
    r"\$[({]shell\s+([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+)[)}]|^\w+\s*!=\s*(.+)$", re.MULTILINE
)
"""Commands that a makefile runs while it is read."""
_JUST = re.compile(r"(?m)^[ \t]+[@-]*(.+)$")
_ANT_DELETE = re.compile(r"<delete\b[^>]{0,80}\b(?:dir|includeemptydirs)=")
_MOST_RECIPES = 200
"""Lines of recipes that are read."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")


def npm(shell: Shell, call: Call, words: list[str]) -> None:
    """Run a script of a package file that the text wrote, and look at scripts that it sets."""
    verb = words[0] if words else ""
    if verb == "pkg" and words[1:2] == ["set"]:
        for word in words[2:]:
            if (found := _SETS.match(word)) is not None:
                _run(shell, found[2])
    elif verb == "set-script" and len(words) > 2:
        _run(shell, words[2])
    elif verb in ("run", "run-script") and words[1:2] == ["env"] and len(words) > 2:
        shell.call(Call(("env", *words[2:]), call.stdin, call.env, plain=False))
    name = words[1] if verb in ("run", "run-script") and len(words) > 1 else verb
    for text in _written(shell, name):
        _run(shell, text)


def _run(shell: Shell, text: str) -> None:
    shell.aside(lambda: shell.run_text(text))


def _written(shell: Shell, name: str) -> list[str]:
    content = shell.held("package.json")
    if content is None or not name:
        return []
    try:
        scripts = json.loads(content).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return []
    if not isinstance(scripts, dict):
        return []
    steps = (f"pre{name}", {"t": "test", "tst": "test"}.get(name, name), f"post{name}")
    return [text for step in steps if isinstance(text := scripts.get(step), str)]


def make(shell: Shell, call: Call, named: str) -> None:
    """Run the recipes of a makefile that the text itself wrote."""
    from_input = named == "-" or call.args[-1:] in (("-f",), ("--file",), ("--makefile",))
    texts = [call.stdin] if from_input and call.stdin is not None else []
    for match in _MADE.finditer("\n".join(call.args)):
        _run(shell, match[1] or match[2] or "")
    for name in (named,) if named else _MAKEFILES:
        if (content := shell.held(name)) is not None:
            texts.append(content)
    for text in texts:
        if NET in text:
            shell.find(Tier.FORBIDDEN, "remote-script", "its makefile came from the network")
        for match in islice(_MADE.finditer(text), _MOST_RECIPES):
            _run(shell, match[1] or match[2] or "")
        for match in islice(_RECIPE.finditer(text), _MOST_RECIPES):
            shell.run_text(match[1].replace("$$", "$"))


def just(shell: Shell, named: str) -> None:
    """Run the recipes of a justfile that the text itself wrote."""
    for name in (named,) if named else _JUSTFILES:
        for match in islice(_JUST.finditer(shell.held(name) or ""), _MOST_RECIPES):
            shell.run_text(match[1])


def ant(shell: Shell, named: str) -> bool:
    """Return whether a build file that the text wrote deletes trees."""
    return _ANT_DELETE.search(shell.held(named or "build.xml") or "") is not None
