# SPDX-License-Identifier: Apache-2.0
"""The builtins of a shell, and those of them that change places, names or descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.shell.assignments import give, subscript
from policy.shell.builtin_prints import run_echo, run_printf
from policy.shell.builtin_texts import (
    run_bind,
    run_completion,
    run_eval,
    run_fc,
    run_source,
    run_trap,
)
from policy.shell.builtin_variables import (
    run_declare,
    run_getopts,
    run_let,
    run_mapfile,
    run_read,
    run_set,
    run_shift,
    run_unset,
)
from policy.shell.interpreter import Shell
from policy.shell.state import MOST_PLACES, Call
from policy.values.partial import HOLE, NUM, exact, shown, unknown
from policy.values.paths import absolute

Builtin = Callable[["Shell", Call], str]


def _cd(shell: Shell, call: Call) -> str:
    words = [argument for argument in call.args if not re.fullmatch(r"-[LPe@]+|--", argument)]
    state = shell.state
    target = words[0] if words else state.home
    if target == "-":
        target = str(state.get("OLDPWD") or HOLE)
    state.values["OLDPWD"] = state.place
    # up from where an earlier `cd` failed leads out of the project, where there is nothing
    starts = state.places[-1:] if target.startswith("..") else state.places
    places = [absolute(target, place) for place in starts]
    search = state.get("CDPATH")
    if isinstance(search, str) and not target.startswith(("/", ".")):
        places = [
            absolute(f"{part}/{target}", state.place) for part in search.split(":") if part
        ] + places
    state.places = tuple(dict.fromkeys(shell.resolve(one) for one in places))[-MOST_PLACES:]
    for place in state.places:
        shell.touch(How.EXIST, place, program="cd")
    return ""


def _popd(shell: Shell, call: Call) -> str:
    old = shell.state.get("OLDPWD")
    if isinstance(old, str):
        shell.state.places = tuple(dict.fromkeys((*shell.state.places, old)))[-MOST_PLACES:]
    return ""


def _alias(shell: Shell, call: Call) -> str:
    for word in call.args:
        name, equals, value = word.partition("=")
        if equals:
            shell.state.aliases[name] = value
            shell.aside(lambda: shell.run_text(value))  # noqa: B023
            if shell.catalog.knows(name) or name in BUILTINS or name in QUIET or unknown(name):
                said = f"it gives the name `{shown(name)}` another meaning"
                shell.find(Tier.DANGER, "redefinition", said)
    return ""


def _hash(shell: Shell, call: Call) -> str:
    words = list(call.args)
    if words[:1] == ["-p"] and len(words) >= 3:
        for name in words[2:]:
            shell.state.aliases[name] = words[1]
            shell.find(
                Tier.DANGER, "redefinition", f"it gives the name `{shown(name)}` another meaning"
            )
    return ""


def _enable(shell: Shell, call: Call) -> str:
    if "-f" in call.args:
        shell.find(Tier.DANGER, "redefinition", "it loads a builtin from a file")
    return ""


def _test(shell: Shell, call: Call) -> str:
    words = [argument for argument in call.args if argument != "]"]
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word in ("-v",):
            subscript(shell, following)
        elif word in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            for one in (words[at - 1] if at else "", following):
                subscript(shell, one)
                shell.words.number(one)
        elif re.fullmatch(r"-[a-hkprsuwxGLNOS]", word) and following:
            shell.touch(How.EXIST, following)
    return ""


def _pwd(shell: Shell, call: Call) -> str:
    return shell.state.place + "\n"


def _type(shell: Shell, call: Call) -> str:
    names = [argument for argument in call.args if not argument.startswith("-")]
    return "".join(f"/usr/bin/{name}\n" for name in names if exact(name))


def _disown(shell: Shell, call: Call) -> str:
    shell.find(Tier.DANGER, "processes", "`disown` lets a program outlive its shell")
    return ""


def _jobs(shell: Shell, call: Call) -> str:
    return NUM if call.name in ("jobs", "times") else ""


def _exec(shell: Shell, call: Call) -> str:
    words = list(call.args)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option.startswith("-") and "a" in option:
            shell.find(Tier.DANGER, "processes", "`exec -a` hides the name of a program")
        if option == "-a" or (option.endswith("a") and len(option) > 1 and option[1] != "-"):
            words = words[1:]
        if option == "--":
            break
    return shell.call(call.only(tuple(words))) if words else ""


def _command(shell: Shell, call: Call) -> str:
    words = list(call.args)
    while words and re.fullmatch(r"-[pvV]+|--", words[0]):
        option = words.pop(0)
        if "v" in option.lower():
            return _type(shell, Call(("type", *words)))
    return shell.call(call.only(tuple(words))) if words else ""


def _umask(shell: Shell, call: Call) -> str:
    mode = next((argument for argument in call.args if not argument.startswith("-")), "")
    if mode and (
        mode in ("0", "00", "000", "0000") or unknown(mode) or "o=" in mode or "o+w" in mode
    ):
        shell.find(Tier.DANGER, "permissions", "new files become writable for everybody")
    return NUM


def _wait(shell: Shell, call: Call) -> str:
    for flag, value in pairwise((*call.args, "")):
        if re.fullmatch(r"-[a-zA-Z]*p", flag):
            subscript(shell, value)
            give(shell, value, NUM)
        elif flag.startswith("-p"):
            subscript(shell, flag[2:])
            give(shell, flag[2:], NUM)
    return ""


def _history(shell: Shell, call: Call) -> str:
    if any(re.match(r"-[a-z]*[cdw]", argument) for argument in call.args):
        shell.find(Tier.FORBIDDEN, "security", "it clears the shell's history")
    return HOLE


BUILTINS: dict[str, Builtin] = {
    "cd": _cd, "pushd": _cd, "popd": _popd,
    "export": run_declare, "declare": run_declare, "typeset": run_declare,
    "local": run_declare, "readonly": run_declare,
    "unset": run_unset, "set": run_set, "shift": run_shift, "getopts": run_getopts,
    "read": run_read, "mapfile": run_mapfile, "readarray": run_mapfile,
    "printf": run_printf, "echo": run_echo, "eval": run_eval, "source": run_source, ".": run_source,
    "trap": run_trap, "alias": _alias, "hash": _hash, "enable": _enable,
    "test": _test, "[": _test, "let": run_let, "pwd": _pwd, "type": _type,
    "disown": _disown, "jobs": _jobs, "times": _jobs,
    "exec": _exec, "command": _command, "builtin": _command,
    "complete": run_completion, "compgen": run_completion,
    "umask": _umask, "history": _history, "fc": run_fc, "wait": _wait, "bind": run_bind,
}  # fmt: skip
QUIET = frozenset(
    (":", "true", "false", "return", "exit", "break", "continue", "shopt", "ulimit",
     "unalias", "bg", "fg",  "dirs", "complete", "compgen", "compopt", "suspend",
     "logout", "help", "caller")
)  # fmt: skip
"""Builtins that change nothing which matters here."""
