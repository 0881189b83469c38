# SPDX-License-Identifier: Apache-2.0
"""Modes of autonomy: conservative, standard, autonomous (autonomy-policy.ts.txt).

`resolve_autonomy` is that document's function, with exactly its outcomes and its texts. It can turn
a base action of `deny` into `confirm`; as one layer of gate 1 it cannot, since there the strictest
answer of all layers counts (`ModesFile.answer`).
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from pydantic import Field

from policy.model import Frozen, LayerAnswer, Verdict
from policy.values import strict_yaml


class Mode(str, Enum):
    """The levels of the document, from the strictest to the mildest."""

    CONSERVATIVE = "conservative"
    STANDARD = "standard"
    AUTONOMOUS = "autonomous"


CONFIRM = "confirm"
BASE = {
    Verdict.ALLOW: "silent",
    Verdict.REPORT: "log",
    Verdict.ASK: CONFIRM,
    Verdict.DENY: "deny",
}
"""Verdicts as the base actions of the document; of these it names `confirm` and `silent`."""

DANGEROUS_TOOLS = frozenset(
    ("file.write", "file.edit", "file.patch", "shell.exec", "process.start", "process.kill")
)


class AutonomyDecision(Frozen):
    """The document's `AutonomyDecision`."""

    action: str
    """The final action to take."""
    overridden: bool
    """Whether the mode changed the base action."""
    reason: str
    level: str
    """The mode that was applied, as it was given."""


def resolve_autonomy(tool: str, base_action: str, level: str) -> AutonomyDecision:
    """Return the action for a tool, given the base action of other policy and the mode.

    Total: any tool and any base action is answered, and an unknown mode uses the base action.
    """
    mode = level.value if isinstance(level, Mode) else level
    action, overridden, reason = _resolved(tool, base_action, mode)
    return AutonomyDecision(action=action, overridden=overridden, reason=reason, level=mode)


def _resolved(tool: str, base: str, mode: str) -> tuple[str, bool, str]:
    dangerous = tool in DANGEROUS_TOOLS
    if mode == "conservative":
        if not dangerous:
            return base, False, f"Tool '{tool}' is safe in conservative mode"
        if base != CONFIRM:
            return CONFIRM, True, f"Tool '{tool}' requires confirmation in conservative mode"
        return CONFIRM, False, f"Tool '{tool}' already requires confirmation"
    if mode == "standard":
        if dangerous and base != CONFIRM:
            why = "(dangerous tool without explicit hook)"
            return CONFIRM, True, f"Tool '{tool}' requires confirmation in standard mode {why}"
        return base, False, f"Base action '{base}' applied in standard mode"
    if mode == "autonomous":
        return base, False, f"Base action '{base}' applied in autonomous mode"
    return base, False, "Unknown autonomy level; using base action"


class ModesFile(Frozen):
    """The file `modes.yaml`."""

    mode: Mode = Mode.CONSERVATIVE
    tools: dict[str, str] = Field(default_factory=dict)
    """Names of an agent's tools -> names of the document."""
    background: str = "process.start"
    """The name of a command that goes on in the background."""

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> ModesFile:
        """Return the modes that come with the package."""
        return strict_yaml.default(ModesFile, "modes.yaml")

    def tool(self, name: str, *, background: bool = False) -> str:
        """Return the document's name of a tool; an unknown tool keeps its own."""
        known = self.tools.get(name, name)
        return self.background if known == "shell.exec" and background else known

    def answer(self, tool: str, base: Verdict, *, background: bool = False) -> LayerAnswer:
        """Return the mode layer's answer on a tool, given what the other layers say together."""
        decision = resolve_autonomy(self.tool(tool, background=background), BASE[base], self.mode)
        asks = decision.overridden and base is not Verdict.DENY
        return LayerAnswer(
            layer="mode",
            verdict=Verdict.ASK if asks else base,
            reason=decision.reason,
            rule=f"mode-{self.mode.value}" if asks else "",
        )
