# SPDX-License-Identifier: Apache-2.0
"""Compare the reading of shell text with what bash does.

Scripts are made of marker programs that only write their own name; bash runs them in an empty
folder, with nothing else on its PATH. Whatever it ran, the reading must have found, or it must
have said that it cannot read the text.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from policy.programs.builtin_catalog import default
from policy.shell.reading import read
from tests.fuzz.generate import Grammar, mutated

MARKERS = tuple(f"mk{number}" for number in range(1, 10))
_NUMBERS = itertools.count()
SECONDS = 2.0
"""A script that takes longer is left out: it loops."""
_MARKER = '#!/bin/sh\nprintf "%s\\n" "${0##*/}" >> "$MARKS"\n'


@dataclass(frozen=True)
class Miss:
    """A script in which bash ran something that the reading did not find."""

    script: str
    ran: tuple[str, ...]
    found: tuple[str, ...]


def script(rng: random.Random) -> str:
    """Return a script of markers, with nothing that could do harm."""
    text = Grammar(rng, MARKERS).text(3)
    if rng.random() < 0.3:
        text = mutated(rng, text, (text, "mk1 $(mk2)", "mk3 <<E\nmk4\nE\n"))[:2000]
    return text


def harmless(text: str) -> bool:
    """Whether a script can only run markers: it opens no file by a path of the system."""
    return "/" not in text.replace("/dev/null", "") and "exec" not in text and "\x00" not in text


def ran(text: str, folder: Path) -> tuple[str, ...] | None:
    """Return the markers that bash runs, or None where it does not end."""
    marks = folder / f"marks-{next(_NUMBERS)}"  # what runs on in the background has its own
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    env = {"PATH": str(folder / "bin"), "MARKS": str(marks), "HOME": str(inside)}
    try:
        subprocess.run(
            ["/usr/bin/timeout", "-k", "1", str(SECONDS), "bash", "--norc", "-c", text],
            cwd=inside,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS + 3,
            check=False,
        )
    except (subprocess.TimeoutExpired, ValueError):
        return None
    if not marks.exists():
        return ()
    return tuple(dict.fromkeys(marks.read_text("utf-8", "replace").split()))


def lab(folder: Path) -> None:
    """Put the markers, and the few programs that run others, into a folder."""
    programs = folder / "bin"
    programs.mkdir()
    for name in MARKERS:
        (programs / name).write_text(_MARKER)
        (programs / name).chmod(0o755)
    for name in ("bash", "sh", "cat", "xargs"):
        found = next(one for one in (Path("/bin") / name, Path("/usr/bin") / name) if one.exists())
        (programs / name).symlink_to(found)


def miss(text: str, folder: Path) -> Miss | None:
    """Return what the reading of a script overlooked, or None."""
    done = ran(text, folder)
    if not done:
        return None
    facts = read(default(), text, "/workspace", "/home/me")
    unread = any(one.rule in ("opaque", "hidden-text") for one in facts.findings)
    found = {one.rsplit("/", 1)[-1] for one in facts.programs}
    if unread or found.issuperset(done):
        return None
    return Miss(text, done, tuple(facts.programs))


def misses(count: int, seed: int) -> tuple[int, list[Miss]]:
    """Try random scripts; return how many ran something, and which the reading misread."""
    rng = random.Random(seed)
    compared, found = 0, []
    with tempfile.TemporaryDirectory(prefix="lockgate-truth-") as name:
        folder = Path(name)
        lab(folder)
        for _ in range(count):
            text = script(rng)
            if not harmless(text):
                continue
            compared += 1
            if (one := miss(text, folder)) is not None:
                found.append(one)
    return compared, found
