# SPDX-License-Identifier: Apache-2.0
"""The files that a call which a person is asked about runs: shown, and bound to their word.

INVARIANT (P8, scripts): a person's word covers the files of the workspaces that a call's text names
to be run, as they were read when the person was asked: another content asks again. What they load
in turn is held by the cell and gate 2, like all code of the project.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from policy.facts import WRITES, Facts, Finding, How
from policy.gate1.decide import Policy
from policy.model import ActionPlan, Context, Decision
from policy.people.approval import Wanted, wanted
from policy.shell.held_scripts import MOST_TEXT, is_shell_script
from policy.shell.state import Seen
from policy.tools import reading as tools
from policy.values.partial import globbed, shown, unknown
from sandbox.errors import SandboxError
from sandbox.host import files as own_files

MOST_SCRIPTS = 64
"""Files that one call may run by name where a person is asked: nobody could read more."""
MOST_LOOKS = 8
"""How deep scripts that run scripts are followed."""
MOST_SHOWN = 40_000
"""Characters of one that are kept for people."""
MOST_HASHED = 256 << 20
"""Bytes; a larger file counts by what tells it from any other."""

_PIECE = 1 << 20
_INNER = re.compile(r", in `[^`]*`$")
"""Ends what is found in a script (`policy.shell.held_scripts`)."""
_BUILDS = re.compile(r"(`[^`]+`): (?:builds the project or runs its tools|runs a script of)")
Identity = tuple[int, int, int, int, int]


class TooManyScripts(SandboxError):
    """A call runs more files than a person can be asked about."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file that a call runs, as it was read."""

    path: str
    digest: str
    """SHA-256 of what it holds, in hex; empty: nothing stood there, or nothing that can be read."""
    identity: Identity | None
    shown: str

    def bound(self) -> str:
        """Return what an approval is compared by."""
        return f"{self.path} {self.digest or 'nothing'}"


def wanted_with_scripts(
    plan: ActionPlan,
    decision: Decision,
    context: Context,
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> tuple[Wanted, tuple[Script, ...]]:
    """Return what a call wants, and the files that it runs, which are a part of that.

    Raises TooManyScripts.
    """
    scripts, unbound = read_scripts(plan, context, policy)
    bound = tuple(script.bound() for script in scripts)
    what = wanted(plan, decision, context, policy, env=env, stdin=stdin, scripts=bound)
    return what.model_copy(update={"unbound": unbound}), scripts


def read_scripts(
    plan: ActionPlan, context: Context, policy: Policy
) -> tuple[tuple[Script, ...], tuple[str, ...]]:
    """Return the files of its workspaces that a call runs, as they stand now, and what else it runs
    of which nobody can tell the text now, in words. Raises TooManyScripts."""
    roots = [os.path.realpath(place) for place in (plan.workspace, *plan.also)]
    disk: dict[str, Seen] = {}
    read: dict[str, Script] = {}
    unbound: dict[str, None] = {}
    for _ in range(MOST_LOOKS):
        facts = tools.facts(plan, context, policy.catalog, policy.tools, disk)
        fresh = [
            path for path in _known(facts, How.RUN) if path not in read and _lies_in(path, roots)
        ]
        if not fresh:
            break
        if len(read) + len(fresh) > MOST_SCRIPTS:
            raise TooManyScripts(
                f"it runs more than {MOST_SCRIPTS} files, and a person is asked about all of them; "
                "make several calls of it"
            )
        for path in fresh:
            read[path], text = _read(path)
            known = text is not None and len(text) <= MOST_TEXT
            disk[path] = Seen(text if known else None)
            if text is not None and not known and is_shell_script(path, text):
                unbound[f"what `{path}` runs in turn, since it is long"] = None
    else:
        unbound[f"what scripts run that others run, more than {MOST_LOOKS - 1} deep"] = None
    for path in _inputs(facts):
        if path in read or not _lies_in(path, roots) or os.path.isdir(path):  # noqa: PTH112
            continue
        if len(read) >= MOST_SCRIPTS:
            unbound["more of the files that it reads and runs"] = None
            break
        read[path], _text = _read(path)
    folders = [path for path in read if os.path.isdir(path)]  # noqa: PTH112
    unbound |= dict.fromkeys(f"what lies in the folder `{path}`" for path in folders)
    unbound |= dict.fromkeys(_unbound(facts))
    return tuple(one for path, one in read.items() if path not in folders), tuple(unbound)


def shown_scripts(scripts: Sequence[Script]) -> dict[str, str]:
    """Return what a person is shown of files that are there, by their paths."""
    return {script.path: script.shown for script in scripts if script.digest}


def other_scripts(scripts: Sequence[Script]) -> list[str]:
    """Return those that hold something else by now than what was read."""
    touched = set(touched_scripts(scripts))
    return [
        script.path
        for script in scripts
        if script.path in touched and _read(script.path)[0].digest != script.digest
    ]


def touched_scripts(scripts: Sequence[Script]) -> list[str]:
    """Return those that are another file by now, or were written to, whatever they hold."""
    return [script.path for script in scripts if _identity(script.path) != script.identity]


def _known(facts: Facts, how: How) -> list[str]:
    """Return the paths of files to which this is done, as far as they are known."""
    paths = dict.fromkeys(touch.path for touch in facts.touches if touch.how is how)
    return [path for path in paths if _is_known(path)]


def _is_known(path: str) -> bool:
    return not unknown(path) and not globbed(path)


def _inputs(facts: Facts) -> list[str]:
    """Return the files that a call reads where it also runs what it reads or writes (`sh < FILE`,
    `cp FILE x.sh; sh x.sh`)."""
    runs = any(map(_runs_input, facts.findings)) or any(_made(facts))
    return _known(facts, How.READ) if runs else []


def _unbound(facts: Facts) -> Iterator[str]:
    """Yield what is run of which nobody can tell the text before the call, in words."""
    for path in _made(facts):
        yield f"what the call itself writes to `{path}` before it runs it"
    for touch in facts.touches:
        if touch.how is How.RUN and not _is_known(touch.path):
            yield f"the files `{shown(touch.path)}`"
    reads = [touch.path for touch in facts.touches if touch.how is How.READ]
    certain = bool(reads) and all(map(_is_known, reads))
    for finding in facts.findings:
        if _INNER.search(finding.reason):
            continue  # a script is held by the cell and gate 2 in what it does
        if _runs_input(finding) and (not certain or finding.reason.startswith("the program `")):
            yield f"what is meant by this: {shown(finding.reason)}"
        if finding.rule == "build" and (said := _BUILDS.match(finding.reason)) is not None:
            yield f"what {said[1]} runs of the project"


def _runs_input(finding: Finding) -> bool:
    return finding.rule == "opaque" and _INNER.search(finding.reason) is None


def _made(facts: Facts) -> Iterator[str]:
    """Yield the paths of files that a call writes before it runs them."""
    written = set()
    for touch in facts.touches:
        if touch.how is How.RUN and touch.path in written:
            yield touch.path
        elif touch.how in WRITES and touch.how is not How.META:
            written.add(touch.path)


def _lies_in(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return any(Path(real).is_relative_to(root) for root in roots)


def _read(path: str) -> tuple[Script, str | None]:
    """Return a file, and its text where that can be read like a call's own."""
    try:
        with own_files.opened(Path(os.path.realpath(path))) as file:
            identity = _of(os.fstat(file.fileno()))
            start = file.read(MOST_SHOWN * 4)
            digest = "" if identity[2] > MOST_HASHED else _digest(start, file)
    except OSError:
        return Script(path, "", _identity(path), ""), None
    digest = digest or "-".join(map(str, identity))
    size = f"{identity[2]} bytes, SHA-256 {digest}"
    whole = len(start) == identity[2]
    try:
        text = start.decode() if whole else start.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Script(path, digest, identity, f"{size}, which are no text"), None
    cut = not whole or len(text) > MOST_SHOWN
    rest = "\n... and more that is not shown" if cut else ""
    return Script(path, digest, identity, f"{size}:\n{text[:MOST_SHOWN]}{rest}"), text


def _digest(start: bytes, rest: BinaryIO) -> str:
    made = hashlib.sha256(start)
    while piece := rest.read(_PIECE):
        made.update(piece)
    return made.hexdigest()


def _identity(path: str) -> Identity | None:
    try:
        return _of(os.stat(os.path.realpath(path)))  # noqa: PTH116
    except OSError:
        return None


def _of(kind: os.stat_result) -> Identity:
    return kind.st_dev, kind.st_ino, kind.st_size, kind.st_mtime_ns, kind.st_ctime_ns
