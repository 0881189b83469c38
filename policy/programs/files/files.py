# SPDX-License-Identifier: Apache-2.0
"""Programs that delete, copy, move, link and change the mode of files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.programs.files.deleting import read_deleter, read_rm
from policy.programs.files.modes import judge_mode, read_chmod
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.redirects import store
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, NUM, PROGRAM, unknown
from policy.values.paths import TEMPORARY

_FILE_NAME = re.compile(r"[^/]\.[A-Za-z]\w{0,4}$")
_TARGET = ("-t", "--target-directory")


_FEW = 16
"""Sources that are looked at whatever was named before them."""
_TEMPORARY = tuple(f"{folder}/" for folder in TEMPORARY)


def _split(parsed: Parsed) -> tuple[list[str], str]:
    """Return sources and destination."""
    target = parsed.value(*_TARGET)
    if target:
        return parsed.operands, target
    if len(parsed.operands) < 2:
        return parsed.operands, ""
    return parsed.operands[:-1], parsed.operands[-1]


def _judged(shell: Shell, sources: list[str]) -> Iterator[str]:
    """Yield the sources, until the text has named more paths than are judged."""
    for at, source in enumerate(sources):
        if at > _FEW and shell.full():
            break
        yield source


def _arrive(shell: Shell, source: str, target: str, name: str, *, folder: bool) -> None:
    """Record that `source` arrives at `target`, as itself or below it."""
    shell.touch(How.WRITE, target, program=name)
    base = source.rstrip("/").rsplit("/", 1)[-1]
    into = f"{target.rstrip('/')}/{base}"
    full = shell.resolve(target)
    folder = folder or target.endswith(("/", "/.", "/..")) or target in (".", "..")
    folder = (
        folder
        or unknown(target)
        or any(
            place == full or place.startswith(full.rstrip("/") + "/")
            for place in shell.state.places
        )
    )
    if folder and base not in ("", ".", ".."):
        shell.touch(How.WRITE, into, program=name)
    full = shell.resolve(source)
    content = shell.files.content.get(full)
    if content is None and re.match(r"/(?:usr/(?:local/)?)?s?bin/[^/]+$", full):
        content = PROGRAM + full.rsplit("/", 1)[-1]
    if content is not None:
        store(shell, target, content)
        store(shell, into, content)


def _copy(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    valued = (*entry.values, *_TARGET)
    parsed = parse(
        call.args, valued, ("--recursive", "--target-directory", "--no-target-directory")
    )
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    if parsed.has("-d", "--directory") and call.name.endswith("install"):
        for path in parsed.operands:
            shell.touch(How.WRITE, path, program=call.name)
        return ""
    sources, target = _split(parsed)
    for mode in parsed.values("-m", "--mode"):
        judge_mode(shell, mode, call.name)
    for source in _judged(shell, sources):
        shell.touch(How.READ, source, program=call.name)
        if parsed.has("-r", "-R", "-a", "--recursive", "--archive"):
            leaks.swept(shell, source, call.name)
        if target:
            if source == "/dev/null":
                shell.touch(How.EMPTY, target, program=call.name)
            _arrive(shell, source, target, call.name, folder=parsed.has(*_TARGET))
    return ""


def _move(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, (*entry.values, *_TARGET), ("--exchange", "--target-directory"))
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    if call.name not in ("mv", "gmv"):
        for path in parsed.operands[1:]:
            shell.touch(How.MOVE, path, program=call.name)
        shell.find(
            Tier.DANGER, "move", "it renames files by an expression; the new names are not known"
        )
        return ""
    sources, target = _split(parsed)
    for source in _judged(shell, sources):
        shell.touch(How.MOVE, source, program=call.name)
        if target in ("/dev/null",):
            shell.touch(How.DELETE, source, program=call.name)
        elif target:
            if _leaves(shell, source, target):
                shell.touch(How.DELETE, source, program=call.name)
            _arrive(shell, source, target, call.name, folder=parsed.has(*_TARGET))
    return ""


def _leaves(shell: Shell, source: str, target: str) -> bool:
    """Return whether a file goes to a folder for temporary files, where nothing stays.

    A workspace that lies there itself is none.
    """
    stays, goes = (_lasting(shell, one) for one in (source, target))
    return stays and not goes


def _lasting(shell: Shell, path: str) -> bool:
    """Return whether a path is no temporary file's, or a workspace's."""
    full = shell.resolve(path) + "/"
    inside = any(full.startswith(root.rstrip("/") + "/") for root in shell.workspaces)
    return inside or not full.startswith(_TEMPORARY)


def _link(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, (*entry.values, *_TARGET))
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    sources, target = _split(parsed)
    for source in _judged(shell, sources):
        name = target or source.rstrip("/").rsplit("/", 1)[-1]
        full = shell.resolve(name)
        symbolic = parsed.has("-s", "--symbolic") or call.name == "symlink"
        parent = full.rsplit("/", 1)[0] or "/"
        there = shell.resolve(source, parent) if symbolic else shell.resolve(source)
        shell.touch(How.READ if not symbolic else How.EXIST, there, program=call.name)
        shell.touch(How.WRITE, name, program=call.name)
        if target:
            shell.touch(
                How.WRITE,
                f"{target.rstrip('/')}/{source.rstrip('/').rsplit('/', 1)[-1]}",
                program="ln",
            )
        match = re.match(r"/(?:usr/(?:local/)?)?s?bin/([^/]+)$", there)
        if match:
            store(shell, name, PROGRAM + match[1])
        elif there != full:
            shell.files.links[full] = there
    return ""


def _tee(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args)
    text = call.stdin if call.stdin is not None else HOLE
    for path in parsed.operands:
        if shell.feed(path, text) or path in (
            "/dev/null",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/tty",
            "-",
        ):
            continue
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
        appends = parsed.has("-a", "--append")
        shell.touch(How.APPEND if appends else How.WRITE, path, program=call.name)
        store(shell, path, text, appends=appends)
    return text


def _truncate(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, (*entry.values, *entry.uses))
    catalog.apply(shell, call, entry, parsed)
    size = parsed.value("-s", "--size", "-l", "--length")
    empties = size in ("0", "")
    if re.search(r"\d(?:[GTPE]i?B?|\d{9,})$", size):
        shell.find(Tier.DANGER, "resources", f"`{call.name}` makes a very large file")
    for path in parsed.operands:
        shell.touch(How.EMPTY if empties else How.WRITE, path, program=call.name)
    return ""


def _dd(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`dd`: {entry.because}")
    bounded = any(re.match(r"count=\d{1,5}$", argument) for argument in call.args)
    if not bounded and {"if=/dev/zero", "if=/dev/urandom"} & set(call.args):
        shell.find(Tier.DANGER, "resources", "`dd` copies from a device that never ends")
    settings = dict(word.split("=", 1) for word in call.args if "=" in word)
    content = call.stdin if call.stdin is not None else HOLE
    if source := settings.get("if"):
        if not source.startswith(("/dev/zero", "/dev/urandom", "/dev/random", "/dev/null")):
            shell.touch(How.READ, source, program="dd")
        content = shell.files.content.get(shell.resolve(source), HOLE)
    if target := settings.get("of"):
        if not shell.feed(target, content) and target != "/dev/null":
            shell.touch(How.WRITE, target, program="dd")
            if source == "/dev/null":
                shell.touch(How.EMPTY, target, program="dd")
            store(shell, target, content)
        return ""
    return content


def _make(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values)
    for mode in parsed.values("-m", "--mode"):
        judge_mode(shell, mode, call.name)
    return catalog.apply(shell, call, entry, parsed)


def _mktemp(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, (*entry.values, *entry.uses))
    catalog.apply(shell, call, entry, parsed)
    private = "/tmp"  # noqa: S108 - the cell's own directory
    named = parsed.operands and not parsed.has("-t")
    folder = parsed.value("-p", "--tmpdir") or ("" if named else private)
    name = re.sub(r"X+", NUM, parsed.operands[0]) if parsed.operands else f"tmp.{NUM}"
    return f"{folder}/{name}\n" if folder else name + "\n"


READERS = {
    "make": _make,
    "mktemp": _mktemp,
    "rm": read_rm,
    "deleter": read_deleter,
    "copy": _copy,
    "move": _move,
    "link": _link,
    "tee": _tee,
    "truncate": _truncate,
    "dd": _dd,
    "chmod": read_chmod,
}
