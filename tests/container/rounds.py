# SPDX-License-Identifier: Apache-2.0
"""One round of a walk over crashes: what is done, what must be true then, how it is put back."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.audit.call_entry import CallEntry
from sandbox.errors import BadInput
from tests.container.crashing import CHANGE, OBEYED, look
from tests.container.lab import Lab

BOTH = {
    "call": {"landed", "not landed"},
    "undo": {"undone", "not undone"},
    "land": {"landed", "held"},
    "part": {"landed", "held"},
    "discard": {"hold", "discard"},
}
"""What a walk must have met: kills before and kills after the point of no return."""


def entry_of(lab: Lab, call: str) -> CallEntry | None:
    """Return what the record says of a call; None where it says nothing."""
    lab.run(lab.supervisor._record.flush())
    try:
        return lab.supervisor._record.store.call(call)
    except BadInput:
        return None


class Round:
    """The workspace before and after an action, and how to make it ready for the next round."""

    def __init__(self, lab: Lab, change: str = CHANGE) -> None:
        self.change = change
        self.hold = f"{change}; {OBEYED}"
        self.old = look(lab.ws)
        done = lab.sh(self.change, derived_from="deletes")
        assert done.landed
        self.new = look(lab.ws)
        lab.run(lab.supervisor.undo(done.id))
        held = lab.sh(self.hold, derived_from="deletes")
        assert held.judgement == "hold"
        lab.run(lab.supervisor.land(held.id))
        self.held = look(lab.ws)
        lab.run(lab.supervisor.undo(held.id))
        assert look(lab.ws) == self.old
        assert len({str(self.old), str(self.new), str(self.held)}) == 3

    def begin(self, lab: Lab, scenario: str, call: str) -> Callable[[], object]:
        """Prepare a scenario and return the action under which something dies."""
        change = {"derived_from": "deletes", "call_id": call}
        if scenario == "call":
            return lambda: lab.sh(self.change, **change)
        if scenario == "undo":
            assert lab.sh(self.change, **change).landed
            return lambda: lab.run(lab.supervisor.undo(call))
        assert lab.sh(self.hold, **change).judgement == "hold"
        if scenario == "part":
            return lambda: lab.run(lab.supervisor.land(call, ["new.txt"]))
        return lambda: lab.run(getattr(lab.supervisor, scenario)(call))

    def put_back(self, lab: Lab, call: str) -> None:
        """Undo or discard whatever a call left."""
        entry = entry_of(lab, call)
        for part in (entry and entry.parts) or ():
            lab.run(lab.supervisor.undo(part))
        if entry is not None and entry.judgement == "hold" and not entry.landed:
            lab.run(lab.supervisor.discard(call))
        elif entry is not None and entry.landed and not entry.undone_by:
            lab.run(lab.supervisor.undo(call))
        assert look(lab.ws) == self.old


def agrees(lab: Lab, scenario: str, call: str, round_: Round) -> str:
    """Assert that files are old or new, and that the record says which; return which."""
    found, entry = look(lab.ws), entry_of(lab, call)
    if scenario == "call":
        landed = found == round_.new
        assert landed or found == round_.old
        if entry is None:
            assert not landed
            return "unknown"
        assert (entry.landed, entry.ending is not None) == (landed, True)
        return "landed" if landed else "not landed"
    assert entry is not None
    if scenario == "undo":
        undone = found == round_.old
        assert undone or found == round_.new
        assert bool(entry.undone_by) is undone
        return "undone" if undone else "not undone"
    if scenario == "land":
        landed = found == round_.held
        assert landed or found == round_.old
        assert entry.landed is landed
        assert (entry.judgement == "land") is landed
        return "landed" if landed else "held"
    if scenario == "part":
        landed = "new.txt" in found
        assert landed or found == round_.old
        assert (entry.judgement, entry.landed) == ("hold", False)
        assert (entry.parts or []) == ([f"{call}-1"] if landed else [])
        if landed:  # the part is known as itself, and what is left goes on from there
            part = entry_of(lab, f"{call}-1")
            assert part is not None
            assert [one["path"] for one in part.changes or ()] == ["new.txt"]
            assert "new.txt" not in [one["path"] for one in entry.changes or ()]
            assert lab.run(lab.supervisor.land(call, ["keep.txt"])).landed
        return "landed" if landed else "held"
    assert found == round_.old
    assert entry.judgement in ("hold", "discard")
    assert not entry.landed
    return str(entry.judgement)
