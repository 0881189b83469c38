# SPDX-License-Identifier: Apache-2.0
"""Builtins that change what a shell knows: variables, places, functions, descriptors, texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from policy.facts import How
from policy.model import Tier
from policy.shell import held_scripts
from policy.shell import leaks as disclosure
from policy.shell.assignments import give, set_item, subscript
from policy.shell.expand.printf import echo, formatted
from policy.shell.redirects import open_for_reading
from policy.shell.state import MOST_PLACES, Call, as_text
from policy.values.numbers import natural
from policy.values.partial import BREAK, HOLE, JOB, NUM, exact, globbed, shown, split, unknown
from policy.values.paths import absolute

if TYPE_CHECKING:
    from policy.shell.walker import Shell

_NEEDED = frozenset(("PATH", "HOME"))
"""Variables without which programs are found, and settings read, elsewhere."""
Builtin = Callable[["Shell", Call], str]


def _cd(shell: Shell, call: Call) -> str:
    words = [argument for argument in call.args if not re.fullmatch(r"-[LPe@]+|--", argument)]
    state = shell.state
    target = words[0] if words else state.home
    if target == "-":
        target = str(state.get("OLDPWD") or HOLE)
    state.values["OLDPWD"] = state.place
    places = [absolute(target, place) for place in state.places]
    search = state.get("CDPATH")
    if isinstance(search, str) and not target.startswith(("/", ".")):
        places = [
            absolute(f"{one}/{target}", state.place) for one in search.split(":") if one
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


def _declare(shell: Shell, call: Call) -> str:
    words = call.args
    counts = any(one.startswith("-") and "i" in one for one in words)
    refers = call.name not in ("export", "readonly") and any(
        re.fullmatch(r"-\w*n\w*", one) for one in words
    )
    printed, kept = "-p" in words, call.name in ("local", "declare", "typeset")
    for word in words:
        if word.startswith(("-", "+")):
            continue
        name, equals, value = word.partition("=")
        subscript(shell, word)
        if counts:
            subscript(shell, value)
        if refers and name.isidentifier():
            shell.state.references[name] = value
            if equals:
                continue
        if equals:
            give(shell, name.removesuffix("+"), value)
        if call.name == "export" and isinstance(known := shell.state.get(name), str):
            shell.catalog.exported(shell, name, known)
        if equals:
            continue
        if printed and disclosure.SECRET_VARIABLE.search(word):
            shell.find(Tier.FORBIDDEN, "secrets", f"it prints the secret `{shown(word)}`")
        elif unknown(word):
            shell.find(Tier.DANGER, "opaque", "it sets variables whose names cannot be known")
        elif kept and shell.state.get(name) is None:
            shell.state.set(name, "")
    if call.name == "export" and "-f" in call.args:
        return ""
    if set(call.args) & {"-p", "-x"} or not call.args:
        return HOLE
    return ""


def _unset(shell: Shell, call: Call) -> str:
    for word in call.args:
        subscript(shell, word)
        shell.state.values.pop(word, None)
        shell.state.references.pop(word, None)
        if word in _NEEDED:
            shell.catalog.environment(shell, word, "")
        shell.state.functions.pop(word, None)
        if word == "HISTFILE":
            shell.find(Tier.DANGER, "security", "it switches the shell's history off")
    return ""


def _set(shell: Shell, call: Call) -> str:
    words = list(call.args)
    while words and re.match(r"[-+]", words[0]):
        word = words.pop(0)
        if word in ("--", "-"):
            shell.state.args = words
            shell.state.note(words)
            return ""
        if word in ("-o", "+o") and words:
            option = words.pop(0)
            if option == "history" and word == "+o":
                shell.find(Tier.DANGER, "security", "it switches the shell's history off")
    if words:
        shell.state.args = words
        shell.state.note(words)
    return ""


def _shift(shell: Shell, call: Call) -> str:
    said = natural(call.args[0]) if call.args else None
    count = 1 if said is None else said
    if shell.state.args is not None:
        shell.state.args = shell.state.args[min(count, 1000) :]
    return ""


def _read(shell: Shell, call: Call) -> str:
    names: list[str] = []
    array = ""
    words = list(call.args)
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[a-zA-Z]*[dinNptu]", word) and words:
            value = words.pop(0)
            if word.endswith("u"):
                call = Call(call.words, shell.state.streams.get(value, HOLE), call.env)
        elif re.fullmatch(r"-[a-zA-Z]*a", word) and words:
            array = words.pop(0)
        elif not word.startswith("-"):
            names.append(word)
    text = (call.stdin if call.stdin is not None else HOLE).split("\n", 1)[0]
    marks = dict(call.env).get("IFS", as_text(shell.state.get("IFS")))
    parts = text.split() if marks == " \t\n" else split(text, marks).split(BREAK)
    if array:
        subscript(shell, array)
        give(shell, array, parts)
        return ""
    for at, name in enumerate(names or ["REPLY"]):
        subscript(shell, name)
        last = at == len(names) - 1 or not names
        value = " ".join(parts[at:]) if last else (parts[at] if at < len(parts) else "")
        if unknown(text) and not value:
            value = next((one for one in text if unknown(one)), HOLE)
        give(shell, name, value)
    return ""


def _mapfile(shell: Shell, call: Call) -> str:
    words, name = list(call.args), "MAPFILE"
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[a-zA-Z]*[dnOsucC]", word) and words:
            value = words.pop(0)
            if word.endswith("C"):
                shell.find(Tier.DANGER, "runs-text", f"`{call.name} -C` runs a text")
                shell.aside(lambda: shell.run_text(value))  # noqa: B023
            elif word.endswith("u"):
                call = Call(call.words, shell.state.streams.get(value, HOLE), call.env)
        elif word.startswith("-C"):
            shell.find(Tier.DANGER, "runs-text", f"`{call.name} -C` runs a text")
            shell.aside(lambda: shell.run_text(word[2:]))  # noqa: B023
        elif not word.startswith("-"):
            name = word
    subscript(shell, name)
    text = call.stdin if call.stdin is not None else HOLE
    keep = (
        "" if any(argument.startswith("-") and "t" in argument for argument in call.args) else "\n"
    )
    give(shell, name, [one + keep for one in text.split("\n") if one][:256])
    return ""


def _printf(shell: Shell, call: Call) -> str:
    _matched(shell, call.args)
    disclosure.prints_variable(shell, call)
    words = list(call.args)
    name = ""
    if words and words[0].startswith("-v"):
        name = words.pop(0)[2:] or (words.pop(0) if words else "")
    if words and words[0] == "--":
        words.pop(0)
    text = formatted(words[0], words[1:]) if words else ""
    if name:
        subscript(shell, name)
        match = re.fullmatch(r"(\w+)\[(.*)\]", name)
        if match:
            set_item(shell, match[1], match[2], text)
        else:
            give(shell, name, text)
        return ""
    return text


def _matched(shell: Shell, words: tuple[str, ...]) -> None:
    """Record the directories that globs list."""
    for word in words:
        if globbed(word) and "/" in word:
            shell.touch(How.LIST, word, program="glob")


def _completion(shell: Shell, call: Call) -> str:
    for flag, value in zip(call.args, call.args[1:], strict=False):
        if flag in ("-C", "-W"):
            shell.find(Tier.DANGER, "runs-text", f"`{call.name} {flag}` runs a text")
            shell.run_text(value)
    return HOLE


def _echo(shell: Shell, call: Call) -> str:
    _matched(shell, call.args)
    disclosure.prints_variable(shell, call)
    return echo(call.args)


def _eval(shell: Shell, call: Call) -> str:
    words = call.args[1:] if call.args[:1] == ("--",) else call.args
    return shell.run_text(" ".join(words), call.stdin)


_ACTIVATES = re.compile(
    r"(?:^|/)(?:[\w.-]*v?env[\w.-]*|virtualenv|conda|miniconda3|anaconda3)/bin/activate$"
    r"|(?:^|/)(?:devel|devel_isolated|install|install_isolated)/(?:local_)?setup\.(?:ba|z)?sh$"
    r"|^/(?:opt|usr)/[\w./-]+$"
)
"""What tools make for a shell to source: of a virtual environment, of a ROS workspace, of the
image."""


def _source(shell: Shell, call: Call) -> str:
    words = call.args[1:] if call.args[:1] == ("--",) else call.args
    if not words:
        return ""
    path = words[0]
    if path in ("/dev/stdin", "/dev/fd/0", "-"):
        return shell.run_text(call.stdin if call.stdin is not None else HOLE)
    content = shell.held(path)
    shell.touch(How.RUN, path, program="source")
    if content is None and _ACTIVATES.search(path) and not unknown(path):
        shell.find(Tier.CAUTION, "script", f"`{shown(path)}` sets up an environment of the project")
        return ""
    if content is None and not unknown(path):
        held_scripts.run_script(
            shell, path, lambda text: shell.run_text(text, call.stdin), program=False
        )
        return HOLE
    if content is None:
        kind = "a path that cannot be known" if unknown(path) else f"`{shown(path)}`"
        shell.find(
            Tier.DANGER, "script", f"it runs the shell text of {kind}; only its name is known"
        )
        return HOLE
    open_for_reading(shell, path)
    kept = shell.state.args
    if len(words) > 1:
        shell.state.args = list(words[1:])
    out = shell.run_text(content, call.stdin)
    shell.state.args = kept
    return out


def _trap(shell: Shell, call: Call) -> str:
    words = [argument for argument in call.args if argument not in ("--", "-p", "-l")]
    if len(words) >= 2 and words[0] == "":
        shell.find(Tier.DANGER, "processes", "it ignores signals that would end it")
    if len(words) >= 2 and words[0] not in ("-", ""):
        # a job's number in the text stands for what `$!` gave
        shell.aside(lambda: shell.run_text(words[0].replace(JOB, "$!")))
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


def _let(shell: Shell, call: Call) -> str:
    for word in call.args:
        shell.words.evaluated(word)
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            give(shell, name, shell.words.number(value))
        else:
            shell.words.number(word)
    return ""


def _getopts(shell: Shell, call: Call) -> str:
    if len(call.args) > 1:
        subscript(shell, call.args[1])
        give(shell, call.args[1], HOLE)
        shell.state.set("OPTARG", HOLE)
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


def _bind(shell: Shell, call: Call) -> str:
    for flag, value in pairwise(call.args):
        if flag == "-x":
            shell.find(Tier.DANGER, "runs-text", "`bind -x` runs a text when a key is pressed")
            shell.aside(lambda: shell.run_text(value.partition(":")[2]))  # noqa: B023
        elif flag == "-f":
            shell.touch(How.READ, value)
    return HOLE


def _fc(shell: Shell, call: Call) -> str:
    shell.find(Tier.DANGER, "runs-text", "`fc` runs commands of the history again")
    for flag, value in pairwise(call.args):
        if flag == "-e":
            shell.aside(lambda: shell.run_text(value))  # noqa: B023
    return HOLE


def _history(shell: Shell, call: Call) -> str:
    if any(re.match(r"-[a-z]*[cdw]", argument) for argument in call.args):
        shell.find(Tier.FORBIDDEN, "security", "it clears the shell's history")
    return HOLE


BUILTINS: dict[str, Builtin] = {
    "cd": _cd, "pushd": _cd, "popd": _popd,
    "export": _declare, "declare": _declare, "typeset": _declare,
    "local": _declare, "readonly": _declare,
    "unset": _unset, "set": _set, "shift": _shift, "getopts": _getopts,
    "read": _read, "mapfile": _mapfile, "readarray": _mapfile,
    "printf": _printf, "echo": _echo, "eval": _eval, "source": _source, ".": _source,
    "trap": _trap, "alias": _alias, "hash": _hash, "enable": _enable,
    "test": _test, "[": _test, "let": _let, "pwd": _pwd, "type": _type,
    "disown": _disown, "jobs": _jobs, "times": _jobs,
    "exec": _exec, "command": _command, "builtin": _command,
    "complete": _completion, "compgen": _completion,
    "umask": _umask, "history": _history, "fc": _fc, "wait": _wait, "bind": _bind,
}  # fmt: skip
QUIET = frozenset(
    (":", "true", "false", "return", "exit", "break", "continue", "shopt", "ulimit",
     "unalias", "bg", "fg",  "dirs", "complete", "compgen", "compopt", "suspend",
     "logout", "help", "caller")
)  # fmt: skip
"""Builtins that change nothing which matters here."""
