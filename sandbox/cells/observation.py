# SPDX-License-Identifier: Apache-2.0
"""What the observer saw while a call ran, and what follows from it for its effects. Pure.

The observer never loosens anything: it can turn what gate 2 would land into held or discarded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from policy.model import Judgement, Outcome, PathReason
from sandbox.results import WatchEvent

if TYPE_CHECKING:
    from policy.protected.paths import PathPolicy
    from sandbox.gates.gate2 import Effects

_SAID = {
    "created": "created",
    "copied": "opened for writing",
    "deleted": "deleted",
    "linked": "linked",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """What the keeper says of the watching of one transaction."""

    path: str | None = None
    """The first protected path that appeared."""
    events: tuple[WatchEvent, ...] = ()
    """What led to it, in order."""
    lost: str = ""
    """Why nobody watched any more; empty when somebody did."""
    behind: bool = False
    """Whether events had not been handled when the call ended."""
    lossy: bool = False
    """Whether the kernel dropped events, so that all names were looked at instead."""
    unlisted: str = ""
    """Why nobody can say what the call changed; empty where that is known."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Watched:
        """Read the fields `watch` and `unlisted` of the keeper's answer to `close`."""
        found = answer.get("watch") or {}
        alarm = found.get("alarm") or {}
        return cls(
            path=alarm.get("path"),
            events=tuple(_event(one) for one in alarm.get("events", ())),
            lost=found.get("lost", ""),
            behind=found.get("behind", False),
            lossy=found.get("lossy", False),
            unlisted=answer.get("unlisted", ""),
        )

    def over(self, effects: Effects, paths: PathPolicy) -> Effects:
        """Return the effects as the watching leaves them.

        A protected path that appeared discards them, also where it is gone again at the end. What
        cannot be listed is discarded, since nobody could look at it. Where nobody watched, what
        would land is held: nothing is lost, and a person looks at it.
        """
        outcome = effects.judgement.outcome
        if self.unlisted:
            reason = PathReason("", Outcome.DISCARD, "unlisted", self.unlisted)
            text = f"discarded, nothing landed: what it changed cannot be listed: {self.unlisted}"
            text += " (unlisted); instead, change less in one call, in folders less deep"
            return replace(effects, judgement=Judgement(Outcome.DISCARD, (reason,), text))
        if self.path is not None and outcome is not Outcome.DISCARD:
            return replace(effects, judgement=self._discard(effects.judgement, self.path, paths))
        if self.lost and outcome is Outcome.LAND and effects.total:
            text = f"held, nothing landed yet: it was not watched to its end ({self.lost})"
            text += "; a person can land or discard it"
            return replace(
                effects, judgement=replace(effects.judgement, outcome=Outcome.HOLD, message=text)
            )
        return effects

    def sentence(self) -> str:
        """Say what led to the protected path, for one line."""
        return ", ".join(said(event) for event in self.events)

    def _discard(self, judgement: Judgement, path: str, paths: PathPolicy) -> Judgement:
        shown = _printable(path)
        rule = paths.governance_of(path) or paths.governance_below(path)
        name = rule.id if rule else "protected"
        because = f"it is protected by {rule.name}" if rule else "it is protected"
        reason = PathReason(path, Outcome.DISCARD, name, f"{because}, and appeared")
        instead = f"; instead, {rule.allowed_path}" if rule else ""
        text = f"discarded, nothing landed: `{shown}` appeared: {because} ({name}){instead}"
        return Judgement(Outcome.DISCARD, (reason, *judgement.reasons), text)


def said(event: WatchEvent) -> str:
    """Say an event in a few words; the text is an agent's, so make it safe before it is shown."""
    if event.kind == "moved":
        return f"`{event.source}` moved onto `{event.path}`"
    if event.kind == "linked" and event.source:
        return f"`{event.path}` linked to `{event.source}`"
    return f"`{event.path}` {_SAID.get(event.kind, event.kind)}"


def lines(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say recorded events, one a line."""
    return [said(_event(event)) for event in events]


def _event(fields: Mapping[str, Any]) -> WatchEvent:
    source = fields.get("source")
    return WatchEvent(
        kind=str(fields["kind"]),
        path=_printable(str(fields["path"])),
        source=_printable(str(source)) if source else None,
    )


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
