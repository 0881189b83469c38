# SPDX-License-Identifier: Apache-2.0
"""Programs that start others later, elsewhere, or with another user's rights."""

from __future__ import annotations

import re
from dataclasses import replace

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, JOB

_SETTING = re.compile(r"\w+=|/user:")


def _privilege(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    parsed = parse(
        call.args, ("-u", "-g", "-p", "-C", "-D", "-R", "-T", "-U", "-h", "-r", "-t"), in_order=True
    )
    words = [operand for operand in parsed.operands if not _SETTING.match(operand)]
    return shell.call(call.only(tuple(words))) if words else ""


def _launcher(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    name = call.name
    shell.find(entry.tier, entry.rule, f"`{name}`: {entry.because}")
    if name in ("su", "pkexec", "run0", "please"):
        shell.find(Tier.FORBIDDEN, "privilege", f"`{name}` takes another user's rights")
    shell.facts.writes = True
    if name in ("at", "batch"):
        parsed = parse(call.args, ("-f", "-q", "-t"))
        for path in parsed.values("-f"):
            shell.touch(How.RUN, path)
        return shell.run_text(call.stdin) if call.stdin is not None else HOLE
    if name in ("crontab", "run-parts"):
        for path in parse(call.args, ("-u",)).operands:
            if path != "-":
                shell.touch(How.RUN, path)
        if name == "crontab" and call.stdin is not None:
            for line in call.stdin.split("\n"):
                shell.run_text(re.sub(r"^\s*(?:@\w+|(?:\S+\s+){5})\s*", "", line))
        if name == "crontab" and "-r" in call.args:
            shell.find(Tier.DANGER, "delete", "`crontab -r` deletes the table")
        return HOLE
    if name == "capsh" and "--" in call.args:
        rest = call.args[call.args.index("--") + 1 :]
        return shell.call(Call(("bash", *rest), call.stdin, call.env, plain=False))
    if name == "start-stop-daemon":
        return _daemon(shell, call, entry)
    parsed = parse(
        call.args, entry.values, in_order=name not in ("su", "runuser", "tmux", "screen")
    )
    for text in parsed.values("-c", "--command"):
        shell.run_text(text)
    words = list(parsed.operands)
    if name in ("chroot", "gosu", "su-exec", "su"):
        words = words[1:]
    if name == "tmux" and call.args[:1] in (("send-keys",), ("send",)):
        return _keys(shell, call)
    if name in ("tmux", "screen"):
        for at, word in enumerate(call.args):
            if " " in word:
                shell.run_text(word)
            elif catalog.lookup(word) is not None:
                shell.call(call.only(call.args[at:]))
                break
        return HOLE
    return shell.call(call.only(tuple(words))) if words else HOLE


_KEY = re.compile(
    r"(?:[CMS]-)+\S|Enter|Escape|Space|Tab|BTab|BSpace|Up|Down|Left|Right|Home|End|DC|IC|[NP]Page"
    r"|PageUp|PageDown|F\d{1,2}"
)
_TYPED = re.compile(r"[A-Za-z0-9_./~]")


def _keys(shell: Shell, call: Call) -> str:
    """Read what is typed into a terminal, word by word: names of keys are no text."""
    for text in parse(call.args[1:], ("-t", "-N", "-c")).operands:
        if not _KEY.fullmatch(text) and _TYPED.match(text):
            shell.run_text(text)
    return HOLE


_DAEMON = (
    "-x", "--exec", "-a", "--startas", "-p", "--pidfile", "-u", "--user", "-c", "--chuid",
    "-g", "--group", "-r", "--chroot", "-d", "--chdir", "-n", "--name", "-s", "--signal",
    "-R", "--retry", "-N", "--nicelevel", "-k", "--umask",
)  # fmt: skip


def _daemon(shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, _DAEMON, ("--start", "--stop", "--background", "--make-pidfile"))
    rest = call.args[call.args.index("--") + 1 :] if "--" in call.args else ()
    for program in parsed.values("-x", "--exec", "-a", "--startas"):
        shell.call(call.only((program, *rest)))
    if parsed.operands and not rest:
        shell.call(call.only(tuple(parsed.operands)))
    return HOLE


_SOME = "4242"
"""Stands for a process of the cell where a form of `kill` is looked for."""


def _signals(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """`kill $!` ends what the call started, as `kill 4242` ends what is in the cell."""
    words = tuple(_SOME if argument == JOB else argument for argument in call.args)
    if words != call.args:
        entry = catalog.forms.milder(replace(call, words=(call.name, *words)), entry)
    return catalog.by_data(shell, call, entry)


_TERSE = re.compile(r"-[a-zA-Z]*t(?:i\S*)?")


def _open_files(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    out = catalog.by_data(shell, call, entry)
    return f"{JOB}\n" if any(_TERSE.fullmatch(argument) for argument in call.args) else out


READERS = {
    "privilege": _privilege,
    "launcher": _launcher,
    "signals": _signals,
    "open_files": _open_files,
}
