# SPDX-License-Identifier: Apache-2.0
"""Programs that a person names in a policy file: what they are, and what a call of one amounts to.

Pure. INVARIANT (P7, own programs): a name counts only where the catalog does not know it, several
words on one program count by the strictest, and what the program's script is seen to do still
counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from policy.facts import Finding, How
from policy.model import Frozen, Tier
from policy.values.partial import HOLE, NET
from policy.values.paths import absolute

if TYPE_CHECKING:
    from policy.shell.interpreter import Shell
    from policy.shell.state import Call

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*|(?:\./)?(?:[A-Za-z0-9_.+-]+/)+[A-Za-z0-9_.+-]+")
OWN = "own:"
"""How the rules of such programs begin."""
Paths = tuple[Annotated[str, Field(min_length=1)], ...]


class OwnProgram(Frozen):
    """A program of one's own: a name, or a path in the workspace (`tools/release`)."""

    id: str
    programs: tuple[str, ...] = Field(min_length=1)
    tier: Literal[Tier.CAUTION, Tier.DANGER, Tier.FORBIDDEN]
    """`caution` is the mildest: it runs and is reported."""
    because: str
    reads: Paths = ()
    """Paths in the workspace that it reads, and that are judged as if the call named them."""
    writes: Paths = ()
    network: bool = False
    """What it prints comes from another machine, and is no code that a shell may run."""
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()

    @field_validator("programs")
    @classmethod
    def _named(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _NAME.fullmatch(name) or ".." in name.split("/"):
                raise ValueError(f"`{name}` is neither a name nor a path in the workspace")
        return tuple(name.removeprefix("./") if "/" in name else name for name in names)

    @property
    def rule(self) -> str:
        """The name under which answers on it stand; no rule of the product is called so."""
        return f"{OWN}{self.id}"


Own = Mapping[str, tuple[OwnProgram, ...]]
"""By name or path."""


def indexed(before: Own, added: tuple[OwnProgram, ...]) -> Own:
    """Return what several files say, by name."""
    found = dict(before)
    for program in added:
        for name in program.programs:
            found[name] = (*found.get(name, ()), program)
    return found


def at_path(own: Own, shell: Shell, path: str) -> tuple[OwnProgram, ...]:
    """Return what is said of the program at a path, which lies in a workspace."""
    for root in shell.workspaces if own else ():
        if path.startswith(root + "/"):
            return own.get(path[len(root) + 1 :], ())
    return ()


def record_call(shell: Shell, call: Call, said: tuple[OwnProgram, ...]) -> str:
    """Record one call of a program that a person named, and return what it prints."""
    for program in said:
        shell.find(program.tier, program.rule, f"`{call.name}`: {program.because}")
        for how, paths in ((How.READ, program.reads), (How.WRITE, program.writes)):
            for path in paths:
                place = shell.workspaces[0] if shell.workspaces else shell.state.place
                shell.touch(how, absolute(path, place), program=call.name)
        shell.facts.network |= program.network
    foreign = any(own_program.network for own_program in said) or NET in (call.stdin or "")
    return NET if foreign else HOLE


def believe_path(shell: Shell, before: set[Finding]) -> None:
    """Lower what only a want of knowledge of the script made; what was seen in it stays."""
    for finding in [finding for finding in shell.facts.findings if finding not in before]:
        if finding.rule == "script" and finding.tier is Tier.DANGER:
            del shell.facts.findings[finding]
            shell.find(Tier.CAUTION, "script", finding.reason)
