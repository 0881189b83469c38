# SPDX-License-Identifier: Apache-2.0
"""What a workspace must hold after many agents worked in it: every acknowledged update, once.

Pure but for `read`, which looks at the files. Who makes an update tells the ledger when it was
acknowledged; `differences` says what the files lack, or hold without a word of anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OWN = (".git", ".lockgate")
"""Folders whose content is not an update."""
SHOWN = 5
"""Differences of one kind that are named."""


@dataclass(slots=True)
class Ledger:
    """The updates that were acknowledged. Paths are relative to the workspace."""

    lines: dict[str, Counter[str]] = field(default_factory=dict)
    """Files of lines, in which the order means nothing: path -> how often each line stands."""
    files: dict[str, str] = field(default_factory=dict)
    """Files with one content: path -> text."""
    counts: Counter[str] = field(default_factory=Counter)
    """Files that hold a number: path -> how often it was raised."""
    commits: set[str] = field(default_factory=set)
    """Messages of git commits."""

    def appended(self, path: str, line: str) -> None:
        """Note a line that was added."""
        self.lines.setdefault(path, Counter())[line] += 1

    def taken_back(self, path: str, line: str) -> None:
        """Note a line that was undone."""
        self.lines[path][line] -= 1

    def expected(self) -> dict[str, object]:
        """Return what each file must hold; lines that must not stand anywhere are left out."""
        found: dict[str, object] = {path: +lines for path, lines in self.lines.items()}
        found |= self.files
        found |= {path: str(count) for path, count in self.counts.items()}
        return found

    def differences(self, root: Path, commits: Counter[str]) -> list[str]:
        """Return what differs between the ledger and the files, one line each; best is none.

        `commits` is how often each commit message stands in the history.
        """
        expected = self.expected()
        present = read(root)
        out = _some("missing", sorted(set(expected) - set(present)))
        out += _some("nobody made", sorted(set(present) - set(expected)))
        for path in sorted(set(expected) & set(present)):
            out += _compared(path, expected[path], present[path])
        out += _some("lost commit", sorted(self.commits - set(commits)))
        out += _some("commit of nobody", sorted(set(commits) - self.commits))
        out += _some("commit twice", sorted(m for m, count in commits.items() if count > 1))
        return out


def read(root: Path) -> dict[str, str]:
    """Return the text of every file of a workspace but git's and Lockgate's own."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] not in OWN and not path.is_dir():
            found[str(name)] = path.read_text("utf-8")
    return found


def _compared(path: str, expected: object, text: str) -> list[str]:
    if not isinstance(expected, Counter):
        same = text.rstrip("\n") == expected
        return [] if same else [f"{path}: holds {text!r} instead of {expected!r}"]
    lines: Mapping[str, int] = Counter(text.splitlines())
    lost = [line for line, count in expected.items() if lines.get(line, 0) < count]
    more = [line for line, count in lines.items() if count > expected.get(line, 0)]
    return _some(f"{path}: lost", lost) + _some(f"{path}: too often", more)


def _some(what: str, found: list[str]) -> list[str]:
    if not found:
        return []
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return [f"{what} {', '.join(f'`{one}`' for one in found[:SHOWN])}{more}"]
