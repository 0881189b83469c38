# SPDX-License-Identifier: Apache-2.0
"""Scripts and programs of the project that a call runs: what is known of them, how they count.

Pure. The caller looks at the files that a first reading wanted (`Facts.wanted`) and hands in what
it found (`Seen`). A script's text is read like `bash -c`; what cannot be known in it counts no more
than in `python FILE`, which is not read at all: cell and gate 2 hold both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from policy.facts import READS, WRITES, Facts, Finding, How
from policy.model import Tier
from policy.shell.interpreter import Shell
from policy.shell.state import Seen
from policy.values.partial import NET, shown, unknown

MOST_TEXT = 16 * 1024
"""Bytes of a script that are read; a longer one counts like a program."""
_SHELL_NAME = re.compile(r"(?i)\.(?:sh|bash|zsh|ksh|csh|fish|command|bat|cmd|ps1)$")
_SHEBANG = re.compile(r"#![^\n]*\b(?:ba|z|k|da|a|mk)?sh\b")
_UNKNOWABLE = frozenset(("opaque", "script", "unknown-program"))
"""Rules of what cannot be known in a text."""


def run_script(shell: Shell, path: str, work: Callable[[str], str], *, program: bool) -> None:
    """Record that a file is run which the text itself did not write.

    `work` reads a text as the call would run it. `program` says that the call starts the file
    itself, so that a name without a shell's ending can be one of a program.
    """
    full = shell.resolve(path)
    seen = None if unknown(full) else shell.disk.get(full)
    if seen is None and not unknown(full):
        shell.facts.wanted[full] = None
    if seen is None or seen.folder or seen.absent or rewritten(shell.facts, full):
        if program and not unknown(full) and not _SHELL_NAME.search(full):
            shell.find(Tier.CAUTION, "script", f"it runs the project's own program `{path}`")
        else:
            why = f"it runs the file `{path}`, whose text is not known"
            shell.find(Tier.DANGER, "script", why)
    elif seen.foreign:
        why = f"it runs `{path}`, which came from outside: neither git nor a landing has it"
        shell.find(Tier.DANGER, "script", why)
    else:
        shell.find(Tier.CAUTION, "script", f"it runs the project's own `{path}`")
        if seen.text is not None and not _other_language(seen.text):
            _read(shell, full, seen.text, work)


def why_lossless(seen: Seen | None, how: How, path: str, facts: Facts) -> str:
    """Return why nothing that a person had goes where a call deletes or empties this, or "".

    What the call itself writes where nothing stood is its own, unless it can have moved it there.
    """
    verb = "empties" if how is How.EMPTY else "deletes"
    if seen is None:
        return ""
    if seen.own:
        return f"it {verb} what only this agent made"
    if seen.spare:
        return f"it {verb} what git ignores"
    if seen.empty:
        return "it removes a folder that holds nothing"
    hows = {touch.how for touch in facts.touches if touch.path == path or touch.how is How.MOVE}
    if not seen.absent or How.MOVE in hows or "git" in facts.programs:
        return ""
    if how is How.EMPTY:
        return "it makes an empty file"
    return "" if hows.isdisjoint((How.WRITE, How.APPEND)) else "it deletes what it made itself"


def rewritten(facts: Facts, full: str) -> bool:
    """Return whether the call changes the file before it runs it, so that it is another then."""
    return any(
        touch.path == full or (unknown(touch.path) and touch.how in WRITES)
        for touch in facts.touches
        if touch.how in WRITES and touch.how is not How.META
    )


def is_shell_script(path: str, text: str) -> bool:
    """Return whether a file is a script for a shell, by its first line, else by its name."""
    if text.startswith("#!"):
        return not _other_language(text)
    return _SHELL_NAME.search(path) is not None


def _other_language(text: str) -> bool:
    return text.startswith("#!") and _SHEBANG.match(text) is None


def _read(shell: Shell, full: str, text: str, work: Callable[[str], str]) -> None:
    if shell.runs_itself(full, text):
        return
    kept, budget = shell.facts, shell.budget
    shell.facts, shell.budget = Facts(), type(budget)()
    shell.scripts.append(full)
    try:
        work(text)
    finally:
        found, shell.facts, shell.budget = shell.facts, kept, budget
        shell.scripts.pop()
    for finding in found.findings:
        known = finding.rule not in _UNKNOWABLE or finding.tier is not Tier.DANGER
        reason = f"{shown(finding.reason)}, in `{full.rsplit('/', 1)[-1]}`"
        kept.findings[Finding(finding.tier if known else Tier.CAUTION, finding.rule, reason)] = None
    for touch in found.touches:
        if not unknown(touch.path) or (touch.how not in READS and touch.path[:1] == NET):
            kept.touches[touch] = None
    kept.programs |= found.programs
    kept.calls |= found.calls
    kept.wanted |= found.wanted
    kept.network |= found.network
