# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on links of a person's: what lies at the end of one counts as what the link stands for.

    Linked({"tools/vscode": ".vscode"})      where `.vscode` is a link to `tools/vscode`

A link that a call makes in place of something obeyed or protected is held by its own name. This is
about those that are there already, a file's as well as a folder's. All that lies at the end of one
within a git folder (`.git/hooks -> ../hooks`) is held: git's own checks go by its own paths. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from policy.protected.printable import on_one_line
from policy.values.comparison import normal


@dataclass(frozen=True, slots=True)
class Linked:
    """Where links lead that stand in place of what counts."""

    targets: Mapping[str, str] = field(default_factory=dict)
    """`normal` path of the workspace -> the link that leads to it."""
    of_git: frozenset[str] = frozenset()
    """Those links among them that lie in a git folder."""
    beyond: int = 0
    """There may be more: so many entries were looked at, and not all; 0 where all were."""

    def because(self, path: str, paths: PathPolicy) -> str | None:
        """Return why a path counts by another name; None where it does not."""
        if not self.targets:
            return None
        parts = normal(path).split("/")
        for count in range(len(parts), 0, -1):
            link = self.targets.get("/".join(parts[:count]))
            if link is None:
                continue
            name = "/".join((link, *parts[count:]))
            if link in self.of_git:
                shown = on_one_line(name)
                return f"it is `{shown}`, as `{on_one_line(link)}` is a link: git reads it there"
            rule = paths.governance_of(name) or paths.obeyed_of(name)
            if rule is not None:
                why = rule.because or "it is protected"
                return f"it is `{on_one_line(name)}`, as `{on_one_line(link)}` is a link: {why}"
        return None

    def leads_below(self, path: str) -> str | None:
        """Return the link that leads to the folder `path`, or to something in it."""
        name = normal(path)
        head = name + "/"
        return next(
            (link for one, link in self.targets.items() if one == name or one.startswith(head)),
            None,
        )


NO_LINKS = Linked()


def unknown_links(linked: Linked) -> Iterator[PathReason]:
    """Yield why a call is held where nobody knows what all links of its workspace lead to."""
    if linked.beyond:
        because = (
            f"more than {linked.beyond} entries lie in the workspace, so that nobody knows which "
            "of them are links of what the host obeys; register a part of it"
        )
        yield PathReason("", Outcome.HOLD, "linked", because)


def linked_reasons(change: Change, linked: Linked, paths: PathPolicy) -> Iterator[PathReason]:
    """Yield the reasons why a change of what a link leads to is held."""
    if not linked.targets:
        return
    ends = (change.path,) if change.source is None else (change.path, change.source)
    for path in ends:
        because = None
        if change.type is not FileType.DIRECTORY:  # what a folder holds is listed by itself
            because = linked.because(path, paths)
        if because is None and change.type is not FileType.FILE and change.kind is not Kind.META:
            link = linked.leads_below(path)
            because = None if link is None else f"`{on_one_line(link)}` is a link into it"
        if because is not None:
            yield PathReason(path, Outcome.HOLD, "linked", because)
            return
