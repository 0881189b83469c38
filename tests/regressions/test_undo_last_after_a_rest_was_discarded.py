# SPDX-License-Identifier: Apache-2.0
"""Found: when the rest of a held call was discarded, `undo last` took the call for a landed one,
refused since it had landed in parts, and so never came to anything any more."""

from __future__ import annotations

from pathlib import Path

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs


def test_the_part_that_landed_is_the_last_one(tmp_path: Path) -> None:
    store = Store(Dirs(tmp_path / "state", tmp_path / "config", tmp_path / "run"))
    for event in (
        {"event": "decided", "call": "c1", "agent": "main", "tool": "Bash"},
        {"event": "ended", "call": "c1", "judgement": "hold", "landed": False},
        {"event": "landed", "call": "c1-1", "of": "c1", "agent": "main", "landed": True},
        {"event": "parted", "call": "c1", "parts": ["c1-1"], "landed": False},
    ):
        store.append(record_of(event), durable=True)
    assert store.last_landed().id == "c1-1"  # the control: nothing is discarded yet
    discarded = {"event": "discarded", "call": "c1", "judgement": "discard", "landed": True}
    store.append(record_of(discarded), durable=True)
    assert store.last_landed().id == "c1-1"
