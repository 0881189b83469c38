# SPDX-License-Identifier: Apache-2.0
"""Programs that only start another program: they are looked through, to any depth."""

from __future__ import annotations

import re
import shlex

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.compound import serves
from policy.shell.expand.printf import escapes
from policy.shell.interpreter import Shell
from policy.shell.state import MOST_PLACES, Call
from policy.shell.syntax.quoting import source
from policy.values.argv import Parsed, parse
from policy.values.numbers import natural
from policy.values.partial import HOLE, unknown

_OPTIONS: dict[str, tuple[str, ...]] = {
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "-p", "-P", "-u", "--class", "--classdata"),
    "stdbuf": ("-i", "-o", "-e", "--input", "--output", "--error"),
    "time": ("-f", "--format", "-o", "--output"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "gtimeout": ("-k", "-s", "--kill-after", "--signal"),
    "taskset": (),
    "chrt": ("-T", "-P", "-D", "--sched-runtime", "--sched-period", "--sched-deadline"),
    "strace": ("-o", "-e", "-p", "-s", "-u", "-E", "-O", "-S", "-a", "-b", "-P", "-I", "-X"),
    "ltrace": ("-o", "-e", "-p", "-s", "-u", "-n", "-a", "-l", "-x", "-F"),
    "unshare": (
        "-S",
        "-G",
        "-R",
        "-w",
        "--map-user",
        "--map-group",
        "--setuid",
        "--setgid",
        "--root",
        "--wd",
    ),
    "bwrap": (),
    "numactl": ("-N", "-m", "-C", "-p", "-i"),
    "prlimit": ("-p", "--pid", "-o"),
    "choom": ("-n", "-p"),
    "setarch": (),
    "xvfb-run": ("-n", "-s", "-w", "-e", "-f", "-p"),
    "softlimit": ("-m", "-d", "-s", "-l", "-a", "-o", "-p", "-f", "-c", "-r", "-t"),
    "rlwrap": ("-a", "-f", "-H", "-s", "-S", "-z", "-C", "-P"),
    "cgexec": ("-g",),
}
_SKIPPED = {
    "timeout": 1,
    "gtimeout": 1,
    "taskset": 1,
    "chrt": 1,
    "setuidgid": 1,
    "envuidgid": 1,
    "setlock": 1,
    "uclampset": 0,
}
_NOTED = {
    "strace": "it traces another program",
    "ltrace": "it traces another program",
    "unshare": "it makes namespaces",
    "bwrap": "it makes namespaces",
    "firejail": "it makes namespaces",
    "setsid": "it starts a program that leaves its session",
    "setuidgid": "it changes the user",
    "envuidgid": "it changes the user",
    "fakeroot": "it pretends to be another user",
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
MOST_ITEMS = 64
"""Words of its input that `xargs` is followed with."""
MOST_STARTS = 16
"""Commands that `xargs` is followed into one by one."""


def _wrapper(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    name = call.name
    parsed = parse(call.args, _OPTIONS.get(name, ()), in_order=True)
    if name == "nohup":
        text = " ".join(parsed.operands)
        why = "it starts a program that outlives its session"
        tier = Tier.CAUTION if serves(text) else Tier.DANGER
        shell.find(tier, "launcher", f"`nohup`: {why}, but not its call" if serves(text) else why)
    if name in _NOTED:
        shell.find(Tier.DANGER, "launcher", f"`{name}`: {_NOTED[name]}")
    if name in ("strace", "ltrace", "time"):
        for path in parsed.values("-o", "--output"):
            catalog.use(shell, Use.WRITE, path, call)
    words = parsed.operands[_SKIPPED.get(name, 0) :]
    if name == "nice" and parsed.operands and re.fullmatch(r"-?\d+", parsed.operands[0]):
        words = parsed.operands[1:]
    if name in ("setarch",) and words and not catalog.lookup(words[0]):
        words = words[1:]
    if name in ("bwrap", "firejail", "unshare") and words and catalog.lookup(words[0]) is None:
        at = next((at for at, one in enumerate(words) if catalog.lookup(one)), len(words))
        words = words[at:]
    while words and _ASSIGNMENT.match(words[0]) and name in ("time", "coproc"):
        words = words[1:]
    if not words:
        return ""
    if name in ("time", "coproc"):
        if words[0][0] in "({" and call.node is not None:
            return shell.run_text(
                re.sub(r"^\s*\w+\s+(?:-p\s+)?", "", source(call.node)), call.stdin
            )
        if name == "coproc":
            catalog.scan(shell, " ".join(words))
        return shell.call(Call(tuple(words), call.stdin, call.env))
    return shell.call(call.only(tuple(words)))


def _env(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = list(call.args)
    kept = shell.state.places
    given = list(call.env)
    while words:
        word = words[0]
        if word == "--" or word in (
            "-i",
            "-",
            "--ignore-environment",
            "-0",
            "--null",
            "-v",
            "--debug",
            "-iv",
        ):
            words.pop(0)
        elif word in ("-u", "--unset", "-a", "--argv0"):
            words = words[2:]
        elif word.startswith(("--unset=", "-u")):
            words = words[1:]
        elif word in ("-C", "--chdir") or word.startswith(("--chdir=", "-C")):
            target = (
                words[1]
                if word in ("-C", "--chdir") and len(words) > 1
                else word.partition("=")[2] or word[2:]
            )
            words = words[2 if word in ("-C", "--chdir") else 1 :]
            shell.state.places = tuple(shell.resolve(target, place) for place in kept)[
                -MOST_PLACES:
            ]
            shell.touch(How.EXIST, shell.state.place, program="cd")
        elif word in ("-S", "--split-string") or re.match(r"-[iv0]*S|--split-string=", word):
            text = (
                words[1]
                if word in ("-S", "--split-string", "-iS", "-vS", "-ivS") and len(words) > 1
                else re.sub(r"^(?:-[iv0]*S|--split-string=)", "", word)
            )
            rest = (
                words[2:] if text is not word and len(words) > 1 and text == words[1] else words[1:]
            )
            words = [*pieces(text), *rest]
        elif _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            catalog.environment(shell, name, value)
            catalog.exported(shell, name, value)
            given.append((name, value))
            words.pop(0)
        elif word.startswith("-") and len(word) > 1:
            words.pop(0)
        else:
            break
    if not words:
        return HOLE
    try:
        return shell.call(Call(tuple(words), call.stdin, tuple(given), plain=False, node=call.node))
    finally:
        shell.state.places = kept


def pieces(text: str) -> list[str]:
    """Split text into words as a shell without expansions does."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _xargs(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values, in_order=True)
    for path in parsed.values("-a", "--arg-file"):
        shell.touch(How.READ, path)
    words = list(parsed.operands)
    if call.name == "parallel":
        for path in parsed.values("--joblog", "--results", "--tmpdir"):
            catalog.use(shell, Use.WRITE, path, call)
    for mark in ("::::", "::::+"):
        if mark in words:
            at = words.index(mark)
            for path in words[at + 1 :]:
                shell.touch(How.READ, path, program=call.name)
            words = words[:at]
    text = call.stdin if call.stdin is not None else HOLE
    if ":::" in words:
        at = words.index(":::")
        text, words = "\n".join(words[at + 1 :]), words[:at]
    if not words:
        if call.name == "parallel":
            return shell.run_text(text)
        return (
            shell.run_text("echo " + " ".join(shlex.quote(part) for part in text.split()[:64]))
            if text and not unknown(text)
            else text.replace("\n", " ")
        )
    placeholder = parsed.value("-I", "--replace", "-J") or (
        "{}" if parsed.has("-i", "--replace") or call.name == "parallel" else ""
    )
    if placeholder and any(placeholder in word for word in words):
        out = ""
        for item in _items(parsed, text, "\n")[:MOST_STARTS]:
            if item or unknown(text):
                out += _started(shell, call, [word.replace(placeholder, item) for word in words])
        return out
    if placeholder and call.name == "xargs":  # each item replaces nothing
        return _started(shell, call, words)
    items = _items(parsed, text)[:MOST_ITEMS]
    size = parsed.value("-n", "--max-args", "-L", "--max-lines")
    step = natural(size) or max(1, len(items))
    out = ""
    for at in range(0, min(len(items), step * MOST_STARTS) or 1, step):
        out += _started(shell, call, [*words, *items[at : at + step]])
    if len(items) > step * MOST_STARTS:
        out += _started(shell, call, [*words, *items])
    return out


def _items(parsed: Parsed, text: str, separator: str = "") -> list[str]:
    """Return what `xargs` makes its arguments of."""
    given = parsed.value("-d", "--delimiter")
    if parsed.has("-0", "--null", "-d", "--delimiter"):
        separator = escapes(given)[:1] or "\0"
    if separator:
        return text.strip(separator).split(separator) if not unknown(text) else [text.strip()]
    return pieces(text) if not unknown(text) else text.split()


def _started(shell: Shell, call: Call, words: list[str]) -> str:
    if call.name == "parallel":
        return shell.run_text(" ".join(words))
    return shell.call(Call(tuple(words), "", call.env, plain=False))


def _flock(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        ("-w", "-E", "--timeout", "--wait", "--conflict-exit-code", "-c", "--command"),
        in_order=True,
    )
    if parsed.operands:
        catalog.use(shell, Use.WRITE, parsed.operands[0], call)
    rest = parsed.operands[1:]
    texts = parsed.values("-c", "--command")
    if rest[:1] in (["-c"], ["--command"]):
        texts += rest[1:2]
        rest = []
    for text in texts:
        shell.run_text(text)
    return shell.call(call.only(tuple(rest))) if rest else ""


def _script(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values, in_order=True)
    if any(operand.startswith("-") for operand in parsed.operands[1:2]):
        parsed = parse(call.args, entry.values)
    shell.find(entry.tier, entry.rule, f"`script`: {entry.because}")
    logs = parsed.values("-I", "-O", "-B", "-T", "--log-out", "--log-io", "--log-in")
    for path in (*logs, *(parsed.operands[:1] or ["typescript"])):
        catalog.use(shell, Use.WRITE, path, call)
    texts = parsed.values("-c", "--command")
    out = "".join(shell.run_text(text) for text in texts)
    if len(parsed.operands) > 1:
        out += shell.call(call.only(tuple(parsed.operands[1:])))
    elif not texts:
        out += shell.run_text(call.stdin if call.stdin is not None else HOLE)
    return out


def _watch(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, ("-n", "--interval", "-q", "--equexit"), in_order=True)
    if not parsed.operands:
        return ""
    if parsed.has("-x", "--exec") or call.name == "entr":
        return shell.call(call.only(tuple(parsed.operands)))
    return shell.run_text(" ".join(parsed.operands))


def _multicall(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = [argument for argument in call.args if not argument.startswith("--list")]
    if words and words[0].startswith("--coreutils-prog="):
        words[0] = words[0].partition("=")[2]
    return shell.call(call.only(tuple(words))) if words else ""


def _loader(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        ("--library-path", "--preload", "--audit", "--argv0", "--inhibit-rpath", "--inhibit-cache"),
        in_order=True,
    )
    if parsed.operands:
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
        return shell.call(call.only(tuple(parsed.operands)))
    return ""


READERS = {
    "wrapper": _wrapper,
    "env": _env,
    "xargs": _xargs,
    "flock": _flock,
    "script": _script,
    "watch": _watch,
    "multicall": _multicall,
    "loader": _loader,
}
