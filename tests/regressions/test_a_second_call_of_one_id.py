# SPDX-License-Identifier: Apache-2.0
"""A client that made a second call under the id of a first wrote over what the record said of it:
a change that had landed was shown as a call that never ran, and could not be undone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.calls.ids import CallNames
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput
from tests.fakes import lines_of
from tests.sandbox.calls.test_supervisor import Bench, bench, run

__all__ = ["bench"]


def claim(dirs: Dirs, *names: str) -> None:
    """Take ids, one after the other, as one supervisor does."""

    async def take() -> None:
        known = CallNames(Store(dirs))
        for name in names:
            await known.claim(name)

    asyncio.run(take())


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    dirs = Dirs.under(tmp_path).create()
    for record in ({"event": "decided"}, {"event": "ended", "landed": True}):
        whole: dict[str, Any] = {"call": "c1", **record}
        Store(dirs).append(record_of(whole), durable=False)
    return dirs


@pytest.mark.parametrize("name", ["c1", "c1-1", "last", "", "a/b", "x" * 65])
def test_an_id_that_was_used_or_is_none_is_refused(dirs: Dirs, name: str) -> None:
    with pytest.raises(BadInput, match=r"was made already|a call's id is"):
        claim(dirs, name)


def test_other_ids_are_taken_once(dirs: Dirs) -> None:
    claim(dirs, "c", "c11", "c1-x", "c2-1")
    with pytest.raises(BadInput, match="a call `c3` was made already"):
        claim(dirs, "c3", "c3")
    with pytest.raises(BadInput, match="a call `c4` was made already"):
        claim(dirs, "c4", "c4-1")


def test_a_supervisor_refuses_it_before_anything_is_recorded(bench: Bench) -> None:
    first = bench.sh("true", call_id="c1")
    before = list(lines_of(bench.store))
    with pytest.raises(BadInput, match="a call `c1` was made already"):
        bench.sh("true", call_id="c1")
    with pytest.raises(BadInput, match="a call `c1` was made already"):
        run(bench.supervisor.admit(bench.plan("true"), call_id="c1"))
    assert list(lines_of(bench.store)) == before
    assert bench.sh("true", call_id="c2").ending == first.ending
